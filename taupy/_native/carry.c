/* Reopening nodes at a different place of the call tree. */
#include "carry.h"
#include "awaits.h"
#include "process.h"
#include "timing.h"

const PhaseWatch *phase_watch;
int ranges_open;
size_t phases_open;
int timers_used;

int timer_begin(Thread *thread, void *key)
{
    enter(key, 0, Py_None, NULL, 1);
    if (thread->cursor != &thread->hidden)
        return 1;
    unhide(thread);
    return 0;
}

/* `ends`: the timer or range around it ends, with the timers that began in it. */
static int goes_on(Thread *thread, const Node *node, int ends)
{
    enum Range range = range_kind(node->key);
    return range == RANGE_NVTX || (range == RANGE_TIMER && !ends) ||
           (range == RANGE_RECORD_FUNCTION && phase_watch->goes_on(thread, node));
}

void go_on(Thread *thread, Node *inner, Node *outer, int ranges_only, uint64_t now)
{
    Node *open[RANGE_FRAMES];
    int n = 0, in_routine = 0;
    for (Node *node = inner; node != outer && n < RANGE_FRAMES; node = node->parent)
        open[n++] = node;
    while (n-- > 0) {
        Node *parent = thread->cursor, *old = open[n];
        in_routine |= !ranges_only && key_is_routine(old->key);
        if (!in_routine && !goes_on(thread, old, !ranges_only)) {
            part->overlaps += !ranges_only && !key_is_brief(old->key);
            continue;
        }
        Node *node = parent->last->key == old->key
                         ? parent->last
                         : child_slow(thread, parent, old->key, NULL, NULL);
        if (node == NULL || node == &nowhere) {
            if (node == NULL)
                unhide(thread);
            if (phases_open)
                phase_watch->moved(thread, old, NULL);
            continue;
        }
        cursor_set(thread, node);
        if (phases_open)
            phase_watch->moved(thread, old, node);
        if (range_kind(old->key) && old->calls > 0 && old->last == &nowhere) {
            old->calls--;
            node->calls++;
        } else
            node->resumes++;
        node_run(thread, node, now);
        part->repairs--; /* closed deliberately */
    }
}

/* A coroutine's timers end: with its task, or because they are too many. */
static void timers_end(const Routine *routine, const Node *inner, const Node *outer)
{
    for (const Node *node = inner; node != outer; node = node->parent)
        if (range_kind(node->key) == RANGE_TIMER) {
            part->overlaps++;
            timer_note(((const NamedTimer *)KEY_POINTER(node->key))->name, routine);
        }
}

/* Whether a coroutine awaits the one with this node. */
static int is_awaited(const Node *node)
{
    const Routine *routine = NULL;
    for (node = node->parent; node->parent != NULL && !key_is_routine(node->key);)
        node = node->parent;
    if (node->parent != NULL)
        routine = routine_find(node->key);
    return routine != NULL && routine->is_async;
}

void ranges_go_on(Thread *thread, Node *inner, Node *outer, uint64_t now)
{
    const Routine *routine = timers_used ? routine_find(outer->key) : NULL;
    if (thread->cursor->parent == NULL)
        phase_watch->closed(thread);
    else if (routine != NULL && routine->is_async &&
             (suspension != NULL ? !suspension->is_yield : !is_awaited(outer))) {
        if (suspension == NULL || !timers_hold(inner, outer))
            timers_end(routine, inner, outer);
    }
    else if (ranges_open || phases_open || timers_used)
        go_on(thread, inner, outer, 1, now);
}

Listener carry_listener = {.on_repaired = ranges_go_on};
