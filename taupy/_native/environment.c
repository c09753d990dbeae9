/* Adding our variable to the environments of child processes. */
#include "environment.h"
#include "gpu.h"
#include "process.h"

#define BOOT_VARIABLE "TAUPY_BOOT"

/* Whether our variable must be added to the environment that the program gives a child. If we were
 * loaded through PYTHONPATH (no .pth is installed), the child would not find us anyway. */
static int variable_is_needed(void)
{
    return active && run_folder != NULL && getenv("TAUPY_PYTHONPATH") == NULL;
}

/* The variable's value: that of this process, which ends in a number that no command line shows. */
static const char *variable_value(void)
{
    const char *value = getenv(BOOT_VARIABLE);
    size_t size = strlen(run_folder);
    return value != NULL && strncmp(value, run_folder, size) == 0 ? value : run_folder;
}

PyObject *mapping_with_variable(PyObject *environment)
{
    if (!variable_is_needed() || environment == Py_None || !PyMapping_Check(environment))
        return NULL;
    PyObject *copy = PyDict_New(), *keys = NULL, *values = NULL;
    PyObject *name = PyUnicode_FromString(BOOT_VARIABLE);
    PyObject *folder = PyUnicode_DecodeFSDefault(variable_value());
    int failed = copy == NULL || name == NULL || folder == NULL || PyMapping_Size(environment) < 0 ||
                 (keys = PyMapping_Keys(environment)) == NULL ||
                 (values = PyMapping_Values(environment)) == NULL ||
                 PyList_GET_SIZE(keys) != PyList_GET_SIZE(values);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++)
        failed = PyDict_SetItem(copy, PyList_GET_ITEM(keys, i), PyList_GET_ITEM(values, i)) != 0;
    if (failed || PyDict_SetDefault(copy, name, folder) == NULL)
        Py_CLEAR(copy); /* let the real function report what is wrong with it */
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(name);
    Py_XDECREF(folder);
    PyErr_Clear();
    return copy;
}

PyObject *list_with_variable(PyObject *environment, PyObject *preexec)
{
    /* The child inherits our environment, including the GPU variable: pass a copy without it,
     * unless a preexec_fn might change the environment. */
    if (active && environment == Py_None && preexec == Py_None)
        return gpu_environment();
    if (!variable_is_needed() || !PyList_Check(environment))
        return NULL;
    /* If a name occurs twice, the first one counts, so a value set by the program takes
     * precedence. */
    PyObject *copy = PyList_GetSlice(environment, 0, PyList_GET_SIZE(environment));
    PyObject *item = PyBytes_FromFormat(BOOT_VARIABLE "=%s", variable_value());
    if (copy == NULL || item == NULL || PyList_Append(copy, item) != 0)
        Py_CLEAR(copy);
    Py_XDECREF(item);
    PyErr_Clear();
    return copy;
}
