/* What has been recorded so far, summed by name, for the in-code API and for tests. */
#ifndef TAUPY_FLAT_H
#define TAUPY_FLAT_H

#include <Python.h>

/* [(name, calls, inclusive_ns, exclusive_ns, kind)] over all threads so far, kind as in FlatKind.
 * Open activations count up to now. */
PyObject *flat(PyObject *module, PyObject *unused);
/* Sizes of the hash tables and the cost of look-ups; see table_steps. */
PyObject *tables(PyObject *module, PyObject *unused);

#endif
