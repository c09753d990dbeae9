/* The floor: the cheapest callbacks a profiler can have, which do nothing or read a clock.
 *
 *     floor.start(hook, clock, c_calls)   floor.stop()
 *
 * hook: "profile"    PyEval_SetProfile (this thread only)
 *       "monitoring" sys.monitoring, callables with a vectorcall of their own (3.12 on)
 *       "evaluation" the frame-evaluation hook of PEP 523 (3.11)
 * clock: read the clock once an event; c_calls: C functions, too (not "evaluation").
 *
 * What a tool costs above this is its own; what it costs below is the hook's. */
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#endif
#include <stddef.h>
#include <time.h>

static volatile unsigned long long last_reading;

#if defined(__x86_64__)
#include <x86intrin.h>
static inline void read_clock(void) { last_reading = __rdtsc(); }
#else
static inline void read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    last_reading = (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}
#endif

static void remove_nothing(void) {}
static void (*remove_hook)(void) = remove_nothing;

/* ------------------------------------------------------------------ PyEval_SetProfile */

static int profile_idle(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)self, (void)frame, (void)what, (void)arg;
    return 0;
}

static int profile_clock(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)self, (void)frame, (void)what, (void)arg;
    read_clock();
    return 0;
}

static void profile_remove(void) { PyEval_SetProfile(NULL, NULL); }

static int profile_install(int clock)
{
    PyEval_SetProfile(clock ? profile_clock : profile_idle, NULL);
    remove_hook = profile_remove;
    return 0;
}

#if PY_VERSION_HEX < 0x030C0000
/* ------------------------------------------------------------------ PEP 523 */

static PyObject *evaluate_idle(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    return _PyEval_EvalFrameDefault(state, frame, throwing);
}

static PyObject *evaluate_clock(PyThreadState *state, struct _PyInterpreterFrame *frame,
                                int throwing)
{
    read_clock();
    PyObject *result = _PyEval_EvalFrameDefault(state, frame, throwing);
    read_clock();
    return result;
}

static void evaluation_remove(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
}

static int own_hook_install(const char *hook, int clock, int c_calls)
{
    if (strcmp(hook, "evaluation") != 0 || c_calls) {
        PyErr_SetString(PyExc_ValueError, "3.11 has the hooks 'profile' and 'evaluation'");
        return -1;
    }
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                         clock ? evaluate_clock : evaluate_idle);
    remove_hook = evaluation_remove;
    return 0;
}

#else
/* ------------------------------------------------------------------ sys.monitoring */

#define TOOL 3

typedef struct Callback {
    PyObject_HEAD
    vectorcallfunc call;
} Callback;

static PyTypeObject callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Callback",
    .tp_basicsize = sizeof(Callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callback, call),
    .tp_call = PyVectorcall_Call,
};

static PyObject *callback_idle(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self, (void)args, (void)n, (void)names;
    Py_RETURN_NONE;
}

static PyObject *callback_clock(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self, (void)args, (void)n, (void)names;
    read_clock();
    Py_RETURN_NONE;
}

static void monitoring_remove(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    Py_XDECREF(PyObject_CallMethod(monitoring, "set_events", "ii", TOOL, 0));
    Py_XDECREF(PyObject_CallMethod(monitoring, "free_tool_id", "i", TOOL));
}

static int own_hook_install(const char *hook, int clock, int c_calls)
{
    /* C_RETURN and C_RAISE come along with CALL and cannot be asked for. */
    static const char *const names[] = {"PY_START",  "PY_RESUME", "PY_THROW",
                                        "PY_RETURN", "PY_YIELD",  "PY_UNWIND",
                                        "CALL",      "C_RETURN",  "C_RAISE"};
    long set = 0;
    if (strcmp(hook, "monitoring") != 0) {
        PyErr_SetString(PyExc_ValueError, "3.12 on has the hooks 'profile' and 'monitoring'");
        return -1;
    }
    PyObject *monitoring = PySys_GetObject("monitoring");
    PyObject *events = PyObject_GetAttrString(monitoring, "events");
    Callback *callback = PyObject_New(Callback, &callback_type);
    PyObject *result = PyObject_CallMethod(monitoring, "use_tool_id", "is", TOOL, "floor");
    if (events == NULL || callback == NULL || result == NULL)
        return -1;
    callback->call = clock ? callback_clock : callback_idle;
    for (int i = 0; i < (c_calls ? 9 : 6); i++) {
        PyObject *event = PyObject_GetAttrString(events, names[i]);
        if (event == NULL)
            return -1;
        if (i < 7)
            set |= PyLong_AsLong(event);
        Py_XSETREF(result, PyObject_CallMethod(monitoring, "register_callback", "iOO", TOOL, event,
                                               callback));
        Py_DECREF(event);
        if (result == NULL)
            return -1;
    }
    Py_SETREF(result, PyObject_CallMethod(monitoring, "set_events", "il", TOOL, set));
    if (result == NULL)
        return -1;
    Py_DECREF(result);
    Py_DECREF(callback);
    Py_DECREF(events);
    remove_hook = monitoring_remove;
    return 0;
}
#endif

/* ------------------------------------------------------------------ module */

static PyObject *start(PyObject *module, PyObject *args)
{
    (void)module;
    const char *hook;
    int clock, c_calls;
    if (!PyArg_ParseTuple(args, "spp", &hook, &clock, &c_calls))
        return NULL;
    if (strcmp(hook, "profile") == 0 ? profile_install(clock)
                                     : own_hook_install(hook, clock, c_calls))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    remove_hook();
    remove_hook = remove_nothing;
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(hook, clock, c_calls)"},
    {"stop", stop, METH_NOARGS, "stop()"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "floor", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_floor(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (PyType_Ready(&callback_type) != 0)
        return NULL;
#endif
    return PyModule_Create(&module);
}
