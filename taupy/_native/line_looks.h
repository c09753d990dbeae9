/* Looks at the lines that threads are in: what a look counts for, and the files of `state/lines.py`
 * in which that is counted, and when to look. The watch looks from outside, at many processes
 * (remote_python.c); with `taupy run --lines=inside`, a thread in each process looks at this one
 * (line_thread.c). No Python here; what is read of a process is not trusted.
 *
 * All that is known of one run takes at most 4 MiB, however long it lasts; nothing else is allocated.
 * Only one thread may look. */
#ifndef TAUPY_LINE_LOOKS_H
#define TAUPY_LINE_LOOKS_H

#include "activity.h"
#include "own_files.h"
#include "remote.h"

typedef struct Looks Looks;

/* A thread that is looked at. */
typedef struct LookedThread {
    int64_t pid;
    uint64_t ticks; /* with `pid`, the part */
    uint64_t index; /* its number in the part */
    uint32_t process; /* whose code objects are at its addresses: a number of the caller's */
    const void *of;   /* the caller's */
    int64_t looked_ns; /* CLOCK_MONOTONIC: looks count for the time since then */
    RemoteThread remote;
    Activity activity;
} LookedThread;

/* Whether the thread has ended, and its times were added up with those of others (thread_rows.h). */
typedef int LookIsOver(void *context, int64_t pid, uint64_t ticks, uint32_t thread, const void *of);

/* Returns NULL if there is no memory. */
Looks *line_looks_new(OwnFiles own, LookIsOver *is_over, void *context);
void line_looks_free(Looks *looks);

/* Write into these files, of rows and of codes. */
void line_looks_write_to(Looks *looks, int rows, int codes);

enum LookResult { LOOK_TAKEN, LOOK_ENDED, LOOK_FORBIDDEN };

/* Look at a thread once. */
enum LookResult line_looks_take(Looks *looks, LookedThread *looked);

/* Add up the rows of threads that are over. Done when there is no room, too. */
void line_looks_join(Looks *looks);

/* The first tick is due then (CLOCK_MONOTONIC). */
void line_looks_begin(Looks *looks, int64_t due);

/* So much CPU time went into the tick that began at `now`; the sums of looks are written. Returns
 * when the next one is due. Ticks come 200 times a second for two seconds, then 50 times, and become
 * rarer when they take more than their share of a core. */
int64_t line_looks_spent(Looks *looks, int64_t now, int64_t cpu_ns);

/* No look is permitted: why, as an errno. */
void line_looks_refused(Looks *looks, int why);

#endif
