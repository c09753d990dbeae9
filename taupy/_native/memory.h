/* Resident memory of the process, sampled as user events, and its growth by call path.
 *
 * Each thread's time is divided into windows of about 0.2 ms, which end at a routine's entry or
 * return. A thread that had no page fault in a window has touched no new memory. After a window
 * with faults, and every 10 ms, we *look* at the process's resident memory and charge its growth
 * since the last look to the routine that was innermost until now. If that routine was entered only
 * in the last window, it is charged if it took nine tenths of the time for which the thread ran.
 * Otherwise the thread's windows are shortened to single events for a while, to see in which routines
 * its page faults are; growth is divided by these, and recorded as "between looks", under the routine
 * that was open throughout, as far as they show nothing, or nodes of a backward pass ran without the
 * GIL. Released memory is recorded in the same way. */
#ifndef TAUPY_MEMORY_H
#define TAUPY_MEMORY_H

#include "listeners.h"

extern uint64_t sample_ticks; /* look at least this often, even without page faults; 0: never */
extern double ticks_per_ns;
extern Listener memory_listener;

/* A further observer of window ends, and the earliest time of its next call; UINT64_MAX: never. */
typedef struct WindowWatch {
    uint64_t next_ticks;
    /* Called like memory_due; `begins` is the node that is being entered, or NULL. */
    void (*look)(Thread *thread, Node *node, Node *begins, uint64_t now);
    int again; /* the thread's window ends with its next event */
    struct WindowWatch *next;
} WindowWatch;

/* Idempotent. */
void window_watch_add(WindowWatch *watch);

void memory_start(void);
/* A window of the thread has ended; `node` was its innermost routine until now. Needs the GIL. */
void memory_due(Thread *thread, Node *node, uint64_t now);
/* The same when this node is being entered; returns the time when done. */
uint64_t memory_looked(Thread *thread, Node *begins, uint64_t now);
/* The innermost routine open since `from`; NULL if there is none. */
Node *open_since(Node *node, uint64_t from);
/* Whether there are other threads that may touch memory. */
int memory_has_others(const Thread *thread);

#endif
