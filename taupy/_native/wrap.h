/* Wrapped functions.
 *
 * os._exit and os.exec* never return, so the part must be closed before; only os.fork and
 * os.forkpty know the number of the process that they have made; and a program
 * that hands a child an environment made from os.environ, where our variable is not to be
 * seen, would lose that child's profile. The functions behind them are wrapped: the method
 * table keeps its object, its name and its address, only the C function that it points to
 * is ours, which does its bit and calls the real one. */
#ifndef TAUPY_WRAP_H
#define TAUPY_WRAP_H

#include <Python.h>

/* Put `ours` in place of the C function of a module's function, if that is called as `flags`
 * (METH_...) say; `real` is what was there. */
void wrap(PyObject *module, const char *name, PyCFunction *real, void *ours, int flags);

/* Those that end the process or start others. */
void wrap_functions(void);

#endif
