/* The call-path tree: one a thread, entered and left at every call.
 *
 * A node is a call path: a routine under its parent's node. There is no stack: the
 * current node is the stack. Each distinct path has its own node, so recursion cannot
 * count a node's inclusive time twice; exclusive time is inclusive less the children's,
 * computed by the reader. A node fills one cache line; with further metrics a second one
 * follows it, holding pairs (at entry, inclusive) per metric. A node's only child is found as
 * its last one; as soon as there are two, all of them stand in the thread's table.
 *
 * Calls that are not to be recorded (deeper than the depth limit, more call paths than
 * allowed, a disabled group) are *hidden*: the cursor stands on the thread's `hidden`
 * node, `hide` counts how deep, and their time stays with the caller. */
#ifndef TAUPY_CALLTREE_H
#define TAUPY_CALLTREE_H

#include "clock.h"
#include "counters.c"
#include "part.h"
#include "table.h"
#include <pthread.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define METRICS_AT_MOST 4 /* further ones: pairs that fill one more cache line */
#define STACK_UNKNOWN ((char *)UINTPTR_MAX) /* not asked for yet */

typedef struct Node {
    void *key;           /* what was entered, see routine.h; NULL for the root */
    struct Node *parent; /* NULL for the root */
    struct Node *last;   /* the child entered most recently, never NULL */
    uint64_t t0;         /* ticks at the last entry */
    uint64_t inclusive;  /* ticks, of activations that have ended */
    uint64_t calls;
    uint64_t resumes;    /* entries that are no calls: a generator going on */
    uint32_t depth;      /* 0 for the root */
    uint16_t region;     /* all metrics are read here, see metric_count; the root is one */
    uint16_t flags;      /* NODE_FORKS; NODE_BACKWARD, see gpu.h */
} Node;
_Static_assert(sizeof(Node) == 64, "a node is one cache line");

#define NODE_FORKS 2 /* it has several children */

typedef struct Thread {
    Node root;
    uint64_t root_metrics[8];
    Node hidden;
    uint64_t hidden_metrics[8];
    Node *cursor;
    uint64_t hide;
    uint64_t index, native_id;
    uint64_t ended_ticks; /* 0 while the thread lives */
    int64_t cpu_start_ns, cpu_ns;
    uint64_t sampled_ticks, resident_kib;
    char name[64];
    /* private to the process, of no use to a reader */
    Table nodes; /* by parent and key; without only children */
    uint64_t node_count;
    Node *free_node;
    uint64_t free_count, block_count;
    char *stack_low; /* below it the C stack is nearly used up (3.11) */
    pthread_t pthread;
    struct Thread *next;
    struct Stacks *stacks; /* of greenlets; NULL until the first switch */
    uint64_t greenlet_seen;
    CounterGroup *counters; /* NULL: none */
} Thread;

static PartHeader *part;
static Thread *threads; /* newest first */
static __thread Thread *this_thread __attribute__((tls_model("initial-exec")));
static Node nowhere; /* key NULL: no look-up matches; also the answer "do not record" */
static uint64_t callpath_count, callpath_limit = 8u << 20;
static uint64_t depth_limit;   /* 0: none */
static int metric_count;       /* further metrics that a node has room for */
static int call_metrics;       /* so many of them are read at every call, the others at regions */
static int cpu_time_wanted;    /* the first of them is the thread's CPU time */
static uint64_t node_stride = 1;

static inline uint64_t *node_metrics(Node *node) { return (uint64_t *)(node + 1); }

static inline uint64_t node_hash(const Node *parent, const void *key)
{
    uint64_t bits = (uint64_t)key;
    return table_hash((uint64_t)parent ^ (bits << 27 | bits >> 37));
}

typedef struct CallPath {
    const Node *parent;
    const void *key;
} CallPath;

static inline int node_is(const void *entry, const void *wanted)
{
    const Node *node = entry;
    const CallPath *path = wanted;
    return node->key == path->key && node->parent == path->parent;
}

static inline Node *node_find(const Thread *thread, const Node *parent, const void *key)
{
    CallPath path = {parent, key};
    if (!(parent->flags & NODE_FORKS))
        return parent->last->key == key ? parent->last : NULL;
    return table_find(&thread->nodes, node_hash(parent, key), node_is, &path);
}

static int node_put(Thread *thread, Node *parent, const void *key, Node *node)
{
    return table_put(&thread->nodes, node_hash(parent, key), node);
}

static Thread *thread_hint; /* whose node was asked for last; NULL when threads are forgotten */

/* Of a node that is not an only child. */
static Thread *thread_of(Node *node)
{
    /* Its table tells at once; to climb to the root is long where call paths are deep. */
    if (thread_hint != NULL && node_find(thread_hint, node->parent, node->key) == node)
        return thread_hint;
    while (node->parent != NULL)
        node = node->parent;
    return thread_hint = (Thread *)node; /* the root is its first member */
}

/* Give a node another key. The table has room for it: the node was in it before. */
static void node_rekey(Node *node, void *key)
{
    if (node->parent->flags & NODE_FORKS) {
        Table *nodes = &thread_of(node)->nodes;
        table_remove(nodes, node_hash(node->parent, node->key), node);
        table_put(nodes, node_hash(node->parent, key), node);
    }
    node->key = key;
}

/* A node for (parent, key), which must not exist, as the parent's last child. NULL when no more
 * can be had. */
static Node *node_new(Thread *thread, Node *parent, void *key)
{
    if (callpath_count >= callpath_limit)
        return NULL;
    if (thread->free_count == 0) {
        /* Small first blocks, since a program may have thousands of short threads. */
        uint64_t count = thread->block_count ? thread->block_count : 31;
        Block *block = part_block(part, BLOCK_NODES, (uint32_t)thread->index,
                                  count * node_stride * sizeof(Node));
        if (block == NULL)
            return NULL;
        thread->free_node = (Node *)(block + 1);
        thread->free_count = count;
        thread->block_count = count < 1000 ? count * 2 + 1 : count;
    }
    Node *node = thread->free_node;
    if (parent->last != &nowhere) {
        if (!(parent->flags & NODE_FORKS)) {
            if (node_put(thread, parent, parent->last->key, parent->last) != 0)
                return NULL;
            parent->flags |= NODE_FORKS;
        }
        if (node_put(thread, parent, key, node) != 0)
            return NULL;
    }
    thread->free_node += node_stride;
    thread->free_count--;
    node->parent = parent;
    node->last = &nowhere;
    node->depth = parent->depth + 1;
    node->key = key; /* last: a reader takes a node with a key as whole */
    parent->last = node;
    thread->node_count++;
    callpath_count++;
    return node;
}

/* Has it ended? Threads end without the GIL. */
static inline int thread_is_over(const Thread *thread)
{
    return __atomic_load_n(&thread->ended_ticks, __ATOMIC_ACQUIRE) != 0;
}

static inline Node *visible(Thread *thread)
{
    return thread->cursor == &thread->hidden ? thread->hidden.parent : thread->cursor;
}

/* Enter something that is not recorded. */
static inline void hide(Thread *thread)
{
    if (thread->cursor == &thread->hidden) {
        thread->hide++;
        return;
    }
    thread->hidden.parent = thread->cursor;
    thread->hidden.depth = thread->cursor->depth;
    thread->cursor = &thread->hidden;
    thread->hide = 1;
}

static inline void unhide(Thread *thread)
{
    if (--thread->hide == 0)
        thread->cursor = thread->hidden.parent;
}

static void natives_look(void);

static uint64_t long_call_ticks = UINT64_MAX; /* after such a call, look for new threads */

static int metrics_of(const Node *node) { return node->region ? metric_count : call_metrics; }

/* The first `n` metrics of a thread, this one or another that lives. */
static void metrics_read(Thread *thread, int n, uint64_t *values)
{
    int own = thread == this_thread;
    if (cpu_time_wanted) {
        clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
        if (!own && (thread_is_over(thread) || pthread_getcpuclockid(thread->pthread, &clock) != 0))
            *values = (uint64_t)thread->cpu_ns;
        else
            *values = (uint64_t)clock_ns(clock);
    }
    if (n > cpu_time_wanted)
        counter_metrics(thread->counters, own, values + cpu_time_wanted);
}

/* Why a thread's counters are not to be believed stands with its block: no memory, no lock. */
static inline void counters_tell(Thread *thread, int faults, int why_not_open)
{
    Block *block = (Block *)thread - 1;
    block->unused[BLOCK_THREAD_FAULTS] |= (uint64_t)faults;
    if (why_not_open)
        block->unused[BLOCK_THREAD_ERRNO] = (uint64_t)why_not_open;
}

static void metrics_enter(Thread *thread, Node *node)
{
    uint64_t values[METRICS_AT_MOST] = {0};
    int n = metrics_of(node);
    if (n == 0)
        return;
    metrics_read(thread, n, values);
    for (int i = 0; i < n; i++)
        node_metrics(node)[2 * i] = values[i];
}

static void metrics_add(Thread *thread, Node *node, int n, const uint64_t *values)
{
    uint64_t *pairs = node_metrics(node);
    for (int i = 0; i < n; i++) {
        uint64_t more = values[i] - pairs[2 * i];
        if (unlikely(more >= COUNTER_UNBELIEVABLE)) {
            if (i >= cpu_time_wanted && thread->counters != NULL)
                thread->counters->faults |= COUNTER_NONSENSE;
            continue;
        }
        pairs[2 * i + 1] += more;
    }
    if (unlikely(thread->counters != NULL && thread->counters->faults))
        counters_tell(thread, thread->counters->faults, 0);
}

static void metrics_leave(Thread *thread, Node *node, uint64_t took)
{
    uint64_t values[METRICS_AT_MOST] = {0};
    int n = metrics_of(node);
    if (n == 0)
        return;
    metrics_read(thread, n, values);
    metrics_add(thread, node, n, values);
    if (unlikely(took > long_call_ticks))
        natives_look();
}

/* What is open counts up to now, and goes on. Under ended_lock (natives.h): the thread may be
 * about to end, and its descriptors to be closed and to become another's. */
static void metrics_flush(Thread *thread)
{
    uint64_t values[METRICS_AT_MOST] = {0}, events[COUNTER_EVENTS_AT_MOST];
    if (metric_count == 0 || thread_is_over(thread))
        return;
    if (thread->counters != NULL) /* have they counted all the time? */
        counter_read_events(thread->counters, events);
    metrics_read(thread, metric_count, values);
    for (Node *node = visible(thread); node != NULL; node = node->parent) {
        int n = metrics_of(node);
        metrics_add(thread, node, n, values);
        for (int i = 0; i < n; i++)
            node_metrics(node)[2 * i] = values[i];
    }
}

/* Close `node` and all that is open below it. The caller has read `now` and, if there
 * are further metrics, this reads them again: they are exact for the innermost node. */
static void close_down_to(Thread *thread, Node *node, uint64_t now)
{
    for (Node *open = visible(thread);; open = open->parent) {
        open->inclusive += now - open->t0;
        if (metric_count)
            metrics_leave(thread, open, 0);
        if (open == node)
            break;
        part->repairs++;
    }
    thread->hide = 0;
    thread->cursor = node->parent;
}

#endif
