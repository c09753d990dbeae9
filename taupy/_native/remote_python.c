/* Python's face of line_looks.h, remote.h and activity.h: the watch looks at threads of measured
 * processes with it, `taupy attach` at those of others. */
#include <Python.h>
#include <errno.h>
#include <structmember.h>

#include "clock.h"
#include "line_looks.h"

/* The clock that Python has, by which the watch goes. */
int64_t clock_true_ns(clockid_t id) { return clock_ns(id); }

static PyObject *has_ended(void)
{
    errno = ESRCH;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *refused(void)
{
    errno = EPERM;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static void object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---------------------------------------------------------------- what a thread does */

typedef struct {
    PyObject_HEAD
    Activity activity;
} TaskObject;

static PyObject *task_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"pid", "native_id", NULL};
    long long pid, native_id;
    if (!PyArg_ParseTupleAndKeywords(args, named, "LL", names, &pid, &native_id))
        return NULL;
    TaskObject *self = (TaskObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        activity_begin(&self->activity, pid, native_id, -1);
        activity_from_now(&self->activity);
    }
    return (PyObject *)self;
}

static PyObject *activity_found(int does)
{
    return does < 0 ? has_ended() : PyLong_FromLong(does);
}

static PyObject *task_does(PyObject *self, PyObject *took)
{
    int64_t ns = PyLong_AsLongLong(took);
    if (ns == -1 && PyErr_Occurred())
        return NULL;
    return activity_found(activity_now(&((TaskObject *)self)->activity, 0, 0, ns));
}

static void task_free(PyObject *self)
{
    activity_end(&((TaskObject *)self)->activity);
    object_free(self);
}

static PyMethodDef task_methods[] = {
    {"does", task_does, METH_O,
     "does(took: int) -> int\n\nOne of `state.lines.STATES`, for a look that stands for so many "
     "nanoseconds; waits for the GIL are waits for a lock. ProcessLookupError: it has ended."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot task_slots[] = {
    {Py_tp_new, task_new},
    {Py_tp_dealloc, task_free},
    {Py_tp_methods, task_methods},
    {Py_tp_doc, "Task(pid, native_id)\n\nA thread of a process, as the kernel sees it."},
    {0, NULL},
};

static PyType_Spec task_spec = {
    .name = "taupy._native.remote.Task",
    .basicsize = sizeof(TaskObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = task_slots,
};

/* ---------------------------------------------------------------- frames of a thread */

typedef struct {
    PyObject_HEAD
    LookedThread looked;
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
    static char *names[] = {"pid",   "layout",  "state",     "native_id", "ticks",
                            "index", "process", "looked_ns", "tid", NULL};
    int pid;
    Py_buffer layout;
    unsigned long long state, native_id, ticks = 0;
    unsigned index = 0, process = 0;
    long long looked_ns = 0, tid = 0;
    if (!PyArg_ParseTupleAndKeywords(args, named, "iy*KK|KIILL", names, &pid, &layout, &state,
                                     &native_id, &ticks, &index, &process, &looked_ns, &tid))
        return NULL;
    RemoteLayout copy;
    int is_whole = layout.len == sizeof copy;
    if (is_whole)
        memcpy(&copy, layout.buf, sizeof copy);
    PyBuffer_Release(&layout);
    ThreadObject *self = (ThreadObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    LookedThread *looked = &self->looked;
    activity_begin(&looked->activity, pid, tid ? tid : (int64_t)native_id, -1);
    if (!is_whole || remote_begin(&looked->remote, pid, &copy, state, native_id)) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "no layout of an interpreter");
        return NULL;
    }
    looked->pid = pid;
    looked->ticks = ticks;
    looked->index = index;
    looked->process = process;
    looked->looked_ns = looked_ns;
    return (PyObject *)self;
}

static void thread_free(PyObject *self)
{
    activity_end(&((ThreadObject *)self)->looked.activity);
    object_free(self);
}

static PyObject *thread_begin(PyObject *self, PyObject *is_new)
{
    Activity *activity = &((ThreadObject *)self)->looked.activity;
    if (PyObject_IsTrue(is_new))
        activity_from_beginning(activity);
    else
        activity_from_now(activity);
    Py_RETURN_NONE;
}

static PyObject *thread_does(PyObject *self, PyObject *took)
{
    LookedThread *looked = &((ThreadObject *)self)->looked;
    const RemoteLayout *layout = &looked->remote.layout;
    int64_t ns = PyLong_AsLongLong(took);
    if (ns == -1 && PyErr_Occurred())
        return NULL;
    return activity_found(activity_now(&looked->activity, layout->gil, layout->gil_size, ns));
}

static PyObject *thread_look(PyObject *object, PyObject *set)
{
    static RemoteFrame frames[REMOTE_FRAMES_AT_MOST];
    ThreadObject *self = (ThreadObject *)object;
    size_t count;
    if (!PyAnySet_Check(set))
        return PyErr_Format(PyExc_TypeError, "look() takes a set of addresses");
    enum RemoteResult result = remote_look(&self->looked.remote, is_among, set, frames, &count);
    if (result == REMOTE_FORBIDDEN)
        return refused();
    if (result == REMOTE_GONE)
        return has_ended();
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
    const RemoteThread *thread = &((ThreadObject *)object)->looked.remote;
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
    if (remote_code(&((ThreadObject *)object)->looked.remote, address, &code) != 0)
        return not_a_code();
    return Py_BuildValue("iKKK", (int)code.first_line, (unsigned long long)code.file,
                         (unsigned long long)code.name, (unsigned long long)code.lines);
}

static PyMethodDef thread_methods[] = {
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
    {"begin", thread_begin, METH_O,
     "begin(is_new: bool) -> None\n\nIn `does` and in `Looks`, looks stand for the time from now on; "
     "if it is new, from its beginning on."},
    {"does", thread_does, METH_O,
     "does(took: int) -> int\n\nOne of `state.lines.STATES`, for a look that stands for so many "
     "nanoseconds. ProcessLookupError: it has ended."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef thread_members[] = {
    {"moved", T_ULONGLONG, offsetof(ThreadObject, looked.remote.moved), READONLY,
     "Looks during which the thread went on."},
    {"repeated", T_ULONGLONG, offsetof(ThreadObject, looked.remote.repeated), READONLY,
     "Stacks that were incomplete, and read again."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot thread_slots[] = {
    {Py_tp_new, thread_new},
    {Py_tp_dealloc, thread_free},
    {Py_tp_methods, thread_methods},
    {Py_tp_members, thread_members},
    {Py_tp_doc, "Thread(pid, layout, state, native_id, ticks=0, index=0, process=0, looked_ns=0, "
                "tid=0)\n\nA thread of another process; `layout` is what the engine has written into that "
                "process's part. For `Looks`: the part's number, the thread's in it, a number of "
                "whose code objects are at its addresses, and from when on looks count. `tid`: its id "
                "here, if it is in another PID namespace."},
    {0, NULL},
};

static PyType_Spec thread_spec = {
    .name = "taupy._native.remote.Thread",
    .basicsize = sizeof(ThreadObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = thread_slots,
};

/* ---------------------------------------------------------------- own files */

typedef struct {
    PyObject_HEAD
    OwnFiles own; /* its texts are of the kept sequences */
    PyObject *libraries, *texts;
} OwnObject;

/* The texts of bytes objects, which the tuple keeps, ended by NULL. NULL, with an exception: they
 * are none. */
static char **texts_of(PyObject *tuple)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    char **texts = PyMem_Calloc((size_t)count + 1, sizeof *texts);
    if (texts == NULL)
        return (char **)(void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        texts[i] = PyBytes_AsString(PyTuple_GET_ITEM(tuple, i));
        if (texts[i] == NULL) {
            PyMem_Free(texts);
            return NULL;
        }
    }
    return texts;
}

static PyObject *own_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"libraries", "texts", NULL};
    PyObject *libraries, *texts;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O!", names, &PyTuple_Type, &libraries,
                                     &PyTuple_Type, &texts))
        return NULL;
    OwnObject *self = (OwnObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->libraries = Py_NewRef(libraries);
    self->texts = Py_NewRef(texts);
    self->own.libraries = texts_of(libraries);
    self->own.texts = self->own.libraries != NULL ? texts_of(texts) : NULL;
    if (self->own.texts == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void own_free(PyObject *object)
{
    OwnObject *self = (OwnObject *)object;
    PyMem_Free(self->own.libraries);
    PyMem_Free(self->own.texts);
    Py_XDECREF(self->libraries);
    Py_XDECREF(self->texts);
    object_free(object);
}

static PyObject *own_has(PyObject *self, PyObject *file)
{
    const char *text = PyBytes_AsString(file);
    return text == NULL ? NULL : PyBool_FromLong(file_is_own(&((OwnObject *)self)->own, text));
}

static PyMethodDef own_methods[] = {
    {"has", own_has, METH_O,
     "has(file: bytes) -> bool\n\nWhether a file, named as the interpreter does, is the "
     "program's."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot own_slots[] = {
    {Py_tp_new, own_new},
    {Py_tp_dealloc, own_free},
    {Py_tp_methods, own_methods},
    {Py_tp_doc, "OwnFiles(libraries: tuple[bytes, ...], texts: tuple[bytes, ...])\n\nThe program's "
                "own files: those in no folder of libraries (each ended by a slash), and these "
                "texts, which are no files."},
    {0, NULL},
};

static PyType_Spec own_spec = {
    .name = "taupy._native.remote.OwnFiles",
    .basicsize = sizeof(OwnObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = own_slots,
};

/* ---------------------------------------------------------------- looks at lines */

typedef struct {
    PyObject_HEAD
    Looks *looks;
    PyObject *own, *over;
    PyTypeObject *thread_type;
} LooksObject;

static int is_among_over(void *set, int64_t pid, uint64_t ticks, uint32_t thread, const void *unused)
{
    (void)unused;
    PyObject *key = Py_BuildValue("(LKI)", (long long)pid, (unsigned long long)ticks, thread);
    int found = key != NULL ? PySet_Contains(set, key) : -1;
    Py_XDECREF(key);
    if (found < 0)
        PyErr_Clear();
    return found == 1;
}

static PyObject *looks_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"own", "rows", "codes", "over", NULL};
    PyObject *module = PyType_GetModule(type), *own, *over;
    int rows, codes;
    if (module == NULL)
        return NULL;
    PyTypeObject **types = PyModule_GetState(module);
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!iiO!", names, types[1], &own, &rows, &codes,
                                     &PySet_Type, &over))
        return NULL;
    LooksObject *self = (LooksObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->own = Py_NewRef(own);
    self->over = Py_NewRef(over);
    self->thread_type = (PyTypeObject *)Py_NewRef((PyObject *)types[0]);
    self->looks = line_looks_new(((OwnObject *)own)->own, is_among_over, over);
    if (self->looks == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    line_looks_write_to(self->looks, rows, codes);
    return (PyObject *)self;
}

static void looks_free(PyObject *object)
{
    LooksObject *self = (LooksObject *)object;
    if (self->looks != NULL)
        line_looks_free(self->looks);
    Py_XDECREF(self->own);
    Py_XDECREF(self->over);
    Py_XDECREF((PyObject *)self->thread_type);
    object_free(object);
}

static PyObject *looks_look(PyObject *object, PyObject *thread)
{
    LooksObject *self = (LooksObject *)object;
    if (!Py_IS_TYPE(thread, self->thread_type))
        return PyErr_Format(PyExc_TypeError, "look() takes a Thread");
    switch (line_looks_take(self->looks, &((ThreadObject *)thread)->looked)) {
    case LOOK_ENDED:
        return has_ended();
    case LOOK_FORBIDDEN:
        return refused();
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *looks_join(PyObject *self, PyObject *unused)
{
    (void)unused;
    line_looks_join(((LooksObject *)self)->looks);
    Py_RETURN_NONE;
}

static PyObject *looks_begin(PyObject *self, PyObject *due)
{
    int64_t ns = PyLong_AsLongLong(due);
    if (ns == -1 && PyErr_Occurred())
        return NULL;
    line_looks_begin(((LooksObject *)self)->looks, ns);
    Py_RETURN_NONE;
}

static PyObject *looks_spent(PyObject *self, PyObject *args)
{
    long long now, cpu_ns;
    if (!PyArg_ParseTuple(args, "LL", &now, &cpu_ns))
        return NULL;
    return PyLong_FromLongLong(line_looks_spent(((LooksObject *)self)->looks, now, cpu_ns));
}

static PyObject *looks_refused(PyObject *self, PyObject *why)
{
    long number = PyLong_AsLong(why);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    line_looks_refused(((LooksObject *)self)->looks, (int)number);
    Py_RETURN_NONE;
}

static PyMethodDef looks_methods[] = {
    {"look", looks_look, METH_O,
     "look(thread: Thread) -> None\n\nLook at a thread once. ProcessLookupError: it has ended; "
     "PermissionError: it may not be read."},
    {"join", looks_join, METH_NOARGS,
     "join() -> None\n\nAdd up what was seen of the threads in `over`."},
    {"begin", looks_begin, METH_O,
     "begin(due: int) -> None\n\nThe first tick is due then."},
    {"spent", looks_spent, METH_VARARGS,
     "spent(now: int, cpu_ns: int) -> int\n\nSo much went into the tick that began then: when the "
     "next one is due."},
    {"refused", looks_refused, METH_O,
     "refused(why: int) -> None\n\nNo look is permitted; `why` is an errno."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot looks_slots[] = {
    {Py_tp_new, looks_new},
    {Py_tp_dealloc, looks_free},
    {Py_tp_methods, looks_methods},
    {Py_tp_doc, "Looks(own, rows, codes, over)\n\nWhat was seen in one run, written into two files "
                "by their descriptors. `over`: (pid, ticks, number) of threads whose times were "
                "added up with those of others."},
    {0, NULL},
};

static PyType_Spec looks_spec = {
    .name = "taupy._native.remote.Looks",
    .basicsize = sizeof(LooksObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = looks_slots,
};

/* ---------------------------------------------------------------- the module */

static int module_exec(PyObject *module)
{
    static PyType_Spec *const specs[] = {&thread_spec, &own_spec, &looks_spec, &task_spec};
    static const char *const names[] = {"Thread", "OwnFiles", "Looks", "Task"};
    PyObject **types = PyModule_GetState(module);
    for (int i = 0; i < 4; i++) {
        types[i] = PyType_FromModuleAndSpec(module, specs[i], NULL);
        if (types[i] == NULL || PyModule_AddObjectRef(module, names[i], types[i]) != 0)
            return -1;
    }
    return PyModule_AddIntConstant(module, "LAYOUT_BYTES", sizeof(RemoteLayout)) != 0 ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "remote",
    .m_doc = "Read the Python frames of another process.",
    .m_size = 4 * sizeof(PyObject *), /* the types, which live as long as the process */
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_remote(void) { return PyModuleDef_Init(&definition); }
