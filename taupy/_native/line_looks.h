/* Looks at the lines that this process's threads are in, taken from within it, where the watch may
 * not read the process (`taupy run --lines=inside`): what a look counts for is decided as in
 * `watch/lines.py`, and written into files as those of the watch (`state/lines.py`), of this process
 * alone. No Python here, nothing is allocated, and only line_thread.c's thread calls it. */
#ifndef TAUPY_LINE_LOOKS_H
#define TAUPY_LINE_LOOKS_H

#include "calltree.h"
#include "remote.h"

/* A thread that is looked at. */
typedef struct LookedThread {
    Thread *thread;
    uint64_t index; /* its number when it was found: its memory may become another thread's */
    int64_t looked_ns;
    int is_living; /* at the last look for threads */
    RemoteThread remote;
} LookedThread;

/* Look and write from now on.
 *
 * folder, tasks: descriptors of the run folder and of /proc/self/task.
 * ticks: in the name of the process's part; if it is another one than before, all begins anew.
 * Returns -1 if there is no memory. */
int line_looks_begin(int folder, int tasks, uint64_t ticks);

enum LookResult { LOOK_TAKEN, LOOK_ENDED, LOOK_FORBIDDEN };

/* Look at a thread once. */
enum LookResult line_looks_take(LookedThread *looked);

/* So much CPU time went into looks; their sums are written. */
void line_looks_spent(int64_t cpu_ns);

#endif
