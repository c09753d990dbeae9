/* Hooks for Python 3.12 and later: sys.monitoring (PEP 669). */
#include "hooks.h"

#if PY_VERSION_HEX >= 0x030C0000
#include "awaits.h"
#include "carry.h"
#include "line_events.h"
#include "process.h"
#include "suspensions.h"
#include "timing.h"
#include <stddef.h>

int python_disabled, record_c_calls;
Listener hooks_listener;

int hooks_have_c_calls_alone(const PyThreadState *state)
{
    return active && record_c_calls && state->c_profilefunc == NULL;
}

typedef struct Callback {
    PyObject_HEAD
    vectorcallfunc call;
} Callback;

static PyTypeObject callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "taupy.callback",
    .tp_basicsize = sizeof(Callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callback, call),
    .tp_call = PyVectorcall_Call,
};

static int tool = -1;
static PyObject *disable; /* sys.monitoring.DISABLE: no more such events at this location */

#define CALLBACK(name)                                                                             \
    static PyObject *name(PyObject *self, PyObject *const *args, size_t n, PyObject *names)

/* None is immortal. */
static inline PyObject *answer(enum Entry entry)
{
    return likely(entry == ENTERED) ? Py_None : Py_NewRef(disable);
}

static NOINLINE PyObject *begin(void *key)
{
    return answer(enter_on(thread_entering(key), key, 0, NULL, NULL, 0));
}

static NOINLINE PyObject *resume(void *key)
{
    return answer(enter_on(thread_entering(key), key, 1, NULL, NULL, 0));
}

static NOINLINE PyObject *end(uint64_t now, void *key, PyObject *returned)
{
    return answer(leave_at(now, key, 0, returned));
}

/* A generator or coroutine is suspended; `returned`: the value that it yields. */
static NOINLINE PyObject *suspend(uint64_t now, void *key, int full, PyObject *returned)
{
    Suspension here = {timers_used ? frame_id() : NULL, is_yielded(returned)};
    if (timers_held)
        timers_drop(here.frame);
    suspension = &here;
    PyObject *result = answer(leave_at(now, key, full, returned));
    suspension = NULL;
    return result;
}

static NOINLINE void line_goes_on(void *key, PyObject *offset)
{
    if (lines_has(key))
        line_resumes(key, PyCode_Addr2Line(key, (int)PyLong_AsLong(offset)));
}

/* Behind the instruction that suspended it; a throw in 3.12 is told of at that itself. */
#define RESUMES_BEHIND 2
#define THROWS_BEHIND (PY_VERSION_HEX < 0x030D0000 ? 0 : RESUMES_BEHIND)

static NOINLINE void suspended(void *key, PyObject *offset, uint64_t now, const PyObject *returned)
{
    Thread *thread = thread_mine();
    Node *node = thread != NULL && !is_yielded(returned) ? node_running(thread, key) : NULL;
    if (node != NULL)
        suspension_begins(thread, node, key, PyLong_AsLong(offset), now);
}

static NOINLINE void goes_on(void *key, PyObject *offset, int behind)
{
    Thread *thread = thread_mine();
    Node *node = thread != NULL ? node_running(thread, key) : NULL;
    if (node != NULL)
        suspension_ends(thread, node, key, PyLong_AsLong(offset) - behind);
}

static NOINLINE void resumed(void)
{
    Thread *thread = thread_mine();
    if (thread != NULL && thread->cursor != &thread->hidden)
        timers_resume(thread, frame_id());
}

#define CALLBACKS(suffix, full)                                                                    \
    CALLBACK(on_start##suffix)                                                                     \
    {                                                                                              \
        if (full)                                                                                  \
            return answer(enter(args[0], 0, NULL, NULL, full));                                    \
        if (enter_again(this_thread, args[0], 0) || enters_library(this_thread, args[0]))          \
            return Py_None;                                                                        \
        return begin(args[0]);                                                                     \
    }                                                                                              \
    CALLBACK(on_resume##suffix)                                                                    \
    {                                                                                              \
        PyObject *result = Py_None;                                                                \
        if (full)                                                                                  \
            result = answer(enter(args[0], 1, NULL, NULL, full));                                  \
        else if (!enter_again(this_thread, args[0], 1) && !enters_library(this_thread, args[0]))   \
            result = resume(args[0]);                                                              \
        if (suspends(args[0]))                                                                     \
            goes_on(args[0], args[1], RESUMES_BEHIND);                                             \
        if (unlikely(lines_used))                                                                  \
            line_goes_on(args[0], args[1]);                                                        \
        if (unlikely(timers_held))                                                                 \
            resumed();                                                                             \
        return result;                                                                             \
    }                                                                                              \
    CALLBACK(on_return##suffix)                                                                    \
    {                                                                                              \
        if (full)                                                                                  \
            return answer(leave_at(clock_ticks(), args[0], full, args[2]));                        \
        uint64_t now;                                                                              \
        return leave_again(this_thread, args[0], &now, 1) ? Py_None : end(now, args[0], args[2]);  \
    }                                                                                              \
    CALLBACK(on_yield##suffix)                                                                     \
    {                                                                                              \
        uint64_t now = full ? clock_ticks() : clock_fast_ticks();                                  \
        if (suspends(args[0]))                                                                     \
            suspended(args[0], args[1], now, args[2]);                                             \
        if (!full && !timers_held && leave_again(this_thread, args[0], &now, 0))                   \
            return Py_None;                                                                        \
        return suspend(now, args[0], full, args[2]);                                               \
    }                                                                                              \
    CALLBACK(on_throw##suffix)                                                                     \
    {                                                                                              \
        enter(args[0], 1, NULL, NULL, full);                                                       \
        if (suspends(args[0]))                                                                     \
            goes_on(args[0], args[1], THROWS_BEHIND);                                              \
        if (unlikely(lines_used))                                                                  \
            line_goes_on(args[0], args[1]);                                                        \
        if (unlikely(timers_held))                                                                 \
            resumed();                                                                             \
        return Py_None;                                                                            \
    }                                                                                              \
    CALLBACK(on_unwind##suffix)                                                                    \
    {                                                                                              \
        uint64_t now = full ? clock_ticks() : clock_fast_ticks();                                  \
        if (!full && leave_again(this_thread, args[0], &now, 0))                                   \
            return Py_None;                                                                        \
        leave_at(now, args[0], full, NULL);                                                        \
        return Py_None;                                                                            \
    }                                                                                              \
    CALLBACK(on_call##suffix)                                                                      \
    {                                                                                              \
        void *key = key_of_c(args[2]);                                                             \
        if (key != NULL && !called_by_us((PyCodeObject *)args[0]))                                 \
            enter(key, 0, args[2], NULL, full);                                                    \
        return Py_None;                                                                            \
    }                                                                                              \
    CALLBACK(on_c_return##suffix)                                                                  \
    {                                                                                              \
        void *key = key_of_c(args[2]);                                                             \
        if (key != NULL && !called_by_us((PyCodeObject *)args[0]))                                 \
            leave(key, full);                                                                      \
        return Py_None;                                                                            \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
CALLBACKS(_plain, 0)
CALLBACKS(_full, 1)

CALLBACK(on_line)
{
    line_begins(args[0], (int)PyLong_AsLong(args[1]));
    return Py_None;
}

/* The group PYTHON is disabled: starts are hidden, returns are handled as usual. */
CALLBACK(on_start_hidden)
{
    Thread *thread = thread_mine();
    if (thread != NULL)
        hide(thread);
    return Py_None;
}
#pragma GCC diagnostic pop

static const struct {
    const char *event;
    vectorcallfunc plain, full;
} callbacks[] = {
    {"PY_START", on_start_plain, on_start_full},
    {"PY_RESUME", on_resume_plain, on_resume_full},
    {"PY_THROW", on_throw_plain, on_throw_full},
    {"PY_RETURN", on_return_plain, on_return_full},
    {"PY_YIELD", on_yield_plain, on_yield_full},
    {"PY_UNWIND", on_unwind_plain, on_unwind_full},
    {"CALL", on_call_plain, on_call_full},
    {"C_RETURN", on_c_return_plain, on_c_return_full},
    {"C_RAISE", on_c_return_plain, on_c_return_full},
};
#define CALLBACK_COUNT 9
#define CALLBACKS_WITHOUT_C 6
#define FIRST_UNSETTABLE 7 /* C_RETURN and C_RAISE are enabled by CALL */

static int register_callback(PyObject *monitoring, PyObject *event, vectorcallfunc function)
{
    PyObject *callback = Py_NewRef(Py_None);
    if (function != NULL) {
        Callback *object = PyObject_New(Callback, &callback_type);
        if (object == NULL)
            return -1;
        object->call = function;
        callback = (PyObject *)object;
    }
    PyObject *result =
        PyObject_CallMethod(monitoring, "register_callback", "iOO", tool, event, callback);
    Py_DECREF(callback);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int set_events(PyObject *monitoring, long set)
{
    PyObject *result = PyObject_CallMethod(monitoring, "set_events", "il", tool, set);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int each_callback(PyObject *monitoring, int install, long *set)
{
    PyObject *all = PyObject_GetAttrString(monitoring, "events");
    int full = timing_is_full();
    if (all == NULL)
        return -1;
    for (int i = 0; i < (record_c_calls ? CALLBACK_COUNT : CALLBACKS_WITHOUT_C); i++) {
        PyObject *event = PyObject_GetAttrString(all, callbacks[i].event);
        if (event == NULL ||
            register_callback(monitoring, event,
                              !install ? NULL : full ? callbacks[i].full : callbacks[i].plain)) {
            Py_XDECREF(event);
            Py_DECREF(all);
            return -1;
        }
        if (i < FIRST_UNSETTABLE)
            *set |= PyLong_AsLong(event);
        Py_DECREF(event);
    }
    Py_DECREF(all);
    return 0;
}

static int set_line_events(PyObject *code)
{
    PyObject *monitoring = PySys_GetObject("monitoring"), *result = NULL, *event = NULL;
    PyObject *all = monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
    if (all != NULL && (event = PyObject_GetAttrString(all, "LINE")) != NULL &&
        register_callback(monitoring, event, on_line) == 0)
        result = PyObject_CallMethod(monitoring, "set_local_events", "iOO", tool, code, event);
    Py_XDECREF(event);
    Py_XDECREF(all);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

void hooks_lines(PyObject *code)
{
    if (set_line_events(code) != 0)
        PyErr_Clear();
}

int hooks_install(void)
{
    /* 2 is cProfile's: leave it free. The interpreter finds those up to 3 by a shorter way, at each
     * event. */
    static const int tools[] = {3, 4, 5, 1, 0};
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    long set = 0;
    if (monitoring == NULL || PyType_Ready(&callback_type) != 0)
        return -1;
    if (disable == NULL && (disable = PyObject_GetAttrString(monitoring, "DISABLE")) == NULL)
        return -1;
    for (size_t i = 0; tool < 0 && i < sizeof tools / sizeof *tools; i++) {
        PyObject *result = PyObject_CallMethod(monitoring, "use_tool_id", "is", tools[i], "taupy");
        if (result != NULL)
            tool = tools[i];
        else
            PyErr_Clear();
        Py_XDECREF(result);
    }
    if (tool < 0) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring has no free tool id");
        return -1;
    }
    return each_callback(monitoring, 1, &set) || set_events(monitoring, set) ? -1 : 0;
}

int hooks_remove(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    long set = 0;
    if (monitoring == NULL || tool < 0)
        return 0;
    if (set_events(monitoring, 0) || each_callback(monitoring, 0, &set))
        return -1;
    PyObject *result = PyObject_CallMethod(monitoring, "free_tool_id", "i", tool);
    tool = -1;
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

void hooks_python_enabled(int enabled)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    PyObject *all = monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
    int full = timing_is_full();
    for (int i = 0; all != NULL && i < 2; i++) { /* PY_START, PY_RESUME */
        PyObject *event = PyObject_GetAttrString(all, callbacks[i].event);
        if (event != NULL)
            register_callback(monitoring, event,
                              !enabled ? on_start_hidden
                              : full   ? callbacks[i].full
                                       : callbacks[i].plain);
        Py_XDECREF(event);
    }
    Py_XDECREF(all);
    PyErr_Clear();
    python_disabled = !enabled;
}

const char *hooks_name(void) { return "sys.monitoring (PEP 669)"; }

#endif
