/* The call-path tree: one per thread, entered and left at every call.
 *
 * A node is a call path: a routine under its parent's node. There is no separate stack: the current
 * node is the stack. Each distinct path has its own node, so recursion cannot count a node's
 * inclusive time twice; exclusive time is inclusive time minus the children's, and is computed by
 * the reader. A node fills one cache line; with additional metrics it is followed by a second one,
 * which holds a pair (at entry, inclusive) per metric.
 *
 * A few children form a ring, in the order of their first entries: children called in turn are
 * found one step from the last child. Once there are more than RING_AT_MOST, or two neighbours are
 * too far apart, all of them move to the thread's table.
 *
 * Calls that are not to be recorded (beyond the depth limit, too many call paths, a disabled group)
 * are *hidden*: the cursor is on the thread's `hidden` node, `hide` counts the depth, and their
 * time stays with the caller. */
#ifndef TAUPY_CALLTREE_H
#define TAUPY_CALLTREE_H

#include "clock.h"
#include "part.h"
#include "table.h"
#include <pthread.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define RING_AT_MOST 4
#define STACK_UNKNOWN ((char *)UINTPTR_MAX) /* not determined yet */

typedef struct Node {
    void *key;           /* what was entered (routine.h); NULL for the root */
    struct Node *parent; /* NULL for the root */
    struct Node *last;   /* the child entered most recently, never NULL */
    uint64_t t0;         /* ticks at the last entry */
    uint64_t inclusive;  /* ticks of finished activations */
    uint64_t calls;
    uint64_t resumes;    /* entries that are not calls: a generator resuming */
    uint32_t depth;      /* 0 for the root */
    uint8_t region;      /* all metrics are read here, see metric_count; set for the root */
    uint8_t flags;       /* NodeFlags */
    int16_t sibling;     /* offset of the next child in the ring, in nodes */
} Node;
_Static_assert(sizeof(Node) == 64, "a node is one cache line");

enum NodeFlags {
    NODE_BACKWARD = 1, /* autograd's threads work on its behalf, see gpu.h */
    NODE_MANY = 2,     /* its children are in the table */
    NODE_IMPORT = 4,   /* see imports.h */
    NODE_BRIEF = 8,    /* see steps_window.h; inherited by all nodes below */
    NODE_STAMPED = 16, /* each call has a span, see spans.h */
    NODE_PROGRAM = 32, /* a root, see exit_row.h */
    NODE_LONG_STAMPED = 64, /* each long call has one */
    NODE_SPANS = NODE_STAMPED | NODE_LONG_STAMPED,
    NODE_SKIPS = NODE_IMPORT | NODE_BRIEF | NODE_PROGRAM, /* a NodeWatch sees what is entered */
};

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
    uint64_t due_ticks, looked_ticks; /* end and start of its window, see memory.h */
    char name[64];
    uint64_t state; /* address of its PyThreadState */
    uint64_t stays; /* its block and nodes become no other thread's, see thread_rows.h */
    /* private to the process, meaningless to a reader */
    Table nodes; /* by parent and key, for parents with many children */
    uint64_t node_count;
    Node *free_node;
    uint64_t free_count, block_count;
    char *stack_low; /* below this address the C stack is nearly exhausted (3.11) */
    pthread_t pthread;
    struct Thread *next;
    struct Stacks *stacks; /* of greenlets; NULL until the first switch */
    uint64_t greenlet_seen;
    struct CounterGroup *counters; /* NULL: none */
    uint64_t faults, fine; /* see memory.c */
    int64_t looked_cpu_ns; /* its CPU time at the start of its window, see memory.c */
    int64_t counted_cpu_ns; /* as of its last tick or switch */
    uint64_t looked_switches, switches; /* it has left a processor: at that start, and so far */
    struct Steps *steps;           /* NULL: none */
    uint64_t torch_thread;         /* PyTorch's id of the thread; 0: unknown. See collectives.h */
    struct SpanRecord *free_span; /* see spans.h */
    uint32_t free_spans, span_block, spans_kept;
    uint32_t renamed;     /* its first name is noted */
    uint32_t without_gil; /* nodes end without the GIL: nothing may be allocated */
    Node *asking; /* last node that ended, if it may have issued a collective; or NULL */
    const struct Block *blocks; /* blocks of its nodes, newest first; see block_before */
    const struct Block *sample_blocks; /* of its user events, the same */
    Node *start;       /* of the routine that it began in; NULL: not known yet. See thread_rows.h */
    uint32_t has_started; /* `start` is final */
    uint32_t is_apart; /* it is never added to others: addresses of its nodes are in use elsewhere */
    uint32_t leaves;   /* threading has forgotten it: it ends once nothing is open */
    struct Thread *next_ended;
    uint32_t looked; /* where it is among those looked at, see line_thread.c */
    struct Thread **mine; /* its `this_thread`; NULL: it is not one that runs Python */
} Thread;

extern PartHeader *part;
extern uint64_t generation; /* number of the current part within this process image */
extern Thread *threads;     /* newest first; without the GIL, use threads_now() */
extern uint64_t thread_count;
extern __thread Thread *this_thread __attribute__((tls_model("initial-exec")));
extern Node nowhere; /* key NULL: matches no look-up; also means "do not record" */
extern uint64_t callpath_count, callpath_limit;
/* Held by a thread that enters and leaves its own nodes without the GIL (autograd.c), and, together
 * with the GIL, by any thread that changes another thread's nodes. */
extern pthread_mutex_t tree_lock;
/* Held by a thread while it ends, and by any thread that reads other threads' counters. */
extern pthread_mutex_t ended_lock;
extern uint64_t node_stride; /* 2 if nodes have additional metrics */

/* The block of nodes allocated before this one; NULL if there is none. */
static inline const Block *block_before(const Block *block)
{
    return (const Block *)(uintptr_t)block->unused[0];
}

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

/* Find a child in the ring. No more steps than a ring has, since its links may be lost (guard.h);
 * unrolled, that costs nothing. */
static inline Node *ring_find(const Node *parent, const void *key)
{
    Node *last = parent->last, *node = last;
#pragma GCC unroll 4
    for (int i = 0; i < RING_AT_MOST; i++) {
        if (node->key == key)
            return node;
        node += node->sibling;
        if (node == last)
            break;
    }
    return NULL;
}

static inline Node *node_find(const Thread *thread, const Node *parent, const void *key)
{
    CallPath path = {parent, key};
    if (!(parent->flags & NODE_MANY))
        return ring_find(parent, key);
    return table_find(&thread->nodes, node_hash(parent, key), node_is, &path);
}

static inline Thread *threads_now(void) { return __atomic_load_n(&threads, __ATOMIC_ACQUIRE); }

/* Whether the thread has ended. Threads end without the GIL. */
static inline int thread_is_over(const Thread *thread)
{
    return __atomic_load_n(&thread->ended_ticks, __ATOMIC_ACQUIRE) != 0;
}

/* Backend threads read another thread's cursor while it moves (collectives.c, gpu.c). On x86-64 a
 * release store is the same instruction as a plain one. */
static inline void cursor_set(Thread *thread, Node *node)
{
    __atomic_store_n(&thread->cursor, node, __ATOMIC_RELEASE);
}

static inline void hidden_under(Thread *thread, Node *node)
{
    __atomic_store_n(&thread->hidden.parent, node, __ATOMIC_RELEASE);
}

/* The cursor or, if hidden, the node it is hidden under. */
static inline Node *visible(Thread *thread)
{
    Node *cursor = __atomic_load_n(&thread->cursor, __ATOMIC_ACQUIRE);
    return cursor == &thread->hidden ? __atomic_load_n(&thread->hidden.parent, __ATOMIC_ACQUIRE)
                                     : cursor;
}

/* Enter a call that is not recorded. */
static inline void hide(Thread *thread)
{
    Node *under = thread->cursor;
    if (under == &thread->hidden) {
        thread->hide++;
        return;
    }
    hidden_under(thread, under);
    thread->hidden.depth = under->depth;
    cursor_set(thread, &thread->hidden);
    thread->hide = 1;
}

static inline void unhide(Thread *thread)
{
    if (--thread->hide == 0)
        cursor_set(thread, thread->hidden.parent);
}

/* Change a node's key. The table has room: the node was in it before. */
void node_rekey(Node *node, void *key);
/* Create the node for (parent, key), which must not exist, as the parent's last child. NULL if the
 * limit of call paths is reached or memory runs out. */
Node *node_new(Thread *thread, Node *parent, void *key);

/* Give the nodes of a thread that has ended to threads to come. */
void nodes_free(Thread *thread);

/* Forget all threads: in a forked child, or when the engine ends. */
void threads_forget(void);

#endif
