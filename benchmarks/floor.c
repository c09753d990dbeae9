/* The floor: the cheapest callbacks that a profiler can have, extended step by step.
 *
 *     floor.start(hook, step, c_calls)   floor.stop()
 *
 * hook: "profile"    PyEval_SetProfile (this thread only)
 *       "monitoring" sys.monitoring, callables with a vectorcall of their own (3.12 on)
 *       "evaluation" the frame-evaluation hook of PEP 523 (3.11)
 * step: 0 do nothing; 1 read the clock once per event; 2 find the call path, without a clock;
 *       3 also count its calls; 4 also read the clock and add up the times. 2 to 4 do not work
 *       with "profile".
 * c_calls: include C functions (not with "evaluation").
 *
 * This much of a tool's cost is the hook's; the rest is the tool's own. Step 4 is the minimum for a
 * profiler of call paths: no names, no limits, no file, no forks, no further metrics. */
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
static inline unsigned long long ticks(void) { return __rdtsc(); }
#else
static inline unsigned long long ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}
#endif

static inline void read_clock(void) { last_reading = ticks(); }

enum Step { NOTHING, CLOCK, PATH, COUNT, TIME };

/* ------------------------------------------------------------------ call paths */

typedef struct Node {
    void *key;
    struct Node *parent, *last; /* its child entered most recently, never NULL */
    unsigned long long t0, inclusive, calls;
    struct Node *next, *first; /* siblings, children; the one entered last comes first */
} Node;

static Node nowhere = {.last = &nowhere};
static __thread Node *cursor __attribute__((tls_model("initial-exec")));

static Node *node_new(Node *parent, void *key)
{
    Node *node = aligned_alloc(64, sizeof(Node));
    if (node == NULL)
        abort();
    *node = (Node){.key = key, .parent = parent, .last = &nowhere};
    if (parent != NULL) {
        node->next = parent->first;
        parent->first = node;
    }
    return node;
}

static __attribute__((noinline)) Node *child_slow(Node *parent, void *key)
{
    Node **place = &parent->first;
    while (*place != NULL && (*place)->key != key)
        place = &(*place)->next;
    Node *node = *place;
    if (node == NULL)
        return parent->last = node_new(parent, key);
    *place = node->next;
    node->next = parent->first;
    parent->first = node;
    return parent->last = node;
}

static inline __attribute__((always_inline)) void entered(void *key, enum Step step)
{
    Node *parent = cursor;
    if (__builtin_expect(parent == NULL, 0))
        parent = node_new(NULL, NULL);
    Node *node = parent->last;
    if (__builtin_expect(node->key != key, 0))
        node = child_slow(parent, key);
    cursor = node;
    if (step >= COUNT)
        node->calls++;
    if (step >= TIME)
        node->t0 = ticks();
}

static inline __attribute__((always_inline)) void left(void *key, enum Step step)
{
    unsigned long long now = step >= TIME ? ticks() : 0;
    Node *node = cursor;
    if (__builtin_expect(node == NULL || node->key != key, 0))
        return; /* it was open before we began */
    if (step >= TIME)
        node->inclusive += now - node->t0;
    cursor = node->parent;
}

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

static int profile_install(int step)
{
    PyEval_SetProfile(step ? profile_clock : profile_idle, NULL);
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

#define EVALUATE(name, step)                                                                       \
    static PyObject *name(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)   \
    {                                                                                              \
        void *key = frame->f_code;                                                                 \
        entered(key, step);                                                                        \
        PyObject *result = _PyEval_EvalFrameDefault(state, frame, throwing);                       \
        left(key, step);                                                                           \
        return result;                                                                             \
    }

EVALUATE(evaluate_path, PATH)
EVALUATE(evaluate_count, COUNT)
EVALUATE(evaluate_time, TIME)

static void evaluation_remove(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
}

static int own_hook_install(const char *hook, int step, int c_calls)
{
    static const _PyFrameEvalFunction evaluate[] = {evaluate_idle, evaluate_clock, evaluate_path,
                                                    evaluate_count, evaluate_time};
    if (strcmp(hook, "evaluation") != 0 || c_calls) {
        PyErr_SetString(PyExc_ValueError, "3.11 has the hooks 'profile' and 'evaluation'");
        return -1;
    }
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate[step]);
    remove_hook = evaluation_remove;
    return 0;
}

#else
/* ------------------------------------------------------------------ sys.monitoring */

#define TOOL 3
#define FIRST_LEFT 3 /* index into the events below; the events before it are entries */

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

#define CALLBACKS(suffix, step)                                                                    \
    static PyObject *callback_entered##suffix(PyObject *self, PyObject *const *args, size_t n,     \
                                              PyObject *names)                                     \
    {                                                                                              \
        (void)self, (void)n, (void)names;                                                          \
        entered(args[0], step);                                                                    \
        Py_RETURN_NONE;                                                                            \
    }                                                                                              \
    static PyObject *callback_left##suffix(PyObject *self, PyObject *const *args, size_t n,        \
                                           PyObject *names)                                        \
    {                                                                                              \
        (void)self, (void)n, (void)names;                                                          \
        left(args[0], step);                                                                       \
        Py_RETURN_NONE;                                                                            \
    }

CALLBACKS(_path, PATH)
CALLBACKS(_count, COUNT)
CALLBACKS(_time, TIME)

static const struct {
    vectorcallfunc entered, left;
} callbacks[] = {
    {callback_idle, callback_idle},
    {callback_clock, callback_clock},
    {callback_entered_path, callback_left_path},
    {callback_entered_count, callback_left_count},
    {callback_entered_time, callback_left_time},
};

static PyObject *callback_new(vectorcallfunc call)
{
    Callback *callback = PyObject_New(Callback, &callback_type);
    if (callback != NULL)
        callback->call = call;
    return (PyObject *)callback;
}

static void monitoring_remove(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    Py_XDECREF(PyObject_CallMethod(monitoring, "set_events", "ii", TOOL, 0));
    Py_XDECREF(PyObject_CallMethod(monitoring, "free_tool_id", "i", TOOL));
}

static int own_hook_install(const char *hook, int step, int c_calls)
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
    PyObject *on_entered = callback_new(callbacks[step].entered);
    PyObject *on_left = callback_new(callbacks[step].left);
    PyObject *result = PyObject_CallMethod(monitoring, "use_tool_id", "is", TOOL, "floor");
    if (events == NULL || on_entered == NULL || on_left == NULL || result == NULL)
        return -1;
    for (int i = 0; i < (c_calls ? 9 : 6); i++) {
        PyObject *event = PyObject_GetAttrString(events, names[i]);
        if (event == NULL)
            return -1;
        if (i < 7)
            set |= PyLong_AsLong(event);
        Py_XSETREF(result, PyObject_CallMethod(monitoring, "register_callback", "iOO", TOOL, event,
                                               i < FIRST_LEFT ? on_entered : on_left));
        Py_DECREF(event);
        if (result == NULL)
            return -1;
    }
    Py_SETREF(result, PyObject_CallMethod(monitoring, "set_events", "il", TOOL, set));
    if (result == NULL)
        return -1;
    Py_DECREF(result);
    Py_DECREF(on_entered);
    Py_DECREF(on_left);
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
    int step, c_calls;
    if (!PyArg_ParseTuple(args, "sip", &hook, &step, &c_calls))
        return NULL;
    if (step < NOTHING || step > (strcmp(hook, "profile") == 0 || c_calls ? CLOCK : TIME)) {
        PyErr_SetString(PyExc_ValueError, "there is no such step");
        return NULL;
    }
    if (strcmp(hook, "profile") == 0 ? profile_install(step)
                                     : own_hook_install(hook, step, c_calls))
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
    {"start", start, METH_VARARGS, "start(hook, step, c_calls)"},
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
