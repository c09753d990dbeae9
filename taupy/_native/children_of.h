/* The children of a layer object: modules, layers, or the steps of a pipeline.
 *
 * Frameworks store them in different forms, recognised by the object's attributes:
 *
 *     `_modules`     a dict of modules by name: PyTorch
 *     `_layers`      a list of layers that have their own names, beside a `_tracker`: Keras
 *     `steps`, ...   a list of tuples that start with a name and an object: scikit-learn
 *
 * Parameters of PyTorch's modules lie beside them. None of the program's code runs. All references
 * are borrowed. */
#ifndef TAUPY_CHILDREN_OF_H
#define TAUPY_CHILDREN_OF_H

#include <Python.h>

typedef struct Children {
    enum { CHILDREN_NONE, CHILDREN_DICT, CHILDREN_NAMED, CHILDREN_PAIRS } shape;
    PyObject *holder;
} Children;

Children children_of(PyObject *object);
Py_ssize_t children_count(Children children);
/* Like PyDict_Next. Keys are exact str. */
int children_next(Children children, Py_ssize_t *at, PyObject **key, PyObject **child);
/* The child with this name, or NULL. `last` is the one that had the name at the last look-up. */
PyObject *children_get(Children children, PyObject *key, const void *last);
/* Those that a PyTorch module holds itself, by name; NULL if it has no such attribute. */
PyObject *parameters_of(PyObject *object);
/* The name a Keras layer has itself; NULL if it is not a Keras layer. */
PyObject *own_name(PyObject *object);

#endif
