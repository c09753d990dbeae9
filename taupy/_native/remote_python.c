/* Python's face of remote.h: the watch looks at threads of measured processes with it. */
#include "remote.h"
#include <Python.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    RemoteThread thread;
} ThreadObject;

static int is_among(void *set, uint64_t code)
{
    PyObject *address = PyLong_FromUnsignedLongLong(code);
    int found = address != NULL ? PySet_Contains(set, address) : -1;
    Py_XDECREF(address);
    if (found < 0)
        PyErr_Clear();
    return found == 1;
}

static PyObject *thread_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"pid", "layout", "state", "native_id", NULL};
    int pid;
    Py_buffer layout;
    unsigned long long state, native_id;
    if (!PyArg_ParseTupleAndKeywords(args, named, "iy*KK", names, &pid, &layout, &state,
                                     &native_id))
        return NULL;
    RemoteLayout copy;
    int is_whole = layout.len == sizeof copy;
    if (is_whole)
        memcpy(&copy, layout.buf, sizeof copy);
    PyBuffer_Release(&layout);
    ThreadObject *self = (ThreadObject *)type->tp_alloc(type, 0);
    if (self != NULL && (!is_whole || remote_begin(&self->thread, pid, &copy, state, native_id))) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "no layout of an interpreter");
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *thread_look(PyObject *object, PyObject *set)
{
    static RemoteFrame frames[REMOTE_FRAMES_AT_MOST];
    ThreadObject *self = (ThreadObject *)object;
    size_t count;
    if (!PyAnySet_Check(set))
        return PyErr_Format(PyExc_TypeError, "look() takes a set of addresses");
    enum RemoteResult result = remote_look(&self->thread, is_among, set, frames, &count);
    if (result == REMOTE_FORBIDDEN)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (result == REMOTE_GONE)
        return PyErr_Format(PyExc_ProcessLookupError, "the thread has ended");
    if (result == REMOTE_TORN)
        Py_RETURN_NONE;
    PyObject *found = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; found != NULL && i < count; i++) {
        PyObject *frame = Py_BuildValue("KL", (unsigned long long)frames[i].code,
                                        (long long)frames[i].instruction);
        if (frame == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, (Py_ssize_t)i, frame);
    }
    return found;
}

/* A text as Python's, with what cannot be encoded replaced; NULL, without an exception: there is
 * none at this address. */
static PyObject *text_at(const RemoteThread *thread, uint64_t address)
{
    RemoteText text;
    PyObject *found = NULL;
    if (remote_text(thread, address, &text) != 0)
        return NULL;
    size_t size = text.length * (size_t)text.kind;
    char *data = PyMem_Malloc(size + 1);
    if (data != NULL && remote_bytes(thread, text.address, data, size) == 0) {
        int order = -1; /* as in this process: little endian, or it is turned */
#if PY_BIG_ENDIAN
        order = 1;
#endif
        found = text.kind == 1   ? PyUnicode_DecodeLatin1(data, (Py_ssize_t)size, "replace")
                : text.kind == 2 ? PyUnicode_DecodeUTF16(data, (Py_ssize_t)size, "replace", &order)
                                 : PyUnicode_DecodeUTF32(data, (Py_ssize_t)size, "replace", &order);
    }
    PyMem_Free(data);
    return found;
}

static PyObject *not_a_code(void)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "no code object at this address");
    return NULL;
}

static PyObject *thread_code(PyObject *object, PyObject *number)
{
    const RemoteThread *thread = &((ThreadObject *)object)->thread;
    uint64_t address = PyLong_AsUnsignedLongLong(number);
    RemoteCode code;
    if (PyErr_Occurred())
        return NULL;
    if (remote_code(thread, address, &code) != 0)
        return not_a_code();
    PyObject *lines = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)code.line_bytes);
    PyObject *file = NULL, *name = NULL, *found = NULL;
    if (lines != NULL &&
        remote_bytes(thread, code.lines, PyBytes_AS_STRING(lines), code.line_bytes) == 0 &&
        (file = text_at(thread, code.file)) != NULL && (name = text_at(thread, code.name)) != NULL)
        found = Py_BuildValue("OOiKO", file, name, (int)code.first_line,
                              (unsigned long long)code.units, lines);
    Py_XDECREF(file);
    Py_XDECREF(name);
    Py_XDECREF(lines);
    return found != NULL ? found : not_a_code();
}

static PyObject *thread_mark(PyObject *object, PyObject *number)
{
    uint64_t address = PyLong_AsUnsignedLongLong(number);
    RemoteCode code;
    if (PyErr_Occurred())
        return NULL;
    if (remote_code(&((ThreadObject *)object)->thread, address, &code) != 0)
        return not_a_code();
    return Py_BuildValue("iKKK", (int)code.first_line, (unsigned long long)code.file,
                         (unsigned long long)code.name, (unsigned long long)code.lines);
}

static void thread_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"look", thread_look, METH_O,
     "look(last: set) -> tuple | None\n\n(address of the code object, bytes into its code) of each "
     "frame, innermost first, up to the first whose code is in `last`. Empty if the thread runs no "
     "Python; None if what was read does not fit together. ProcessLookupError: the thread has "
     "ended; PermissionError: it may not be read."},
    {"code", thread_code, METH_O,
     "code(address: int) -> tuple\n\nFile, qualified name, first line, number of code units, table "
     "of lines. ValueError: there is no code object."},
    {"mark", thread_mark, METH_O,
     "mark(address: int) -> tuple\n\nWhat tells a code object from a later one at its address."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"moved", T_ULONGLONG, offsetof(ThreadObject, thread.moved), READONLY,
     "Looks during which the thread went on."},
    {"repeated", T_ULONGLONG, offsetof(ThreadObject, thread.repeated), READONLY,
     "Stacks that were incomplete, and read again."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, thread_new},
    {Py_tp_dealloc, thread_free},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, "Thread(pid, layout, state, native_id)\n\nA thread of another process; `layout` is "
                "what the engine has written into that process's part."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "taupy._native.remote.Thread",
    .basicsize = sizeof(ThreadObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Thread", type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddIntConstant(module, "LAYOUT_BYTES", sizeof(RemoteLayout)) != 0 ? -1
                                                                                                : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "remote",
    .m_doc = "Read the Python frames of another process.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_remote(void) { return PyModuleDef_Init(&definition); }
