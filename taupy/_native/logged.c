/* Values passed to loggers; see logged.h. */
#include "logged.h"
#include "layer_facts.h"

#define NAME_SIZE 256
#define NESTED_AT_MOST 4

/* Whether the value is a NumPy scalar, which NumPy itself converts; not an array. */
static int is_numpys(PyObject *value)
{
    const PyTypeObject *type = Py_TYPE(value);
    return !PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE) &&
           (strncmp(type->tp_name, "numpy.float", 11) == 0 ||
            strncmp(type->tp_name, "numpy.int", 9) == 0 ||
            strncmp(type->tp_name, "numpy.uint", 10) == 0);
}

/* Whether the value is a number; never runs the program's code to convert it. */
static int plain_number(PyObject *value, double *number)
{
    if (PyBool_Check(value))
        return 0;
    if (PyFloat_Check(value))
        *number = PyFloat_AS_DOUBLE(value);
    else if (PyLong_CheckExact(value) || is_numpys(value))
        *number = PyLong_CheckExact(value) ? PyLong_AsDouble(value) : PyFloat_AsDouble(value);
    else
        return 0;
    if (*number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

static int number_of(PyObject *value, double *number)
{
    return plain_number(value, number) || tensor_number(value, number);
}

static const char *text_of(PyObject *value)
{
    const char *text =
        value != NULL && PyUnicode_CheckExact(value) ? PyUnicode_AsUTF8(value) : NULL;
    if (text == NULL)
        PyErr_Clear();
    return text;
}

/* Add the values of a mapping; `before` is the prefix of their names. */
static void add_mapping(Thread *thread, TakeValue *take, const char *before, PyObject *mapping,
                        int depth)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    char whole[NAME_SIZE];
    while (PyDict_Next(mapping, &at, &name, &value)) {
        const char *text = text_of(name);
        double number;
        if (text == NULL)
            continue;
        if (number_of(value, &number)) {
            snprintf(whole, sizeof whole, "%s%s", before, text);
            take(thread, whole, number);
        } else if (PyDict_Check(value) && depth < NESTED_AT_MOST) {
            snprintf(whole, sizeof whole, "%s%s.", before, text);
            add_mapping(thread, take, whole, value, depth + 1);
        }
    }
}

/* Add the values in a text such as `loss=0.5, accuracy: 0.9`. */
static void add_text(Thread *thread, TakeValue *take, const char *text)
{
    while (*text != 0) {
        size_t size = strcspn(text, ","), sign = strcspn(text, "=:,");
        const char *name = text + strspn(text, " "), *end = text + sign;
        while (end > name && end[-1] == ' ')
            end--;
        char whole[NAME_SIZE], *rest;
        if (sign < size && end > name && end - name < NAME_SIZE) {
            const char *digits = text + sign + 1 + strspn(text + sign + 1, " ");
            double number = PyOS_string_to_double(digits, &rest, NULL);
            if (PyErr_Occurred())
                PyErr_Clear();
            else if (rest > digits && rest + strspn(rest, " ") == text + size) {
                snprintf(whole, sizeof whole, "%.*s", (int)(end - name), name);
                take(thread, whole, number);
            }
        }
        text += size + (text[size] != 0);
    }
}

void logged_value(Thread *thread, TakeValue *take, PyObject *name, PyObject *value)
{
    const char *text = text_of(name);
    double number;
    if (text != NULL && value != NULL && number_of(value, &number))
        take(thread, text, number);
}

void logged_plain(Thread *thread, TakeValue *take, PyObject *name, PyObject *value)
{
    double number;
    if (value != NULL && plain_number(value, &number))
        logged_value(thread, take, name, value);
}

void logged_values(Thread *thread, TakeValue *take, PyObject *values, PyObject *more)
{
    char before[NAME_SIZE] = "";
    const char *text = text_of(values);
    int is_mapping = more != NULL && PyDict_Check(more);
    if (text != NULL && is_mapping)
        snprintf(before, sizeof before, "%s/", text);
    else if (text != NULL)
        add_text(thread, take, text);
    else if (values != NULL && PyDict_Check(values))
        add_mapping(thread, take, "", values, 1);
    if (is_mapping)
        add_mapping(thread, take, before, more, 1);
}
