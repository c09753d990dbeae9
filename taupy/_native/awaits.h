/* Timers of coroutines.
 *
 * A timer that is open in a coroutine follows it: when the coroutine is suspended, its timers stop
 * with it, and when it is resumed, they go on. The time from a timer's start to its stop, whatever
 * the thread did meanwhile, is a user event named after the timer.
 *
 * A coroutine is named by its frame, which stays where it is while it is suspended. */
#ifndef TAUPY_AWAITS_H
#define TAUPY_AWAITS_H

#include "routine.h"

/* A coroutine, or asynchronous generator, is about to be suspended; set by the hooks while they
 * leave it. */
typedef struct Suspension {
    const void *frame;
    int is_yield; /* an asynchronous generator gives its consumer a value */
} Suspension;

extern const Suspension *suspension; /* NULL: a routine ends. Protected by the GIL */
extern size_t timers_held; /* coroutines that are suspended with open timers */

/* A timer begins, or ends; `name` and `key` are its own. Both need the GIL. */
void await_begin(const void *key);
void await_end(const void *key, const char *name);
/* Whether an asynchronous generator yields this value to its consumer. */
int is_yielded(const PyObject *value);
/* Keep the timers between `inner` and `outer`, the node of the coroutine that is suspended. Returns
 * 0 if they are too many, or memory runs out. */
int timers_hold(const Node *inner, const Node *outer);
/* A coroutine with this frame has been resumed: what was open in it goes on. */
void timers_resume(Thread *thread, const void *frame);
/* The frame is suspended, or a new one: what an earlier one left there is of no use. */
void timers_drop(const void *frame);
/* The frame of the running routine. */
const void *frame_id(void);
/* The first time, note where a timer's time is not that between its start and its stop; `routine`:
 * NULL for the one that called us. */
void timer_note(const char *name, const Routine *routine);

#endif
