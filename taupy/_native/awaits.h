/* The elapsed time of timers that a coroutine begins itself, with all that it awaits.
 *
 * Such a timer has the time up to the first suspension: its thread then goes on with other tasks.
 * The time from its start to its stop, whatever the thread did meanwhile, is a user event named
 * after the timer. */
#ifndef TAUPY_AWAITS_H
#define TAUPY_AWAITS_H

/* A timer begins, or ends; `name` and `key` are its own. Both need the GIL. */
void await_begin(const void *key);
/* Returns 1 if it is one of a coroutine. */
int await_end(const void *key, const char *name);

#endif
