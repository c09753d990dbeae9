/* The children of a layer in their various forms; see children_of.h. */
#include "children_of.h"

enum Variable {
    MODULES, PARAMETERS, TRACKER, LAYERS, NAME, STEPS, TRANSFORMERS, TRANSFORMER_LIST, ESTIMATORS
};

static const char *const names[] = {"_modules",     "_parameters",      "_tracker",
                                    "_layers",      "name",             "steps",
                                    "transformers", "transformer_list", "estimators"};

/* An attribute in the object's own __dict__, without involving its class. Borrowed from it, or
 * NULL. */
static PyObject *variable_of(PyObject *object, enum Variable which)
{
    static PyObject *interned[sizeof names / sizeof *names];
    if (interned[which] == NULL &&
        (interned[which] = PyUnicode_InternFromString(names[which])) == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *variables = PyObject_GenericGetDict(object, NULL);
    PyObject *found = variables != NULL && PyDict_CheckExact(variables)
                          ? PyDict_GetItemWithError(variables, interned[which])
                          : NULL;
    Py_XDECREF(variables);
    PyErr_Clear();
    return found;
}

PyObject *parameters_of(PyObject *object) { return variable_of(object, PARAMETERS); }

PyObject *own_name(PyObject *object)
{
    PyObject *name = variable_of(object, TRACKER) != NULL ? variable_of(object, NAME) : NULL;
    return name != NULL && PyUnicode_CheckExact(name) ? name : NULL;
}

Children children_of(PyObject *object)
{
    PyObject *found = variable_of(object, MODULES);
    if (found == NULL || own_name(object) != NULL) {
        PyObject *layers = own_name(object) != NULL ? variable_of(object, LAYERS) : NULL;
        if (layers != NULL && PyList_Check(layers))
            return (Children){CHILDREN_NAMED, layers};
    }
    if (found != NULL && PyDict_Check(found))
        return (Children){CHILDREN_DICT, found};
    for (enum Variable which = STEPS; which <= ESTIMATORS; which++)
        if ((found = variable_of(object, which)) != NULL && PyList_Check(found))
            return (Children){CHILDREN_PAIRS, found};
    return (Children){CHILDREN_NONE, NULL};
}

Py_ssize_t children_count(Children children)
{
    if (children.shape == CHILDREN_NONE)
        return 0;
    return children.shape == CHILDREN_DICT ? PyDict_Size(children.holder)
                                           : PyList_GET_SIZE(children.holder);
}

/* The name and object of a list item; 0 if it has none. */
static int taken_apart(Children children, PyObject *item, PyObject **key, PyObject **child)
{
    *key = NULL;
    if (children.shape == CHILDREN_NAMED) {
        *key = own_name(item);
        *child = item;
    } else if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) >= 2) {
        *key = PyTuple_GET_ITEM(item, 0);
        *child = PyTuple_GET_ITEM(item, 1);
    }
    return *key != NULL && PyUnicode_CheckExact(*key);
}

int children_next(Children children, Py_ssize_t *at, PyObject **key, PyObject **child)
{
    if (children.shape == CHILDREN_NONE)
        return 0;
    if (children.shape == CHILDREN_DICT) {
        while (PyDict_Next(children.holder, at, key, child))
            if (PyUnicode_CheckExact(*key))
                return 1;
        return 0;
    }
    while (*at < PyList_GET_SIZE(children.holder))
        if (taken_apart(children, PyList_GET_ITEM(children.holder, (*at)++), key, child))
            return 1;
    return 0;
}

PyObject *children_get(Children children, PyObject *key, const void *last)
{
    PyObject *name, *child;
    Py_ssize_t at = 0;
    if (children.shape == CHILDREN_DICT) {
        child = PyDict_GetItemWithError(children.holder, key);
        PyErr_Clear();
        return child;
    }
    while (children_next(children, &at, &name, &child))
        if (child == last || name == key || PyUnicode_Compare(name, key) == 0)
            return child;
    return NULL;
}
