/* Threads that never run Python (of BLAS, OpenMP and the like): their counters.
 *
 * Where there are counters enough, the events are counted a second time over all threads of
 * the process, inherited from the first one; what is not the Python threads' is the native
 * ones', from their birth on, in one row.
 *
 * Else each has a group and a row of its own. Such a thread tells nobody that it begins: we
 * look for new ones when a call path is new, after long calls, and at regions. What they did
 * before they were found is lost: counters_finish() tells how much CPU time that was.
 *
 * What they have done since the last region's begin or end counts as done in the region that
 * was open, at the same call path in their row; when no region was open, or those of several
 * threads, under the row's root. All under the GIL; the lock is for threads that end. */
#ifndef TAUPY_NATIVES_H
#define TAUPY_NATIVES_H

#include "listeners.h"

extern Listener natives_listener;

/* `whole`: count once more, over all threads together. */
void natives_start(int whole);
/* The engine stops: nobody counts any more, and threads that end later close nothing. */
void counters_stop(void);

#endif
