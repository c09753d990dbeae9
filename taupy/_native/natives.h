/* Counters of threads that never run Python (BLAS, OpenMP and the like).
 *
 * If there are enough hardware counters, the events are counted a second time over all threads of
 * the process, inherited from the first thread. The difference between these counts and those of
 * the Python threads is then attributed to the native threads, from their creation on, in a single
 * row. Otherwise each native thread has its own counter group and row. There is no notification of
 * such threads, so we look for new ones at new call paths, after long calls, and at regions. Their
 * work before they are found is lost; counters_finish() reports its CPU time. Counts since the last
 * start or end of a region are credited to the open region, at the same call path in their row; if
 * none was open, or several threads had one, to the row's root. Everything runs under the GIL; the
 * lock is for threads that end. */
#ifndef TAUPY_NATIVES_H
#define TAUPY_NATIVES_H

#include "listeners.h"

extern Listener natives_listener;

/* `whole`: count once more, over all threads together. */
void natives_start(int whole);
/* The engine stops: counting ends, and threads that end later close no counters. */
void counters_stop(void);

#endif
