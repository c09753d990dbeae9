/* Names of objects and C functions, obtained without running any of the program's code. */
#define _GNU_SOURCE
#include "names.h"
#include <stdlib.h>
#include <string.h>

char *text_of(PyObject *object)
{
    if (object != NULL && PyUnicode_Check(object) && PyUnicode_IS_COMPACT_ASCII(object))
        return strdup((const char *)PyUnicode_1BYTE_DATA(object)); /* as most are: ten times faster */
    /* Handles lone surrogates, and leaves no exception set. */
    char *text = NULL;
    PyObject *bytes = NULL;
    if (object != NULL && PyUnicode_Check(object))
        bytes = PyUnicode_AsEncodedString(object, "utf-8", "backslashreplace");
    if (bytes != NULL)
        text = strdup(PyBytes_AS_STRING(bytes)); /* truncates at a NUL; no name needs one */
    else
        PyErr_Clear();
    Py_XDECREF(bytes);
    return text != NULL ? text : strdup("");
}

/* The class that defines a C method: the first base class whose method table contains it. */
static const char *owner_of(PyTypeObject *type, const PyMethodDef *method)
{
    PyObject *mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        for (const PyMethodDef *m = base->tp_methods; m != NULL && m->ml_name != NULL; m++)
            if (m == method)
                return base->tp_name;
    }
    return type->tp_name;
}

char *name_of_c_function(PyObject *callable)
{
    const char *owner = NULL, *name = "";
    char *module = NULL, *full = NULL;
    if (callable != NULL && PyCFunction_Check(callable)) {
        PyCFunctionObject *function = (PyCFunctionObject *)callable;
        name = function->m_ml->ml_name;
        PyObject *self = PyCFunction_GET_SELF(callable);
        if (self == NULL || PyModule_Check(self)) {
            if (function->m_module != NULL && PyUnicode_Check(function->m_module))
                owner = module = text_of(function->m_module);
        } else if (PyType_Check(self))
            owner = owner_of((PyTypeObject *)self, function->m_ml);
        else
            owner = owner_of(Py_TYPE(self), function->m_ml);
    } else if (callable != NULL && Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
        PyMethodDescrObject *method = (PyMethodDescrObject *)callable;
        name = method->d_method->ml_name;
        owner = method->d_common.d_type->tp_name;
    }
    if (owner == NULL || asprintf(&full, "%s.%s", owner, name) < 0)
        full = strdup(name);
    free(module);
    return full;
}
