/* A window of steps that are recorded in detail (`taupy run --steps 100:120`).
 *
 * While a thread is in a step outside the window, the calls it makes are not recorded. The time
 * goes to a separate timer, "steps outside of 100:120", under the routine in which the step began,
 * and is split below it by phase, so these nodes are distinct from those of the window. A forward
 * pass appears there as the phase "forward", not as a layer. Below such a node (NODE_BRIEF), only
 * known routines, imports, and timers set by the program itself are recorded.
 *
 * The timer stays open across consecutive steps, moves to the caller when its routine returns
 * within a step, and stops after a step that no other follows. When the window begins, detailed
 * recording starts as soon as the timer's routine is the caller. */
#ifndef TAUPY_STEPS_WINDOW_H
#define TAUPY_STEPS_WINDOW_H

#include "listeners.h"
#include <Python.h>

extern Listener steps_window_listener;

/* First and last training step of the window, from 1; 0: no window. */
void steps_window_start(uint64_t first, uint64_t last);
/* A step may have begun or ended. `code` is the code of the routine that indicated so, or NULL if
 * that was not the program's. */
void steps_window_look(Thread *thread, const void *code);
/* Key of a forward pass outside the window, which is not recorded as a layer. NULL if memory runs
 * out. */
void *brief_forward(void);

static inline int is_brief(const Thread *thread) { return thread->cursor->flags & NODE_BRIEF; }

#endif
