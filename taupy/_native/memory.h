/* Resident memory of the process, sampled as user events, and its growth by call path.
 *
 * Each thread has windows of about 0.2 ms, which end at an entry or a return of a routine. In a
 * window in which the thread had no page fault it has touched no new memory. After one with
 * faults, and each 10 ms, there is a *look* at the process's resident memory; what it has grown by
 * since the last look is charged to the routine that was open until now. If that was entered in
 * the last window only, growth is charged if it had nine tenths of the window, and else stays
 * "between looks", at the routine that has been open all the time, as it is where nodes of a
 * backward pass ran without the GIL; then the thread's windows become fine, one an event, for a
 * while. What was given back is noted in the same way. */
#ifndef TAUPY_MEMORY_H
#define TAUPY_MEMORY_H

#include "listeners.h"

extern uint64_t sample_ticks; /* between looks at least, without page faults; 0: never */
extern Listener memory_listener;

/* Who else looks at the end of windows, and from when on; UINT64_MAX: never. */
typedef struct WindowWatch {
    uint64_t next_ticks;
    void (*look)(Thread *thread, Node *node, uint64_t now); /* as memory_due */
} WindowWatch;

extern WindowWatch window_watch;

void memory_start(void);
/* A thread's window is over; `node` was its innermost routine until now. Under the GIL. */
void memory_due(Thread *thread, Node *node, uint64_t now);
/* The same at an entry: the time when it is done. */
uint64_t memory_looked(Thread *thread, Node *node, uint64_t now);
/* The innermost routine that has been open since `from`; NULL: none. */
Node *open_since(Node *node, uint64_t from);
/* Are there other threads that may touch memory? */
int memory_has_others(const Thread *thread);

#endif
