/* The environment that the program gives a child, with our variable in it. */
#ifndef TAUPY_ENVIRONMENT_H
#define TAUPY_ENVIRONMENT_H

#include <Python.h>

/* A copy of the mapping with our variable, or NULL if it is to stay as it is. What the program's
 * own mapping computes is asked for as the real function asks, and once only. */
PyObject *mapping_with_variable(PyObject *environment);
/* The same for a list of bytes, or None: of _posixsubprocess.fork_exec. */
PyObject *list_with_variable(PyObject *environment, PyObject *preexec);

#endif
