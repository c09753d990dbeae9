/* Calls of known routines; see known.h. */
#include "known.h"
#include "carry.h"
#include "collectives.h"
#include "evaluation.h"
#include "frames.h"
#include "pairs.h"
#include "process.h"
#include "steps.h"
#include "steps_window.h"
#include "names.h"
#include "timers.h"
#include "timing.h"

enum { LOSS = 2, COMMUNICATION = 7 }; /* as in taupy/network/phases.py */

static KnownRoutine *known;
static size_t known_count;

void known_start(char **texts)
{
    free(known);
    known = NULL;
    known_count = 0;
    size_t n = 0;
    while (texts != NULL && texts[n] != NULL)
        n++;
    if (n == 0 || (known = calloc(n, sizeof *known)) == NULL)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        KnownRoutine one;
        int at = 0;
        if (sscanf(texts[i], "%d %d %d %d %n", &one.role, &one.kind, &one.first, &one.second,
                   &at) == 4) {
            one.code = texts[i] + at;
            one.is_ahead = one.role == KNOWN_AHEAD;
            one.role = one.is_ahead ? KNOWN_FETCH : one.role;
            known[known_count++] = one;
        }
    }
    free(texts); /* the routines hold the strings */
}

/* A pattern is a complete name, or begins with `*`. */
static int is_like(const char *name, const char *pattern)
{
    size_t size = strlen(name), length = strlen(pattern);
    if (*pattern != '*')
        return strcmp(name, pattern) == 0;
    return size >= length - 1 && strcmp(name + size - (length - 1), pattern + 1) == 0;
}

/* Whether the file's path contains `folder`, which ends with a slash. */
static int lies_below(const char *file, const char *folder, size_t length)
{
    for (const char *at = file; at != NULL; at = (at = strchr(at, '/')) != NULL ? at + 1 : NULL)
        if (strncmp(at, folder, length) == 0)
            return 1;
    return 0;
}

int routine_is_at(const Routine *routine, const char *code)
{
    const char *colon = strchr(code, ':');
    if (colon == NULL || !is_like(routine->name, colon + 1))
        return 0;
    if (colon > code && colon[-1] == '*')
        return lies_below(routine->file, code, (size_t)(colon - code) - 1);
    size_t length = (size_t)(colon - code), size = strlen(routine->file);
    return size >= length && strncmp(routine->file + size - length, code, length) == 0 &&
           (size == length || routine->file[size - length - 1] == '/');
}

static uint32_t known_flags(Routine *routine)
{
    routine->known = NULL;
    for (size_t i = 0; i < known_count; i++)
        if (routine_is_at(routine, known[i].code)) {
            routine->known = &known[i];
            return ROUTINE_KNOWN;
        }
    return 0;
}

/* The timer of a jitted function; NULL if memory runs out. */
static void *jit_timer(PyObject *function)
{
    static unsigned names;
    char text[256];
    char *name = function == NULL                ? strdup("?")
                 : PyFunction_Check(function) ? text_of(((PyFunctionObject *)function)->func_qualname)
                                                 : strdup(Py_TYPE(function)->tp_name);
    if (name == NULL)
        return NULL;
    snprintf(text, sizeof text, "jit(%s)", name);
    free(name);
    return timer_key_among(&names, text, "jit(others)", JIT_GROUP);
}

/* Close the innermost jitted function. */
static void jit_leave(Thread *thread)
{
    const Node *node = visible(thread);
    for (; node->parent != NULL; node = node->parent) {
        const Routine *routine = KEY_KIND(node->key) == KEY_TIMER ? routine_find(node->key) : NULL;
        if (routine != NULL && strcmp(routine->group, JIT_GROUP) == 0) {
            leave(node->key, 1);
            return;
        }
    }
}

/* The key that a call of the routine is recorded under; NULL if it is not recorded. */
static void *key_shown(Routine *routine, PyObject *first)
{
    if (routine->known->role == KNOWN_JIT)
        return routine->flags & ROUTINE_EXCLUDED ? NULL : jit_timer(first);
    Routine *shown = routine_shown(routine);
    if (shown == NULL)
        return NULL;
    shown->is_stamped = routine->known->role <= KNOWN_UPDATE;
    return shown->key;
}

void known_called(Thread *thread, Routine *routine, PyObject *first, PyObject *second)
{
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    void *shown = key_shown(routine, first);
    int goes_on = routine->known->role == KNOWN_JIT && routine->known->kind;
    if (routine->known->role != KNOWN_PAIR) /* what issues it keeps its operation */
        collectives_look(thread);
    int evaluates = steps_called(thread, routine->known, first, second);
    steps_window_look(thread, routine->key);
    if (thread->cursor == &thread->hidden)
        hide(thread);
    else if (shown != NULL) {
        void *evaluation = evaluates ? evaluation_timer() : NULL;
        if (evaluation != NULL)
            timer_begin(thread, evaluation);
        enter(shown, goes_on, Py_None, NULL, 1);
    }
    if (routine->known->role == KNOWN_PHASE && routine->known->kind == COMMUNICATION)
        collectives_follow(thread);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    errno = saved;
}

/* Whether it has returned something: for a generator, that it has not ended. */
static int has_returned(const Routine *routine, const PyObject *returned)
{
    const PyCodeObject *code = (PyCodeObject *)routine->key;
    return returned != NULL && (returned != Py_None || !(code->co_flags & CO_GENERATOR));
}

void known_left(Thread *thread, Routine *routine, PyObject *returned)
{
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    steps_left(thread, routine->known, has_returned(routine, returned));
    if (routine->known->role == KNOWN_GROUPS)
        collectives_groups();
    if (routine->known->role == KNOWN_PAIR)
        collectives_pair_over();
    else
        collectives_look(thread);
    if (thread->cursor == &thread->hidden)
        unhide(thread);
    else if (routine->known->role == KNOWN_JIT)
        jit_leave(thread);
    else if (routine->shown != NULL)
        leave(routine->shown->key, 1);
    if (routine->known->role == KNOWN_PHASE && routine->known->kind == LOSS &&
        thread->cursor->parent != NULL && thread->cursor->key == evaluation_timer())
        leave(thread->cursor->key, 1); /* which a loss has begun: that of a module has more in it */
    steps_window_look(thread, routine->key);
    PyErr_Restore(type, value, trace);
    errno = saved;
}

static int on_entered(Thread *thread, Routine *routine)
{
    PyObject *first = frame_variable(routine->key, routine->known->first);
    PyObject *second = frame_variable(routine->key, routine->known->second);
    known_called(thread, routine, first, second);
    if (routine->known->role == KNOWN_PAIR)
        pairs_called(thread, routine, NULL);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return 1;
}

static int on_left(Thread *thread, Routine *routine, PyObject *returned)
{
    known_left(thread, routine, returned);
    return 1;
}

void known_watch_start(void)
{
    static RoutineWatch watch = {
        .flags_of = known_flags, .flags = ROUTINE_KNOWN, .entered = on_entered, .left = on_left};
    routine_watch_add(&watch);
}
