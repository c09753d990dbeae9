/* NVTX ranges, record_function phases (tracked by phases.c) and the program's timers stay open after
 * the routine in which they began has returned. A coroutine's timers stay with its task (awaits.h):
 * its caller, the event loop, goes on with other tasks. */
#ifndef TAUPY_CARRY_H
#define TAUPY_CARRY_H

#include "listeners.h"

#define RANGE_FRAMES 64 /* most frames between a range and its end */

/* Set by phases.c. */
typedef struct PhaseWatch {
    int (*goes_on)(Thread *thread, const Node *node); /* when its routine returns */
    void (*moved)(Thread *thread, const Node *from, Node *to); /* `to` NULL: nowhere */
    void (*closed)(const Thread *thread); /* the outermost routine has returned */
} PhaseWatch;

extern const PhaseWatch *phase_watch;
extern int ranges_open;    /* of NVTX */
extern size_t phases_open; /* of record_function */
extern int timers_used;    /* of the in-code API */
extern Listener carry_listener;

/* Open timer `key` at the cursor. Returns 0 if there is no room for it or it is too deep. */
int timer_begin(Thread *thread, void *key);
/* Reopen, under the cursor, the nodes that were open between `outer` (exclusive) and `inner`:
 * either ranges only, or also routines with everything open in them. Timers that began in `outer`
 * itself have ended with it. A range's call is counted at the place of the first call within it. */
void go_on(Thread *thread, Node *inner, Node *outer, int ranges_only, uint64_t now);
/* Ranges that began in a routine continue when it returns (`push` is often called by a helper),
 * unless that routine was the thread's outermost. */
void ranges_go_on(Thread *thread, Node *inner, Node *outer, uint64_t now);

#endif
