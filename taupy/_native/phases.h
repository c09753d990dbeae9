/* `torch.profiler.record_function` as a phase, with nothing put into the program.
 *
 * Its `__enter__` and `__exit__` are known by name and file when their code is first met. Such
 * a routine has a flag, so that it never takes the quick way through `enter` and `leave`; what
 * is recorded of it stands with a second routine (`shown`) under a key that no code has. When
 * `__enter__` returns a phase begins, with the name that the object has in its `__dict__`; when
 * `__exit__` begins it ends. No code of the program runs for it.
 *
 * As a pushed NVTX range the phase goes on where its routine returns or yields, until its end;
 * or until the object is gone, which ends the range in PyTorch, too. */
#ifndef TAUPY_PHASES_H
#define TAUPY_PHASES_H

#include "listeners.h"

extern Listener phases_listener;

/* Have the engine tell of record_function's methods. */
void phases_start(void);
/* `__enter__` or `__exit__` is called; `object` may be NULL. Or a method of torch.profiler's. */
void phase_called(Thread *thread, Routine *routine, PyObject *object);
/* It returns, or an exception leaves it. */
void phase_returns(Thread *thread, Routine *routine, PyObject *object, int returned);

#endif
