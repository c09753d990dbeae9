/* The row of what passes after the program; see exit_row.h. */
#include "exit_row.h"
#include "frames.h"
#include "metrics.h"
#include "process.h"
#include "timers.h"
#include "timing.h"
#include <unistd.h>

static void *exit_key; /* NULL: no such row */
static struct {
    int has_begun, is_unrecorded; /* it is not recorded itself, so its end is not seen */
    const Node *before;           /* what the thread had entered last when it began */
    uint64_t start[1 + METRICS_AT_MOST]; /* ticks and metrics that were nobody's by then */
} program;

static void add_child(const Node *child, uint64_t *sums)
{
    sums[0] += child->inclusive;
    for (int i = 0; i < call_metrics; i++)
        sums[1 + i] += node_metrics((Node *)child)[2 * i + 1];
}

/* Ticks and metrics of all that the thread has entered. */
static void add_children(const Thread *thread, uint64_t *sums)
{
    const Node *root = &thread->root, *child = root->last;
    if (child == &nowhere)
        return;
    if (root->flags & NODE_MANY) {
        for (uint64_t i = 0; i < table_slots(&thread->nodes); i++)
            if ((child = thread->nodes.slots[i].entry) != NULL && child->parent == root)
                add_child(child, sums);
        return;
    }
    do {
        add_child(child, sums);
        child += child->sibling;
    } while (child != root->last);
}

/* Ticks and metrics of the thread outside of all that it has entered. */
static void nobodys(Thread *thread, uint64_t now, uint64_t *values)
{
    uint64_t sums[1 + METRICS_AT_MOST] = {0};
    Node *root = &thread->root;
    add_children(thread, sums);
    metrics_flush(thread);
    values[0] = now - root->t0 - sums[0];
    for (int i = 0; i < call_metrics; i++)
        values[1 + i] = node_metrics(root)[2 * i + 1] - sums[1 + i];
}

static void program_begins(Thread *thread)
{
    program.has_begun = 1;
    program.before = thread->root.last;
    nobodys(thread, clock_ticks(), program.start);
}

/* Open the row, with all that has passed outside of the program since that began. No Python: it may
 * have ended. */
static void begin(Thread *thread)
{
    uint64_t values[1 + METRICS_AT_MOST], now = clock_ticks();
    Routine *routine = routine_find(exit_key);
    thread->root.flags &= (uint8_t)~NODE_PROGRAM;
    if (routine == NULL)
        return;
    nobodys(thread, now, values);
    if (routine->generation != generation)
        routine_record(routine);
    Node *node = node_new(thread, &thread->root, exit_key);
    if (node == NULL)
        return;
    routine_add_node(routine, node);
    for (int i = 0; i < call_metrics; i++) {
        node_metrics(node)[2 * i] = node_metrics(&thread->root)[2 * i];
        node_metrics(node)[2 * i + 1] = values[1 + i] - program.start[1 + i];
    }
    node->calls = 1;
    node->t0 = now - (values[0] - program.start[0]);
    cursor_set(thread, node);
}

/* Whether no Python routine has called the one with this code, which is about to begin. */
static int is_outermost(const void *code)
{
    void *frame = frame_first();
    const void *found = frame_next_code(&frame);
    if (found == code)
        found = frame_next_code(&frame);
    if (found != NULL)
        frame_drop(frame);
    return found == NULL;
}

/* Whether a whole module is entered, as for each line typed at a prompt. */
static int is_module(const void *key)
{
    return KEY_KIND(key) == 0 &&
           PyUnicode_CompareWithASCIIString(((const PyCodeObject *)key)->co_name, "<module>") == 0;
}

/* Python 3.15 calls one of these back when it has imported runpy, before the program. */
static int is_of_imports(const void *key)
{
    return KEY_KIND(key) == 0 &&
           PyUnicode_CompareWithASCIIString(((const PyCodeObject *)key)->co_filename,
                                            "<frozen importlib._bootstrap>") == 0;
}

/* A routine is entered outside of all others. */
static int skips(Thread *thread, void *key, PyObject *callable, PyObject *globals)
{
    (void)callable, (void)globals;
    int is_outer = KEY_KIND(key) != 0 || is_outermost(key);
    int is_recorded = program.has_begun && thread->root.last != program.before;
    if (!is_outer) { /* of the import of runpy, or the program has called it */
        program.is_unrecorded = program.has_begun;
        if (program.has_begun)
            thread->root.flags &= (uint8_t)~NODE_PROGRAM;
    } else if (!is_recorded && !is_of_imports(key))
        program_begins(thread);
    else if (is_recorded && !is_module(key))
        begin(thread);
    return 0;
}

static int skips_return(Thread *thread, const void *key)
{
    (void)thread, (void)key;
    return 0;
}

static void on_thread_begun(Thread *thread)
{
    if (exit_key != NULL && !program.is_unrecorded && thread->native_id == (uint64_t)getpid())
        thread->root.flags |= NODE_PROGRAM;
}

void exit_row_start(int is_program)
{
    static NodeWatch watch = {.flag = NODE_PROGRAM, .skips = skips, .skips_return = skips_return};
    memset(&program, 0, sizeof program);
    exit_key = is_program && !group_disabled(EXIT_GROUP) ? timer_key("exit", EXIT_GROUP) : NULL;
    if (exit_key != NULL && routine_find(exit_key) == NULL &&
        routine_new(exit_key, Py_None, NULL) == NULL)
        exit_key = NULL;
    PyErr_Clear();
    node_watch_add(&watch);
}

void exit_row_end(void)
{
    Thread *thread = thread_mine();
    if (active && thread != NULL && thread->root.flags & NODE_PROGRAM &&
        thread->cursor == &thread->root && program.has_begun &&
        thread->root.last != program.before)
        begin(thread);
}

Listener exit_row_listener = {.on_thread_begun = on_thread_begun};
