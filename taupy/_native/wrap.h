/* Wrapped functions.
 *
 * os._exit and os.exec* never return, so the part must be closed first; only os.fork and os.forkpty
 * know the pid of the process they create; and a program that gives a child an environment built
 * from os.environ, where our variable is hidden, would lose that child's profile. The underlying C
 * functions are wrapped: the method table keeps its object, name and address; only the C function
 * it points to is ours, which does its part and calls the real one. */
#ifndef TAUPY_WRAP_H
#define TAUPY_WRAP_H

#include <Python.h>

/* Replace the C function of a module's function with `ours`, if its calling convention is `flags`
 * (METH_...); `real` is set to the original. */
void wrap(PyObject *module, const char *name, PyCFunction *real, void *ours, int flags);

/* Wrap those that end the process or start others. */
void wrap_functions(void);

#endif
