/* `torch.profiler.record_function` as a phase, without changing the program.
 *
 * Its `__enter__` and `__exit__` are recognised by name and file when their code is first seen.
 * Such a routine carries a flag, so it never takes the fast path through `enter` and `leave`; it is
 * recorded through a second routine (`shown`), under a key that no code object has. A phase begins
 * when `__enter__` returns, named as in the object's `__dict__`, and ends when `__exit__` begins.
 * None of the program's code runs.
 *
 * Like an NVTX push range, the phase stays open when its routine returns or yields, until it is
 * ended, or until the object is destroyed, which also ends the range in PyTorch. */
#ifndef TAUPY_PHASES_H
#define TAUPY_PHASES_H

#include "listeners.h"

extern Listener phases_listener;

/* Have the engine report record_function's methods. */
void phases_start(void);
/* End a range or timer that is open at `node`: everything open in it is closed, too; routines that
 * have not returned continue where it began. Returns 0 if it is too deep, or not open here. */
int range_close(Thread *thread, Node *node);
/* `__enter__`, `__exit__` or a method of torch.profiler is called; `object` may be NULL. */
void phase_called(Thread *thread, Routine *routine, PyObject *object);
/* It returns, or raises. */
void phase_returns(Thread *thread, Routine *routine, PyObject *object, int returned);

#endif
