/* What stands below an object that is a layer: modules, layers, or the steps of a pipeline.
 *
 * Frameworks keep it in different shapes, which are told from the object's variables:
 *
 *     `_modules`     a dict of modules by name: PyTorch
 *     `_layers`      a list of layers with names of their own, beside a `_tracker`: Keras
 *     `steps`, ...   a list of tuples that begin with a name and an object: scikit-learn
 *
 * No code of the program runs. All references are borrowed. */
#ifndef TAUPY_CHILDREN_OF_H
#define TAUPY_CHILDREN_OF_H

#include <Python.h>

typedef struct Children {
    enum { CHILDREN_NONE, CHILDREN_DICT, CHILDREN_NAMED, CHILDREN_PAIRS } shape;
    PyObject *holder;
} Children;

Children children_of(PyObject *object);
Py_ssize_t children_count(Children children);
/* As PyDict_Next. Keys are exact str. */
int children_next(Children children, Py_ssize_t *at, PyObject **key, PyObject **child);
/* The one of this name, or NULL. `last` is the one that had it when somebody looked last. */
PyObject *children_get(Children children, PyObject *key, const void *last);
/* The name that a layer of Keras has by itself; NULL: it is none. */
PyObject *own_name(PyObject *object);

#endif
