/* Names as C strings. */
#ifndef TAUPY_NAMES_H
#define TAUPY_NAMES_H

#include <Python.h>

/* UTF-8, owned by the caller. Handles lone surrogates, and leaves no exception set. */
char *text_of(PyObject *object);

/* `builtins.len`, `list.append`: qualified by where it is defined. Owned by the caller; NULL if
 * memory runs out. */
char *name_of_c_function(PyObject *callable);

#endif
