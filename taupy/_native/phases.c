/* `torch.profiler.record_function` as a phase, with nothing put into the program.
 *
 * Its `__enter__` and `__exit__` are known by name and file when their code is first met. Such
 * a routine has a flag, so that it never takes the quick way through `enter` and `leave`; what
 * is recorded of it stands with a second routine (`shown`) under a key that no code has. When
 * `__enter__` returns a phase begins, with the name that the object has in its `__dict__`; when
 * `__exit__` begins it ends. No code of the program runs for it.
 *
 * As a pushed NVTX range the phase goes on where its routine returns or yields, until its end;
 * or until the object is gone, which ends the range in PyTorch, too. */
#ifndef TAUPY_PHASES_H
#define TAUPY_PHASES_H

#define PHASE_GROUP "PHASE|RECORD_FUNCTION"
#define PHASE_NAMES_AT_MOST 4096

static void *timer_key(const char *name, const char *group); /* engine.c */
static size_t timers_count;
static int group_disabled(const char *group);

typedef struct OpenPhase {
    PyObject *object;    /* not ours: compared only */
    PyObject *reference; /* a weak one: ends the phase with the object; or NULL */
    uint64_t id;
    Thread *thread;      /* NULL: the one that has forked */
    void *key;
    Node *node;          /* NULL: it is open no more */
    uint32_t depth;
} OpenPhase;

static OpenPhase *phases; /* under the GIL; newest last */
static size_t phases_room;
static uint64_t phase_ids;

static OpenPhase *phase_at(Thread *thread, const Node *node)
{
    for (size_t i = phases_open; i-- > 0;) {
        OpenPhase *phase = &phases[i];
        if (phase->thread == NULL && phase->key == node->key && phase->depth == node->depth) {
            phase->thread = thread; /* after a fork: the same path in another part */
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

/* The phase that was open at `from` is now, at `to`; NULL: nowhere. */
static void phase_moved(Thread *thread, const Node *from, Node *to)
{
    OpenPhase *phase = phase_at(thread, from);
    if (phase != NULL) {
        phase->node = to;
        phase->depth = to != NULL ? to->depth : 0;
    }
}

/* The thread's outermost routine has returned: nothing is open. */
static void phases_closed(const Thread *thread)
{
    for (size_t i = 0; i < phases_open; i++)
        if (phases[i].thread == thread)
            phases[i].node = NULL;
}

/* In a fork's child: of the other threads nothing is left. */
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

/* A variable of the object, without asking its class. A new reference, or NULL. */
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

/* Close what is open at the phase's node; routines that have not returned go on where it had
 * begun. The phase is taken off the list. */
static void phase_close(size_t at)
{
    OpenPhase phase = phases[at];
    Thread *thread = this_thread;
    if (thread != NULL && phase.thread == NULL)
        for (Node *node = visible(thread); node->parent != NULL && phase.node == NULL;
             node = node->parent)
            if (phase_at(thread, node) == &phases[at])
                phase = phases[at];
    memmove(&phases[at], &phases[at + 1], (--phases_open - at) * sizeof *phases);
    Py_XDECREF(phase.reference);
    if (!active || thread == NULL || phase.thread != thread || phase.node == NULL)
        return; /* it ends with the routine that it is in */
    uint64_t hidden = thread->cursor == &thread->hidden ? thread->hide : 0;
    Node *inner = visible(thread), *node = inner;
    for (int frames = 0; node != phase.node && node->parent != NULL && frames < RANGE_FRAMES;
         frames++)
        node = node->parent;
    if (node != phase.node)
        return;
    region_boundary();
    if (node == inner && !hidden)
        leave(node->key, 1);
    else {
        uint64_t now = clock_ticks();
        close_down_to(thread, node, now);
        go_on(thread, inner, node, 0, now);
        if (hidden) { /* what is not recorded goes on, too */
            hide(thread);
            thread->hide = hidden;
        }
    }
}

/* The object of an open phase is no more. */
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

static void phase_begin(Thread *thread, PyObject *object)
{
    static PyMethodDef died = {"taupy", phase_died, METH_O, NULL};
    static unsigned names;
    if (thread == NULL || thread->cursor == &thread->hidden || group_disabled("PHASE") ||
        group_disabled("RECORD_FUNCTION"))
        return;
    PyObject *name = variable_of(object, "name");
    if (name == NULL || !PyUnicode_Check(name)) {
        Py_XDECREF(name);
        return;
    }
    if (phases_open == phases_room) {
        size_t room = phases_room ? phases_room * 2 : 16;
        OpenPhase *more = realloc(phases, room * sizeof *more);
        if (more == NULL) {
            Py_DECREF(name);
            return;
        }
        phases = more;
        phases_room = room;
    }
    char *text = text_of(name);
    size_t before = timers_count;
    void *key = text == NULL ? NULL
                             : timer_key(names < PHASE_NAMES_AT_MOST ? text
                                                                     : "(other record_functions)",
                                         PHASE_GROUP);
    free(text);
    Py_DECREF(name);
    if (key == NULL) {
        PyErr_Clear();
        return;
    }
    names += timers_count > before;
    region_boundary();
    if (!timer_begin(thread, key))
        return;
    Node *node = thread->cursor;
    for (size_t i = 0; i < phases_open; i++) /* one that was closed with its routine */
        if (phases[i].thread == thread && phases[i].node == node)
            phases[i].node = NULL;
    OpenPhase phase = {object, NULL, ++phase_ids, thread, key, node, node->depth};
    PyObject *id = PyLong_FromUnsignedLongLong(phase.id);
    PyObject *callback = id != NULL ? PyCFunction_New(&died, id) : NULL;
    if (callback != NULL)
        phase.reference = PyWeakref_NewRef(object, callback);
    Py_XDECREF(callback);
    Py_XDECREF(id);
    PyErr_Clear();
    phases[phases_open++] = phase;
}

/* The newest phase of the object on this thread; else, one of another thread. */
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

static Routine *routine_shown(Routine *routine)
{
    if (routine->shown == NULL && !(routine->flags & ROUTINE_EXCLUDED)) {
        Routine *shown = calloc(1, sizeof *shown);
        if (shown == NULL)
            return NULL;
        shown->key = shown->node_key = (void *)(++retired_keys << 4);
        shown->name = strdup(routine->name);
        shown->file = strdup(routine->file);
        shown->group = strdup(routine->group);
        shown->line = routine->line;
        if (shown->name == NULL || shown->file == NULL || shown->group == NULL ||
            routine_put(shown) != 0)
            return NULL;
        routine->shown = shown;
    }
    return routine->flags & ROUTINE_EXCLUDED ? NULL : routine->shown;
}

/* `__enter__` or `__exit__` is called; `object` may be NULL. Or a method of torch.profiler's. */
static void phase_called(Thread *thread, Routine *routine, PyObject *object)
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

/* It returns, or an exception leaves it. */
static void phase_returns(Thread *thread, Routine *routine, PyObject *object, int returned)
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

#endif
