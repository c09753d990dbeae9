/* A window of steps, whose details are recorded (`taupy run --steps 100:120`).
 *
 * While a thread is in a step outside of the window, what it calls is not recorded: the time lies
 * in a timer of its own, "steps outside of 100:120", under the routine in which the step began,
 * and below that in phases, whose nodes are apart from those of the window therefore. A forward
 * pass is the phase "forward" there, not a layer. What is recorded below such a node (NODE_BRIEF):
 * known routines, imports, and what the program times itself.
 *
 * The timer stays where steps follow each other, moves to the caller when the routine that it lies
 * in returns within a step, and ends with a step that is not followed by another. When the window
 * begins, details do as soon as the routine that the timer lies in is the one that calls. */
#ifndef TAUPY_STEPS_WINDOW_H
#define TAUPY_STEPS_WINDOW_H

#include "listeners.h"
#include <Python.h>

extern Listener steps_window_listener;

/* The window's first and last step of training, from 1; 0: there is no window. */
void steps_window_start(uint64_t first, uint64_t last);
/* A step may have begun or ended; what has told so runs `code`, or is none of the program's: NULL. */
void steps_window_look(Thread *thread, const void *code);
/* The key of a forward pass, which is no layer here. NULL: there is no memory. */
void *brief_forward(void);

static inline int is_brief(const Thread *thread) { return thread->cursor->flags & NODE_BRIEF; }

#endif
