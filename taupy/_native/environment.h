/* The environment that the program gives a child, with our variable added. */
#ifndef TAUPY_ENVIRONMENT_H
#define TAUPY_ENVIRONMENT_H

#include <Python.h>

/* A copy of the mapping with our variable added, or NULL if no change is needed. The program's own
 * mapping is read the way the real function reads it, and only once. */
PyObject *mapping_with_variable(PyObject *environment);
/* The same for a list of bytes, or None, as passed to _posixsubprocess.fork_exec. */
PyObject *list_with_variable(PyObject *environment, PyObject *preexec);

#endif
