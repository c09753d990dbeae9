/* Python interface of counters.h: selecting the events to count, and trying them out. */
#ifndef TAUPY_COUNTERS_PYTHON_H
#define TAUPY_COUNTERS_PYTHON_H

#include <Python.h>

/* Set the events from a list of (type, config, weight, metric). */
int counters_wanted(PyObject *list);

extern const char counters_try_doc[];
PyObject *counters_try(PyObject *module, PyObject *args);

#endif
