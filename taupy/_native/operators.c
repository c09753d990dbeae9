/* PyTorch's operators as they begin and end; see operators.h. */
#include "operators.h"
#include "carry.h"
#include "library.h"
#include "process.h"
#include "timers.h"
#include "timing.h"
#include <errno.h>
#include <stdio.h>

#define SIGNATURES 4096      /* names with different inputs, in the process */
#define SIGNATURE_BYTES 1001 /* of their text, as imported traces keep it; with the NUL */
#define ENGINE "autograd::engine::" /* its operators, around its nodes */

char *operators_library;
int operators_wanted;
OperatorsHost operators_host;

static int is_tried;
static NamedTimers timers = {OPERATOR_GROUP, "(other operators)", NULL, {0}, 0};
static uint64_t unseen; /* on threads without a call tree */
static unsigned signatures; /* names with inputs */

/* ---------------------------------------------------------------- begin */

static int is_recordable(const Thread *thread)
{
    return thread->cursor != &thread->hidden && !(thread->cursor->flags & NODE_SKIPS) &&
           (depth_limit == 0 || thread->cursor->depth < depth_limit);
}

/* Whether no call path gets further sizes and types: a program whose sizes differ in each call must
 * not fill the room for call paths. */
static int is_crowded(void)
{
    return signatures >= SIGNATURES || callpath_count >= callpath_limit / 2;
}

static Node *node_known(const Thread *thread, Node *parent, const char *name, uint64_t inputs)
{
    const void *timer = timer_known(&timers, name, inputs);
    return timer != NULL ? node_find(thread, parent, timer) : NULL;
}

/* Enter a call path that is there, without the GIL but under tree_lock. NULL if it is not. */
static Node *enter_known(Thread *thread, const char *name, uint64_t inputs)
{
    Node *parent = thread->cursor;
    Node *node = node_known(thread, parent, name, inputs);
    if (node == NULL && inputs != 0 && is_crowded())
        node = node_known(thread, parent, name, 0);
    if (node == NULL)
        return NULL;
    parent->last = node;
    node->calls++;
    if (metric_count)
        metrics_enter(thread, node);
    node->t0 = clock_ticks();
    cursor_set(thread, node);
    return node;
}

/* The timer of an operator, with its inputs if there is room for them. */
static void *timer_of(const char *name, const OperatorInputs *inputs)
{
    char text[SIGNATURE_BYTES + 2] = "(";
    if (inputs->hash == 0 || is_crowded())
        return timer_named(&timers, name, 0, NULL);
    inputs->text(inputs->values, text + 1, SIGNATURE_BYTES);
    strcat(text, ")");
    uint64_t before = timers.entries.count;
    void *timer = timer_named(&timers, name, inputs->hash, text);
    signatures += timers.entries.count > before;
    return timer;
}

/* Enter an operator for the first time on this call path. NULL if there is no room for it. */
static Node *enter_new(Thread *thread, const char *name, const OperatorInputs *inputs)
{
    PyObject *type, *value, *trace;
    Node *node = NULL;
    if (!python_is_there())
        return NULL;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    void *timer = NULL;
    if (active && thread == this_thread && is_recordable(thread)) {
        if (callpath_count < callpath_limit)
            timer = timer_of(name, inputs);
        else
            part->calls_over_limit++;
    }
    if (timer != NULL && timer_begin(thread, timer))
        node = thread->cursor;
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return node;
}

static int operator_begins(const char *name, const OperatorInputs *inputs, OpenOperator *open)
{
    Thread *thread = this_thread;
    int saved = errno, is_new = 0;
    Node *node = NULL;
    if (strncmp(name, ENGINE, sizeof ENGINE - 1) == 0)
        return 0;
    pthread_mutex_lock(&tree_lock);
    if (active && !waiting && thread == NULL)
        unseen++;
    else if (active && !waiting && is_recordable(thread)) {
        node = enter_known(thread, name, inputs->hash);
        is_new = node == NULL;
    }
    pthread_mutex_unlock(&tree_lock);
    if (is_new)
        node = enter_new(thread, name, inputs);
    *open = (OpenOperator){node, generation};
    errno = saved;
    return node != NULL;
}

/* ---------------------------------------------------------------- end */

/* Leave an operator below which something was left open: its ranges go on. */
static void leave_open(Node *node, uint64_t now)
{
    PyObject *type, *value, *trace;
    if (!python_is_there())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    Thread *thread = active ? this_thread : NULL;
    Node *inner = thread != NULL ? visible(thread) : NULL, *at = inner;
    while (at != NULL && at != node)
        at = at->parent;
    if (at == NULL) { /* what was open has moved with a range that has ended */
        for (at = inner; at != NULL && at->key != node->key;)
            at = at->parent;
        node = at;
    }
    if (node != NULL) {
        close_down_to(thread, node, now);
        ranges_go_on(thread, inner, node, now);
    }
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static void operator_ends(const OpenOperator *open)
{
    uint64_t now = clock_ticks();
    Node *node = open->node;
    if (open->generation != generation)
        return;
    int saved = errno;
    pthread_mutex_lock(&tree_lock);
    Thread *thread = active ? this_thread : NULL;
    int is_innermost = thread != NULL && thread->cursor == node;
    if (is_innermost) {
        thread->without_gil = thread->is_apart = 1;
        node_stop(thread, node, now);
        thread->without_gil = 0;
        cursor_set(thread, node->parent);
    }
    pthread_mutex_unlock(&tree_lock);
    if (thread != NULL && !is_innermost)
        leave_open(node, now);
    errno = saved;
}

/* ---------------------------------------------------------------- PyTorch */

static const char *library_begin(void)
{
    const char *problem = NULL;
    OperatorsEntry *begin = (OperatorsEntry *)library_entry(operators_library, OPERATORS_ENTRY, &problem);
    if (begin == NULL)
        return problem;
    operators_host = (OperatorsHost){
        .version = OPERATORS_HOST_VERSION, .begins = operator_begins, .ends = operator_ends};
    return begin(&operators_host);
}

void operators_load(void)
{
    char text[512];
    if (is_tried || operators_library == NULL)
        return;
    is_tried = 1;
    const char *problem = library_begin();
    if (problem != NULL) {
        memset(&operators_host, 0, sizeof operators_host);
        snprintf(text, sizeof text, "shapes and operations of layers%s are not known: %s",
                 operators_wanted ? ", and operators," : "", problem);
        metadata_write("taupy.health.operators", text);
    } else if (operators_wanted)
        operators_host.record(operators_wanted > 1);
}

/* Load it as soon as PyTorch is there: operators need no module. */
static void look(void)
{
    PyObject *type, *value, *trace;
    if (!operators_wanted || is_tried || operators_library == NULL)
        return;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *modules = PySys_GetObject("modules"); /* borrowed */
    if (modules != NULL && PyDict_Check(modules) &&
        PyDict_GetItemString(modules, "torch._C") != NULL)
        operators_load();
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/* With --imports, an import is no row of its own. */
static void on_lookup(Thread *thread)
{
    (void)thread;
    look();
}

static void on_finish(int ends)
{
    char text[128];
    (void)ends;
    if (unseen == 0)
        return;
    snprintf(text, sizeof text,
             "%llu operators ran on threads without Python and were not recorded",
             (unsigned long long)unseen);
    metadata_write("taupy.health.operators_unseen", text);
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    unseen = 0;
}

Listener operators_listener = {
    .on_lookup = on_lookup, .on_import = look, .on_finish = on_finish, .on_fork = on_fork};
