/* Rare cases on entry and return: new call paths, unrecorded calls, frames left open,
 * throttling. */
#include "timing.h"
#include "listeners.h"
#include "thread_rows.h"

uint64_t depth_limit;
int throttling;
uint64_t throttle_calls = 100000, throttle_ticks;
static NodeWatch *node_watches;

void node_watch_add(NodeWatch *watch)
{
    NodeWatch **at = &node_watches;
    for (; *at != NULL; at = &(*at)->next)
        if (*at == watch)
            return;
    *at = watch;
}

/* On 3.11, the frame-evaluation hook itself handles both ends of flagged routines. */
#define WATCHES_ARE_TOLD (PY_VERSION_HEX >= 0x030C0000)

/* The result for a flagged routine, as for `child_slow`. */
static Node *child_unrecorded(Thread *thread, Routine *routine)
{
    const RoutineWatch *watch = WATCHES_ARE_TOLD ? routine_watches : NULL;
    for (; watch != NULL; watch = watch->next)
        if (routine->flags & watch->flags && watch->entered(thread, routine))
            return NULL;
    /* With `nowhere` there would be no further events of it. */
    return routine->names_threads && WATCHES_ARE_TOLD ? NULL : &nowhere;
}

void call_fold(Thread *thread)
{
    part->calls_over_limit++;
    hide(thread);
}

/* A node for a routine to be recorded. */
static Node *child_recorded(Thread *thread, Node *parent, Routine *routine)
{
    /* A routine revived from retirement brings its nodes along. */
    Node *node = routine_node(routine, thread, parent);
    if (node != NULL)
        return parent->last = node;
    if (depth_limit != 0 && parent->depth >= depth_limit) {
        hide(thread);
        return NULL;
    }
    if (routine->generation != generation)
        routine_record(routine);
    node = node_new(thread, parent, routine->node_key);
    if (node != NULL) {
        routine_add_node(routine, node);
        thread_row_path(thread, routine, node);
    }
    TELL(on_path, thread, routine, node);
    if (node == NULL)
        call_fold(thread);
    return node;
}

/* A child that has no node yet. */
static __attribute__((noinline)) Node *child_new(Thread *thread, Node *parent, void *key,
                                                 PyObject *callable, PyObject *globals)
{
    Routine *routine = routine_find(key);
    if (routine != NULL && unlikely(routine->names_threads))
        thread_names(thread, routine);
    if (routine != NULL && routine->flags)
        return child_unrecorded(thread, routine);
    if (unlikely(parent == &thread->hidden)) {
        hide(thread);
        return NULL;
    }
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (routine == NULL) {
        routine = routine_new(key, callable, globals);
        if (routine != NULL && routine->names_threads)
            thread_names(thread, routine);
    }
    uint64_t n = thread->node_count;
    if (n > 1 && ((thread->name[0] == 0 && n < 64) || (n & (n - 1)) == 0))
        thread_name(thread);
    TELL(on_lookup, thread);
    PyErr_Restore(type, value, trace);
    Node *node = NULL;
    if (routine == NULL)
        call_fold(thread);
    else if (!routine->flags)
        node = child_recorded(thread, parent, routine);
    errno = saved;
    return routine != NULL && routine->flags ? child_unrecorded(thread, routine) : node;
}

int entry_is_skipped(Thread *thread, void *key, PyObject *callable, PyObject *globals)
{
    for (const NodeWatch *watch = node_watches; watch != NULL; watch = watch->next)
        if (thread->cursor->flags & watch->flag && watch->skips(thread, key, callable, globals))
            return 1;
    return 0;
}

Node *child_slow(Thread *thread, Node *parent, void *key,
                                                  PyObject *callable, PyObject *globals)
{
    Node *node = node_find(thread, parent, key); /* the hidden node has no children */
    if (likely(node != NULL))
        return parent->last = node;
    return child_new(thread, parent, key, callable, globals);
}

void close_down_to(Thread *thread, Node *node, uint64_t now)
{
    for (Node *open = visible(thread);; open = open->parent) {
        node_stop(thread, open, now);
        if (open == node)
            break;
        part->repairs++;
    }
    thread->hide = 0;
    cursor_set(thread, node->parent);
}

void close_all(uint64_t now)
{
    pthread_mutex_lock(&tree_lock);
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        Node *outermost = visible(thread);
        if (outermost->parent == NULL)
            continue;
        while (outermost->parent->parent != NULL)
            outermost = outermost->parent;
        uint64_t repairs = part->repairs;
        close_down_to(thread, outermost, now);
        part->repairs = repairs;
        TELL(on_closed, thread);
    }
    pthread_mutex_unlock(&tree_lock);
}

void exchange(Thread *thread, Node *from, Node *to, uint64_t now)
{
    while (from != to) {
        if (from->depth >= to->depth) {
            node_stop(thread, from, now);
            from = from->parent;
        } else {
            node_run(thread, to, now);
            to = to->parent;
        }
    }
}

/* The return of a flagged routine. */
static int leave_unrecorded(Thread *thread, Routine *routine, PyObject *returned)
{
    const RoutineWatch *watch = WATCHES_ARE_TOLD ? routine_watches : NULL;
    for (; watch != NULL; watch = watch->next)
        if (routine->flags & watch->flags && watch->left(thread, routine, returned))
            return ENTERED;
    return UNRECORDED;
}

static int return_is_skipped(Thread *thread, const void *key)
{
    for (const NodeWatch *watch = node_watches; watch != NULL; watch = watch->next)
        if (thread->cursor->flags & watch->flag && watch->skips_return(thread, key))
            return 1;
    return 0;
}

int leave_slow(Thread *thread, void *key, uint64_t now, PyObject *returned)
{
    Routine *routine;
    if (unlikely(thread->cursor->flags & NODE_SKIPS) && return_is_skipped(thread, key))
        return ENTERED;
    if (thread->cursor == &thread->hidden) {
        if ((routine = routine_find(key)) != NULL && routine->flags)
            return leave_unrecorded(thread, routine, returned);
        unhide(thread);
        return ENTERED;
    }
    if ((routine = routine_find(key)) != NULL && routine->flags)
        return leave_unrecorded(thread, routine, returned);
    Node *node = thread->cursor, *inner = node;
    if (routine != NULL)
        key = routine->node_key;
    while (node->parent != NULL && node->key != key)
        node = node->parent;
    if (node->parent == NULL) {
        part->unmatched++; /* it began before recording did */
        return ENTERED;
    }
    close_down_to(thread, node, now);
    TELL(on_repaired, thread, inner, node, now);
    return ENTERED;
}

void throttle(void *key, uint64_t took)
{
    Routine *routine = routine_find(key);
    if (routine == NULL)
        return;
    routine->ticks += took;
    if (++routine->calls <= throttle_calls || routine->ticks >= routine->calls * throttle_ticks)
        return;
    for (Thread *t = threads; t != NULL; t = t->next)
        for (Node *node = thread_is_over(t) ? &t->root : visible(t); node != NULL; node = node->parent)
            if (node->key == routine->node_key)
                return;
    routine->flags |= ROUTINE_THROTTLED;
    if (routine->record != NULL && routine->generation == generation)
        routine->record->flags = routine->flags;
    for (uint64_t i = 0; i < routine->node_count && routine->generation == generation; i++) {
        Node *node = routine->nodes[i];
        node_rekey(node, (void *)((uint64_t)routine->node_key | KEY_THROTTLED));
    }
}
