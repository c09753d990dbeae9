/* Counters of threads that never run Python (BLAS, OpenMP and the like).
 *
 * If there are enough hardware counters, the events are counted a second time over all threads of
 * the process, inherited from the first thread. What is not the Python threads' then belongs to the
 * native ones, from their creation on, in a single row. Otherwise each native thread has a counter
 * group and a row of its own. Since nothing announces such a thread, we look for new ones at new
 * call paths, after long calls, and at regions. What they did before being found is lost:
 * counters_finish() reports how much CPU time that was. What they have done since the last start or
 * end of a region is credited to the region that was open, at the same call path in their row; if
 * none was open, or several threads had one, to the row's root. Everything runs under the GIL; the
 * lock is for threads that end. */
#ifndef TAUPY_NATIVES_H
#define TAUPY_NATIVES_H

#include "listeners.h"

extern Listener natives_listener;

/* `whole`: count once more, over all threads together. */
void natives_start(int whole);
/* The engine stops: counting ends, and threads that end later close nothing. */
void counters_stop(void);

#endif
