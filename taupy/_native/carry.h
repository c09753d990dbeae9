/* What goes on when the routine that it began in has returned: ranges of NVTX, and phases of
 * record_function, which `phases.c` knows more of. */
#ifndef TAUPY_CARRY_H
#define TAUPY_CARRY_H

#include "listeners.h"

#define RANGE_FRAMES 64 /* as many frames may lie between a range and its end */

/* Told by phases.c. */
typedef struct PhaseWatch {
    int (*goes_on)(Thread *thread, const Node *node); /* where its routine returns */
    void (*moved)(Thread *thread, const Node *from, Node *to); /* NULL: nowhere */
    void (*closed)(const Thread *thread); /* its outermost routine has returned */
} PhaseWatch;

extern const PhaseWatch *phase_watch;
extern int ranges_open;    /* of NVTX */
extern size_t phases_open; /* of record_function */
extern Listener carry_listener;

static inline enum Range range_kind(const void *key)
{
    return KEY_KIND(key) == KEY_TIMER ? ((NamedTimer *)KEY_POINTER(key))->range : RANGE_NONE;
}

/* Open timer `key` at the cursor. 0: there is no room for it, or it is too deep. */
int timer_begin(Thread *thread, void *key);
/* Go on, under the cursor, with what was open between `outer` (not with it) and `inner`: only
 * ranges, or routines, too, and what was open in them. Timers that began in `outer` itself have
 * ended with it. A range's call counts where first something is called in it. */
void go_on(Thread *thread, Node *inner, Node *outer, int ranges_only, uint64_t now);
/* Ranges that began in a routine go on when it returns (`push` is often called by one),
 * unless it was the thread's outermost. */
void ranges_go_on(Thread *thread, Node *inner, Node *outer, uint64_t now);

#endif
