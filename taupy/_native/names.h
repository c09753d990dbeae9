/* Names as C strings. */
#ifndef TAUPY_NAMES_H
#define TAUPY_NAMES_H

#include <Python.h>

/* UTF-8, the caller's own. Never fails on lone surrogates, never leaves an exception. */
char *text_of(PyObject *object);

/* `builtins.len`, `list.append`: where it is defined. The caller's own; NULL: no memory. */
char *name_of_c_function(PyObject *callable);

#endif
