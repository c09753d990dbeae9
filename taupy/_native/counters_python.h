/* The Python face of counters.h: which events to count, and a trial of them. */
#ifndef TAUPY_COUNTERS_PYTHON_H
#define TAUPY_COUNTERS_PYTHON_H

#include <Python.h>

/* Take the events of a list of (type, config, weight, metric). */
int counters_wanted(PyObject *list);

extern const char counters_try_doc[];
PyObject *counters_try(PyObject *module, PyObject *args);

#endif
