/* Nodes of autograd's graph as they begin and end; see autograd.h. */
#define _GNU_SOURCE
#include "autograd.h"
#include "autograd_host.h"
#include "carry.h"
#include "collectives.h"
#include "layer_facts.h"
#include "library.h"
#include "operators.h"
#include "owners.h"
#include "process.h"
#include "steps_window.h"
#include "timers.h"
#include "timing.h"
#include <stdio.h>

#define OPEN_AT_MOST 64 /* autograd moves deeper nesting to another thread first */

#define NAMESPACE "torch::autograd::" /* PyTorch's own node classes */

char *autograd_library;

/* A running graph node. All NULL: not recorded. */
typedef struct OpenNode {
    Node *layer, *node;
    void *owner;    /* of what it creates itself, in a gradient of a gradient; NULL: unchanged */
    void *before;   /* once that is noted: the owner before */
    uint64_t since; /* the next number when it began */
    int is_noted;
} OpenNode;

/* State of one thread. */
typedef struct Running {
    OpenNode open[OPEN_AT_MOST];
    unsigned count;
    uint64_t generation; /* of the open nodes */
    void *owner;         /* of the previous node */
    Node *layer;         /* the previous node's parent in the call tree */
    uint64_t pass;       /* start of that layer's pass */
} Running;

static AutogradHost host;
static int is_tried;
static NamedTimers nodes = {AUTOGRAD_GROUP, "(other nodes)", NAMESPACE, {0}, 0};
static uint64_t numbered, owned, forgotten;
static __thread Running *running;

/* ---------------------------------------------------------------- begin */

static OpenNode *open_push(void)
{
    if (running == NULL && (running = calloc(1, sizeof *running)) == NULL)
        return NULL;
    if (running->generation != generation)
        *running = (Running){.generation = generation};
    unsigned at = running->count++;
    if (at >= OPEN_AT_MOST)
        return NULL;
    running->open[at] = (OpenNode){.since = host.sequence()};
    return &running->open[at];
}

/* Needs tree_lock. */
static void *owner_here(int64_t sequence, uint64_t thread)
{
    int is_forgotten = 0;
    if (sequence < 0)
        return running->owner;
    running->owner = owner_of(thread, (uint64_t)sequence, &is_forgotten);
    numbered++;
    owned += running->owner != NULL;
    forgotten += (uint64_t)is_forgotten;
    return running->owner;
}

/* Whether the layer's pass continues: the previous node belonged to it, too. */
static int is_again(Node *layer, uint64_t pass)
{
    int again = running->layer == layer && running->pass == pass;
    running->layer = layer;
    running->pass = pass;
    return again;
}

/* An existing call path below `parent`; NULL if there is none. */
static Node *child_known(const Thread *thread, Node *parent, const void *key)
{
    Node *node = node_find(thread, parent, key);
    if (node != NULL)
        parent->last = node;
    return node;
}

/* The layer's call path below `caller`. Usually it is that of the previous node. */
static Node *layer_known(const Thread *thread, Node *caller, const void *owner)
{
    Node *layer = running->layer;
    if (layer != NULL && layer->key == owner && layer->parent == caller)
        return layer;
    return child_known(thread, caller, owner);
}

/* Prefetch the call paths that probably follow. Graph nodes run in the same order in each pass, and
 * their call paths are in memory in that order, so the next layer and its first node come after the
 * last node. Since the previous pass, other work has displaced them from the cache. */
static void expect_next(const Node *node)
{
    __builtin_prefetch(node + node_stride, 1);
    __builtin_prefetch(node + 2 * node_stride, 1);
}

/* Enter existing call paths, without the GIL but under tree_lock. Returns 0 if they do not
 * exist. */
static int enter_known(Thread *thread, OpenNode *open, void *owner, const char *name)
{
    Node *caller = thread->cursor;
    Node *layer = owner != NULL ? layer_known(thread, caller, owner) : NULL;
    void *timer = timer_known(&nodes, name, 0);
    if (owner != NULL && !spans_ready(thread))
        return 0;
    if ((owner != NULL && layer == NULL) || timer == NULL)
        return 0;
    Node *node = child_known(thread, layer != NULL ? layer : caller, timer);
    if (node == NULL)
        return 0;
    if (layer != NULL && is_again(layer, caller->t0))
        layer->resumes++;
    else if (layer != NULL) {
        layer->calls++;
        layer_facts_pass(owner);
    } else
        is_again(NULL, caller->t0);
    node->calls++;
    open->layer = layer;
    open->node = node;
    if (metric_count && layer != NULL)
        metrics_enter(thread, layer);
    if (metric_count)
        metrics_enter(thread, node);
    node->t0 = clock_ticks();
    if (layer != NULL)
        layer->t0 = node->t0;
    cursor_set(thread, node);
    return 1;
}

static int is_recordable(const Thread *thread)
{
    return thread->cursor != &thread->hidden && !is_brief(thread) &&
           (depth_limit == 0 || thread->cursor->depth < depth_limit);
}

/* Enter a graph node for the first time on this call path. */
static void enter_new(OpenNode *open, void *owner, const char *name)
{
    PyObject *type, *value, *trace;
    if (!python_is_there())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    Thread *thread = thread_here();
    void *timer = NULL;
    if (thread != NULL && is_recordable(thread)) {
        if (callpath_count < callpath_limit)
            timer = timer_named(&nodes, name, 0, NULL);
        else
            part->calls_over_limit++;
    }
    if (timer != NULL) {
        uint64_t pass = thread->cursor->t0;
        if (owner != NULL)
            spans_reserve(thread);
        if (owner != NULL && timer_begin(thread, owner))
            open->layer = thread->cursor;
        if (is_again(open->layer, pass) && open->layer != NULL) {
            open->layer->calls--;
            open->layer->resumes++;
        } else if (open->layer != NULL) {
            pthread_mutex_lock(&tree_lock);
            layer_facts_pass(owner);
            pthread_mutex_unlock(&tree_lock);
        }
        if (timer_begin(thread, timer))
            open->node = thread->cursor;
    }
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static void node_begins(const char *name, int64_t sequence, uint64_t forward)
{
    OpenNode *open = open_push();
    if (open == NULL)
        return;
    int saved = errno, is_done = 1;
    void *owner = NULL;
    Thread *thread = thread_mine();
    if (thread != NULL)
        collectives_node_begins(thread);
    pthread_mutex_lock(&tree_lock);
    if (active && !waiting) {
        open->owner = owner = owner_here(sequence, forward);
        is_done = thread != NULL &&
                  (!is_recordable(thread) || enter_known(thread, open, owner, name));
    }
    pthread_mutex_unlock(&tree_lock);
    if (!is_done)
        enter_new(open, owner, name);
    errno = saved;
}

/* ---------------------------------------------------------------- end */

/* Leave a node below which something was left open. */
static void leave_open(Node *outer, uint64_t now)
{
    if (!python_is_there())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Thread *thread = active ? thread_mine() : NULL;
    const Node *node = thread != NULL ? visible(thread) : NULL;
    while (node != NULL && node != outer)
        node = node->parent;
    if (node != NULL)
        close_down_to(thread, outer, now);
    PyGILState_Release(state);
}

/* Note who owns the graph nodes that a running one creates. */
static void created(OpenNode *open)
{
    if (!open->is_noted)
        open->before = owner_note_late(host.thread(), open->since, open->owner);
    open->is_noted = 1;
}

/* It creates no more. Most have created none. */
static void created_all(OpenNode *open)
{
    uint64_t next = open->owner != NULL ? host.sequence() : open->since;
    if (next == open->since && !open->is_noted)
        return;
    created(open);
    owner_note(host.thread(), next, open->before);
}

static void node_ends(void)
{
    uint64_t now = clock_ticks();
    Thread *thread = thread_mine();
    if (running == NULL || running->count == 0 || --running->count >= OPEN_AT_MOST ||
        running->generation != generation)
        return;
    created_all(&running->open[running->count]);
    OpenNode open = running->open[running->count];
    Node *inner = open.node != NULL ? open.node : open.layer;
    Node *outer = open.layer != NULL ? open.layer : open.node;
    if (inner == NULL)
        return;
    int saved = errno;
    pthread_mutex_lock(&tree_lock);
    thread = active ? thread : NULL;
    int is_innermost = thread != NULL && thread->cursor == inner;
    if (is_innermost) {
        thread->without_gil = thread->is_apart = 1;
        for (Node *node = inner; node != outer->parent; node = node->parent)
            node_stop(thread, node, now);
        thread->without_gil = 0;
        cursor_set(thread, outer->parent);
        expect_next(inner);
    }
    pthread_mutex_unlock(&tree_lock);
    if (thread != NULL && !is_innermost)
        leave_open(outer, now);
    if (thread != NULL)
        collectives_node_ended(thread, inner);
    errno = saved;
}

/* ---------------------------------------------------------------- PyTorch */

void autograd_owner(void *backward)
{
    if (host.sequence == NULL)
        return;
    if (running != NULL && running->count > 0 && running->count <= OPEN_AT_MOST &&
        running->generation == generation) {
        OpenNode *open = &running->open[running->count - 1];
        if (open->owner != NULL) {
            created(open);
            backward = backward != NULL ? backward : open->owner;
        }
    }
    if (this_thread != NULL)
        this_thread->is_apart = 1;
    owner_note(host.thread(), host.sequence(), backward);
}

static const char *library_begin(void)
{
    const char *problem = NULL;
    AutogradEntry *begin = (AutogradEntry *)library_entry(autograd_library, AUTOGRAD_ENTRY, &problem);
    if (begin == NULL)
        return problem;
    host = (AutogradHost){AUTOGRAD_HOST_VERSION, node_begins, node_ends, NULL, NULL};
    return begin(&host);
}

static void problem_write(const char *problem)
{
    char text[512];
    snprintf(text, sizeof text, "backward passes are not divided by layer: %s", problem);
    metadata_write("taupy.health.autograd", text);
}

void autograd_start(void)
{
    if (is_tried || autograd_library == NULL)
        return;
    is_tried = 1;
    if (operators_wanted)
        nodes.group = NODE_OPERATOR_GROUP;
    const char *problem = library_begin();
    if (problem != NULL)
        problem_write(problem);
}

/* Where operators are recorded, so are the nodes that call them, in modules or not. */
static void on_import(void)
{
    if (operators_wanted && operators_host.record != NULL)
        autograd_start();
}

static void on_lookup(Thread *thread)
{
    (void)thread;
    on_import();
}

static void on_finish(int ends)
{
    char text[128];
    (void)ends;
    if (numbered == 0)
        return;
    snprintf(text, sizeof text, "%llu numbered, %llu of a layer, %llu too old to tell",
             (unsigned long long)numbered, (unsigned long long)owned,
             (unsigned long long)forgotten);
    metadata_write("Autograd Nodes", text);
}

static void on_thread_end(Thread *thread)
{
    (void)thread;
    free(running);
    running = NULL;
    owners_end();
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    numbered = owned = forgotten = 0;
    owners_forked();
}

Listener autograd_listener = {
    .on_lookup = on_lookup, .on_import = on_import, .on_thread_end = on_thread_end, .on_finish = on_finish, .on_fork = on_fork};
