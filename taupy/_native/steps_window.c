/* Switching between brief and detailed recording of steps; see steps_window.h. */
#include "steps_window.h"
#include "frames.h"
#include "steps.h"
#include "timers.h"
#include "timing.h"
#include "carry.h"

static void *outside; /* the timer's key; NULL: not entered yet */

/* The outermost brief node. */
static Node *brief_root(Node *node)
{
    while (node->parent->flags & NODE_BRIEF)
        node = node->parent;
    return node;
}

/* Whether the routine is recorded under its own key when not in brief mode. */
static int is_plain(const Routine *routine)
{
    return routine->flags == 0 && !routine_has_unused_key(routine);
}

/* The nearest caller of `code` that is recorded. */
static const void *caller_of(const void *code)
{
    void *frame = frame_first();
    const void *found = frame_next_code(&frame);
    if (found != NULL && found == code)
        found = frame_next_code(&frame);
    const Routine *routine;
    while (found != NULL && (routine = routine_find(found)) != NULL && !is_plain(routine))
        found = frame_next_code(&frame);
    frame_drop(frame);
    return found;
}

/* Whether the nearest routine around the brief nodes is the caller. */
static int is_called_from(const Node *root, const void *code)
{
    const Node *node = root->parent;
    const Routine *routine = NULL;
    for (; node->parent != NULL && routine == NULL; node = node->parent) {
        routine = KEY_KIND(node->key) == 0 ? routine_find(node->key) : NULL;
        if (routine != NULL && !is_plain(routine))
            routine = NULL;
    }
    const void *caller = caller_of(code);
    return routine == NULL || (caller != NULL && routine_find(caller) == routine);
}

static void brief_begin(Thread *thread)
{
    char name[80];
    if (outside == NULL) {
        if (steps_window.last == UINT64_MAX)
            snprintf(name, sizeof name, "steps before %llu", (unsigned long long)steps_window.first);
        else
            snprintf(name, sizeof name, "steps outside of %llu:%llu",
                     (unsigned long long)steps_window.first, (unsigned long long)steps_window.last);
        outside = timer_key(name, STEP_GROUP);
    }
    if (outside != NULL)
        timer_begin(thread, outside);
    PyErr_Clear();
}

/* Close a brief node in which nothing of the program's is open. */
static void brief_end(Thread *thread)
{
    thread->cursor->resumes = 0;
    leave(outside, 1);
}

void steps_window_look(Thread *thread, const void *code)
{
    if (steps_window.first == 0 || thread->cursor == &thread->hidden)
        return;
    int is_outside = steps_place(thread) == STEP_OUTSIDE;
    if (is_outside && !is_brief(thread))
        brief_begin(thread);
    else if (!is_outside && key_is_brief(thread->cursor->key) &&
             is_called_from(thread->cursor, code))
        brief_end(thread);
}

/* The routine for a key about to be entered; NULL if memory runs out. */
static Routine *routine_here(void *key, PyObject *callable, PyObject *globals)
{
    Routine *routine = routine_find(key);
    if (routine != NULL)
        return routine;
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    routine = routine_new(key, callable, globals);
    PyErr_Restore(type, value, trace);
    errno = saved;
    return routine;
}

static int brief_skips(Thread *thread, void *key, PyObject *callable, PyObject *globals)
{
    if (KEY_KIND(key) != 0)
        return KEY_KIND(key) == KEY_C;
    Routine *routine = routine_here(key, callable, globals);
    if (routine == NULL)
        return 1;
    if (!is_plain(routine))
        return 0;
    steps_window_look(thread, key);
    if (!is_brief(thread))
        return 0;
#if PY_VERSION_HEX >= 0x030C0000
    Node *root = brief_root(thread->cursor);
    root->resumes += routine->node_key == root->parent->key; /* as many are open inside it */
#endif
    return 1;
}

static int brief_skips_return(Thread *thread, const void *key)
{
    if (KEY_KIND(key) == KEY_TIMER)
        return 0;
    Node *root = brief_root(thread->cursor);
    if (KEY_KIND(key) == KEY_C)
        return key != root->parent->key;
    Routine *routine = routine_find(key);
    if (routine == NULL)
        return 1;
    if (!is_plain(routine))
        return 0;
    if (routine->node_key != root->parent->key)
        return 1;
    if (root->resumes == 0)
        return 0;
    root->resumes--;
    return 1;
}

/* A routine has returned; close the timer if the cursor was on a brief node. */
static void brief_repaired(Thread *thread, Node *inner, Node *outer, uint64_t now)
{
    (void)outer, (void)now;
    if (!(inner->flags & NODE_BRIEF) || is_brief(thread))
        return;
    part->repairs--; /* the timer was closed deliberately */
    if (thread->cursor->parent != NULL && steps_goes_on(thread))
        steps_window_look(thread, NULL);
}

void *brief_forward(void)
{
    void *key = timer_key("forward", "PHASE_FORWARD");
    PyErr_Clear();
    return key;
}

Listener steps_window_listener = {.on_repaired = brief_repaired};

void steps_window_start(uint64_t first, uint64_t last)
{
    static NodeWatch watch = {
        .flag = NODE_BRIEF, .skips = brief_skips, .skips_return = brief_skips_return};
    steps_window.first = first;
    steps_window.last = last;
    outside = NULL;
    node_watch_add(&watch);
}
