/* Functions the in-code API (taupy/instrument/annotate.py) calls while the engine is running. */
#ifndef TAUPY_API_H
#define TAUPY_API_H

#include <Python.h>

PyObject *timer_enter(PyObject *module, PyObject *args);
PyObject *timer_leave(PyObject *module, PyObject *args);
PyObject *step_begins(PyObject *module, PyObject *args);
PyObject *step_ends(PyObject *module, PyObject *unused);
PyObject *note_event(PyObject *module, PyObject *args);
PyObject *set_metadata(PyObject *module, PyObject *args);
PyObject *set_node(PyObject *module, PyObject *number);
PyObject *set_group(PyObject *module, PyObject *args);
PyObject *take_snapshot(PyObject *module, PyObject *label);

#endif
