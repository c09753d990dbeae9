/* Open phases of record_function; see phases.h. */
#include "phases.h"
#include "carry.h"
#include "frames.h"
#include "gpu.h"
#include "hooks.h"
#include "names.h"
#include "process.h"
#include "steps_window.h"
#include "timers.h"
#include "timing.h"

typedef struct OpenPhase {
    PyObject *object;    /* not a reference: only compared */
    PyObject *reference; /* weak reference that ends the phase with the object; or NULL */
    uint64_t id;
    Thread *thread;      /* NULL: the thread that forked */
    void *key;
    Node *node;          /* NULL: no longer open */
    uint32_t depth;
} OpenPhase;

static OpenPhase *phases; /* protected by the GIL; newest last; `phases_open` entries */
static size_t phases_room;
static uint64_t phase_ids;

static OpenPhase *phase_at(Thread *thread, const Node *node)
{
    for (size_t i = phases_open; i-- > 0;) {
        OpenPhase *phase = &phases[i];
        if (phase->thread == NULL && phase->key == node->key && phase->depth == node->depth) {
            phase->thread = thread; /* after a fork: same path, different part */
            phase->node = (Node *)node;
        }
        if (phase->thread == thread && phase->node == node)
            return phase;
    }
    return NULL;
}

static int phase_goes_on(Thread *thread, const Node *node)
{
    OpenPhase *phase = phase_at(thread, node);
    return phase != NULL && phase->reference != NULL;
}

/* The phase open at `from` is now open at `to`, or nowhere if that is NULL. */
static void phase_moved(Thread *thread, const Node *from, Node *to)
{
    OpenPhase *phase = phase_at(thread, from);
    if (phase != NULL) {
        phase->node = to;
        phase->depth = to != NULL ? to->depth : 0;
    }
}

/* The thread's outermost routine has returned: no phase of it is open. */
static void phases_closed(const Thread *thread)
{
    for (size_t i = 0; i < phases_open; i++)
        if (phases[i].thread == thread)
            phases[i].node = NULL;
}

/* In a forked child, nothing of the other threads remains. */
static void phases_forked(const Thread *thread)
{
    for (size_t i = 0; i < phases_open; i++) {
        OpenPhase *phase = &phases[i];
        if (phase->thread == thread || phase->thread == NULL)
            phase->thread = NULL;
        else
            phase->depth = 0;
        phase->node = NULL;
    }
}

/* An attribute in the object's own __dict__, without involving its class. A new reference, or
 * NULL. */
static PyObject *variable_of(PyObject *object, const char *name)
{
    PyObject *variables = PyObject_GenericGetDict(object, NULL);
    PyObject *value = variables != NULL && PyDict_CheckExact(variables)
                          ? PyDict_GetItemString(variables, name)
                          : NULL;
    Py_XINCREF(value);
    Py_XDECREF(variables);
    PyErr_Clear();
    return value;
}

int range_close(Thread *thread, Node *node)
{
    uint64_t hidden = thread->cursor == &thread->hidden ? thread->hide : 0;
    Node *inner = visible(thread), *at = inner;
    for (int frames = 0; at != node && at->parent != NULL && frames < RANGE_FRAMES; frames++)
        at = at->parent;
    if (at != node)
        return 0;
    if (node == inner && !hidden) {
        leave(node->key, 1);
        return 1;
    }
    uint64_t now = clock_ticks();
    close_down_to(thread, node, now);
    go_on(thread, inner, node, 0, now);
    steps_window_look(thread, NULL);
    if (hidden) { /* hidden calls continue, too */
        hide(thread);
        thread->hide = hidden;
    }
    return 1;
}

/* Close everything open at and below the phase's node; routines that have not returned continue
 * where the phase began. The phase is removed from the list. */
static void phase_close(size_t at)
{
    OpenPhase phase = phases[at];
    Thread *thread = thread_mine();
    if (thread != NULL && phase.thread == NULL)
        for (Node *node = visible(thread); node->parent != NULL && phase.node == NULL;
             node = node->parent)
            if (phase_at(thread, node) == &phases[at])
                phase = phases[at];
    memmove(&phases[at], &phases[at + 1], (--phases_open - at) * sizeof *phases);
    Py_XDECREF(phase.reference);
    if (!active || thread == NULL || phase.thread != thread || phase.node == NULL)
        return; /* it ends with the enclosing routine */
    TELL(on_region);
    range_close(thread, phase.node);
}

/* The object of an open phase was destroyed. */
static PyObject *phase_died(PyObject *id, PyObject *reference)
{
    (void)reference;
    uint64_t wanted = PyLong_AsUnsignedLongLong(id);
    for (size_t i = phases_open; i-- > 0;)
        if (phases[i].id == wanted) {
            phase_close(i);
            break;
        }
    Py_RETURN_NONE;
}

/* Make room for one more phase. */
static int phases_grow(void)
{
    if (phases_open < phases_room)
        return 0;
    size_t room = phases_room ? phases_room * 2 : 16;
    OpenPhase *more = realloc(phases, room * sizeof *more);
    if (more == NULL)
        return -1;
    phases = more;
    phases_room = room;
    return 0;
}

/* The key of a record_function's phase; NULL if it has no name. */
static void *phase_key(PyObject *object)
{
    static unsigned names;
    PyObject *name = variable_of(object, "name");
    char *text = name != NULL && PyUnicode_Check(name) ? text_of(name) : NULL;
    void *key = text == NULL ? NULL
                             : timer_key_among(&names, text, "(other record_functions)",
                                               RECORD_FUNCTION_GROUP);
    free(text);
    Py_XDECREF(name);
    PyErr_Clear();
    return key;
}

/* A weak reference that ends the phase when the object is destroyed; NULL if the object does not
 * support one. */
static PyObject *phase_reference(PyObject *object, uint64_t phase)
{
    static PyMethodDef died = {"taupy", phase_died, METH_O, NULL};
    PyObject *id = PyLong_FromUnsignedLongLong(phase), *reference = NULL;
    PyObject *callback = id != NULL ? PyCFunction_New(&died, id) : NULL;
    if (callback != NULL)
        reference = PyWeakref_NewRef(object, callback);
    Py_XDECREF(callback);
    Py_XDECREF(id);
    PyErr_Clear();
    return reference;
}

static void phase_begin(Thread *thread, PyObject *object)
{
    if (thread == NULL || thread->cursor == &thread->hidden || group_disabled("PHASE") ||
        group_disabled("RECORD_FUNCTION"))
        return;
    void *key = phases_grow() == 0 ? phase_key(object) : NULL;
    if (key == NULL)
        return;
    TELL(on_region);
    if (!timer_begin(thread, key))
        return;
    Node *node = thread->cursor;
    for (size_t i = 0; i < phases_open; i++) /* one that was closed with its routine */
        if (phases[i].thread == thread && phases[i].node == node)
            phases[i].node = NULL;
    uint64_t id = ++phase_ids;
    PyObject *reference = phase_reference(object, id);
    thread->is_apart = 1;
    phases[phases_open++] = (OpenPhase){object, reference, id, thread, key, node, node->depth};
}

/* End the object's newest phase on this thread or, failing that, on another one. */
static void phase_end(Thread *thread, const PyObject *object)
{
    size_t found = phases_open;
    for (size_t i = phases_open; i-- > 0;)
        if (phases[i].object == object) {
            if (phases[i].thread == thread || phases[i].thread == NULL) {
                found = i;
                break;
            }
            if (found == phases_open)
                found = i;
        }
    if (found < phases_open)
        phase_close(found);
}

/* ---------------------------------------------------------------- the two routines */

/* Whether this is a method by which PyTorch's record_function, or its profiler, begins and ends. */
static uint32_t phase_flags(Routine *routine)
{
    const char *name = routine->name, *file = routine->file;
    static const char known[] = "torch/autograd/profiler.py";
    static const struct {
        const char *name;
        uint32_t flag;
    } methods[] = {
        {"record_function.__enter__", ROUTINE_PHASE_ENTER},
        {"record_function.__exit__", ROUTINE_PHASE_EXIT},
        {"profile._prepare_trace", ROUTINE_LENDS},
        {"profile.__exit__", ROUTINE_TAKES_BACK},
    };
    size_t size = strlen(file), length = sizeof known - 1;
    if (size < length || strcmp(file + size - length, known) != 0 ||
        (size > length && file[size - length - 1] != '/'))
        return 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].flag;
    return 0;
}

void phase_called(Thread *thread, Routine *routine, PyObject *object)
{
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (routine->flags & ROUTINE_PHASE_EXIT && object != NULL)
        phase_end(thread, object);
    if (routine->flags & ROUTINE_LENDS)
        gpu_lend(1);
    Routine *shown = routine_shown(routine);
    if (shown != NULL && !python_disabled && thread->cursor != &thread->hidden) {
        enter(shown->key, 0, Py_None, NULL, 1);
        if (thread->cursor == &thread->hidden)
            unhide(thread);
    }
    PyErr_Restore(type, value, trace);
    errno = saved;
}

void phase_returns(Thread *thread, Routine *routine, PyObject *object, int returned)
{
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (thread->cursor != &thread->hidden) {
        Node *node = thread->cursor;
        while (routine->shown != NULL && node->parent != NULL && node->key != routine->shown->key)
            node = node->parent;
        if (routine->shown != NULL && node->parent != NULL)
            leave(routine->shown->key, 1);
    }
    if (routine->flags & ROUTINE_PHASE_ENTER && returned && object != NULL)
        phase_begin(thread, object);
    if (routine->flags & ROUTINE_TAKES_BACK)
        gpu_lend(0);
    PyErr_Restore(type, value, trace);
    errno = saved;
}

static int on_entered(Thread *thread, Routine *routine)
{
    PyObject *object = frame_at_work(routine->key).self;
    phase_called(thread, routine, object);
    Py_XDECREF(object);
    return 1;
}

static int on_left(Thread *thread, Routine *routine, PyObject *returned)
{
    PyObject *object = frame_at_work(routine->key).self;
    if (thread->cursor == &thread->hidden && python_disabled) { /* was hidden from the start */
        unhide(thread);
        if (routine->flags & ROUTINE_PHASE_EXIT && object != NULL)
            phase_end(thread, object);
    }
    phase_returns(thread, routine, object, returned != NULL);
    Py_XDECREF(object);
    return 1;
}

void phases_start(void)
{
    static const PhaseWatch watch = {phase_goes_on, phase_moved, phases_closed};
    static RoutineWatch routine_watch = {
        .flags_of = phase_flags, .flags = ROUTINE_PHASE, .entered = on_entered, .left = on_left};
    phase_watch = &watch;
    routine_watch_add(&routine_watch);
}

Listener phases_listener = {.on_fork = phases_forked, .on_closed = phases_closed};
