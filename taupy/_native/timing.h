/* How a call is timed: enter and leave. Whoever changes what a call costs opens this file.
 *
 * `full` is a constant where these are inlined: further metrics and throttling cost nothing
 * where nobody asked for them. What is rare stands in timing.c. */
#ifndef TAUPY_TIMING_H
#define TAUPY_TIMING_H

#include "memory.h"
#include "metrics.h"
#include "routine.h"
#include "spans.h"
#include "thread.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum Entry { ENTERED = 0, UNRECORDED = 1 };

/* A module that knows of nodes below which not all is recorded. */
typedef struct NodeWatch {
    uint32_t flag; /* of enum NodeFlags: the nodes. The cursor stands on one: */
    /* Is this entry passed over? If not, the cursor may be another one. `globals`: NULL for those
     * of the frame at work. */
    int (*skips)(Thread *thread, void *key, PyObject *callable, PyObject *globals);
    int (*skips_return)(Thread *thread, const void *key);
    struct NodeWatch *next;
} NodeWatch;

/* Does nothing if it is registered already. They are asked in that order. */
void node_watch_add(NodeWatch *watch);

extern uint64_t depth_limit; /* 0: none */
extern int throttling;
extern uint64_t throttle_calls, throttle_ticks;

/* The child `key` of `parent` where the last child is another. NULL: hidden, and counted
 * as such; &nowhere: not to be recorded at all, its callees go to `parent`. Small, since a
 * routine that calls several others comes here at most of its calls. */
Node *child_slow(Thread *thread, Node *parent, void *key,
                                                  PyObject *callable, PyObject *globals);
/* The cursor stands on a node with NODE_SKIPS: is this entry passed over? If not, the cursor may be
 * another one. */
int entry_is_skipped(Thread *thread, void *key, PyObject *callable, PyObject *globals);
/* There is no room for a call: it and what it calls are folded into the caller. */
void call_fold(Thread *thread);
/* `returned`: what it returns; NULL: an exception leaves it. */
int leave_slow(Thread *thread, void *key, uint64_t now, PyObject *returned);
/* TAU's rule: many calls, little time each. Nothing more is recorded of the routine; its
 * nodes keep what they have, under keys that no look-up finds. Not while it is open. */
void throttle(void *key, uint64_t took);
/* Close `node` and all that is open below it. The caller has read `now` and, if there
 * are further metrics, this reads them again: they are exact for the innermost node. */
void close_down_to(Thread *thread, Node *node, uint64_t now);
/* Close what is open on all threads: the engine stops. */
void close_all(uint64_t now);
/* The clocks of the one path stop, those of the other run; shared nodes go on. */
void exchange(Thread *thread, Node *from, Node *to, uint64_t now);

/* The clock is read last at an entry and first at a return. */
static ALWAYS_INLINE void node_enter(Thread *thread, Node *node, int resume, int full)
{
    cursor_set(thread, node);
    if (resume)
        node->resumes++;
    else
        node->calls++;
    if (full && metric_count)
        metrics_enter(thread, node);
    uint64_t now = clock_ticks();
    if (unlikely(now >= thread->due_ticks))
        now = memory_looked(thread, node->parent, now);
    node->t0 = now;
}

static ALWAYS_INLINE uint64_t node_leave(Thread *thread, Node *node, uint64_t now, int full)
{
    /* On 3.11 entry and return are one function: GCC would keep the cursor's address between. */
    __asm__("" : "+r"(thread));
    uint64_t took = now - node->t0;
    node->inclusive += took;
    if (full && metric_count)
        metrics_leave(thread, node, took);
    if (full && unlikely(node->flags & NODE_STAMPED))
        span_add(thread, node, now);
    cursor_set(thread, node->parent);
    if (unlikely(now >= thread->due_ticks))
        memory_due(thread, node, now);
    return took;
}

/* A node's clock runs from now on, and no longer: where many nodes change at one moment. */
static inline void node_run(Thread *thread, Node *node, uint64_t now)
{
    if (metric_count)
        metrics_enter(thread, node);
    node->t0 = now;
}

static inline void node_stop(Thread *thread, Node *node, uint64_t now)
{
    node->inclusive += now - node->t0;
    if (metric_count)
        metrics_leave(thread, node, 0);
    if (unlikely(node->flags & NODE_STAMPED))
        span_add(thread, node, now);
}

static ALWAYS_INLINE enum Entry enter(void *key, int resume, PyObject *callable,
                                      PyObject *globals, int full)
{
    Thread *thread = this_thread;
    if (unlikely(thread == NULL)) {
        if (globals == NULL && callable == NULL)
            globals = PyEval_GetGlobals();
        if ((thread = thread_begin(globals)) == NULL)
            return ENTERED;
    }
    Node *parent = thread->cursor;
    Node *node = parent->last;
    if (unlikely(node->key != key)) {
        if (unlikely(parent->flags & NODE_SKIPS)) {
            if (entry_is_skipped(thread, key, callable, globals))
                return ENTERED;
            parent = thread->cursor;
        }
        node = child_slow(thread, parent, key, callable, globals);
        if (unlikely(node == NULL))
            return ENTERED;
        if (unlikely(node == &nowhere))
            return UNRECORDED;
    }
    node_enter(thread, node, resume, full);
    return ENTERED;
}

/* `returned`: what it returns; NULL: an exception leaves it. */
static ALWAYS_INLINE enum Entry leave_as(void *key, int full, PyObject *returned)
{
    uint64_t now = clock_ticks();
    Thread *thread = this_thread;
    if (unlikely(thread == NULL) && (thread = thread_after_fork()) == NULL)
        return ENTERED;
    Node *node = thread->cursor;
    if (unlikely(node->key != key))
        return leave_slow(thread, key, now, returned);
    uint64_t took = node_leave(thread, node, now, full);
    if (full && throttling && KEY_KIND(key) != KEY_TIMER)
        throttle(key, took);
    return ENTERED;
}

static ALWAYS_INLINE enum Entry leave(void *key, int full) { return leave_as(key, full, Py_None); }

#endif
