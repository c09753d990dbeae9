/* How a call is timed: enter and leave. Anything that changes the cost of a call is in this file.
 *
 * The hooks first try `enter_again` and `leave_again`, which do the most frequent case and nothing
 * else. They call no function, so a hook that ends with a jump to its other cases saves no
 * registers. If additional metrics, throttling, spans or a slower clock need more
 * (`timing_is_full`), hooks use `enter` and `leave` alone. `full` is a constant where these are
 * inlined. Rare cases are in timing.c. */
#ifndef TAUPY_TIMING_H
#define TAUPY_TIMING_H

#include "memory.h"
#include "metrics.h"
#include "origin.h"
#include "routine.h"
#include "spans.h"
#include "thread.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

enum Entry { ENTERED = 0, UNRECORDED = 1 };

/* A module that handles nodes below which not everything is recorded. */
typedef struct NodeWatch {
    uint32_t flag; /* one of NodeFlags. When the cursor is on such a node: */
    /* Whether to skip this entry. If not, the cursor may have changed. `globals`: NULL for those of
     * the running frame. */
    int (*skips)(Thread *thread, void *key, PyObject *callable, PyObject *globals);
    int (*skips_return)(Thread *thread, const void *key);
    struct NodeWatch *next;
} NodeWatch;

/* Idempotent. Watches are asked in order of registration. */
void node_watch_add(NodeWatch *watch);

extern uint64_t depth_limit; /* 0: unlimited */
extern int throttling;
extern uint64_t throttle_calls, throttle_ticks;

/* The child `key` of `parent` when it is not the last one entered. NULL: the call is now hidden;
 * &nowhere: record nothing, and attach its callees to `parent`. Small, because a routine that calls
 * several others comes here at most calls. */
Node *child_slow(Thread *thread, Node *parent, void *key,
                                                  PyObject *callable, PyObject *globals);
/* The cursor is on a node with NODE_SKIPS: whether to skip this entry. If not, the cursor may have
 * changed. */
int entry_is_skipped(Thread *thread, void *key, PyObject *callable, PyObject *globals);
/* No room for this call: fold it and its callees into the caller. */
void call_fold(Thread *thread);
/* `returned`: the return value; NULL if an exception leaves it. */
int leave_slow(Thread *thread, void *key, uint64_t now, PyObject *returned);
/* TAU's throttling rule: many calls with little time each. The routine is no longer recorded; its
 * nodes keep their values, under keys that no look-up finds. Never done while the routine is
 * open. */
void throttle(void *key, uint64_t took);
/* Close `node` and everything open below it. The caller has read `now`; additional metrics, if any,
 * are read again here, so they are exact for the innermost node. */
void close_down_to(Thread *thread, Node *node, uint64_t now);
/* Close everything open on all threads: the engine is stopping. */
void close_all(uint64_t now);
/* Stop the clocks along one path and start those of the other; shared nodes keep running. */
void exchange(Thread *thread, Node *from, Node *to, uint64_t now);

static inline int timing_is_full(void)
{
    return throttling || call_metrics || spans_limit || !clock_is_fast();
}

/* When the thread's sampling window ends; at once where the part is another process's. */
static ALWAYS_INLINE uint64_t window_end(const Thread *thread)
{
    return thread->due_ticks & part_owner.mask;
}

/* Enter a call path that is there and is among few, if no sampling window ends. NULL: not done. */
static ALWAYS_INLINE Node *enter_again(Thread *thread, const void *key, int resume)
{
    if (unlikely(thread == NULL))
        return NULL;
    Node *parent = thread->cursor, *node = parent->last;
    if (unlikely(node->key != key)) {
        if (parent->flags & (NODE_SKIPS | NODE_MANY) || (node = ring_find(parent, key)) == NULL ||
            !part_is_ours())
            return NULL;
        parent->last = node;
    }
    uint64_t now = clock_fast_ticks();
    if (unlikely(now >= window_end(thread)))
        return NULL;
    if (resume)
        node->resumes++;
    else
        node->calls++;
    node->t0 = now;
    cursor_set(thread, node);
    return node;
}

/* Whether an import is running in which code of libraries is not recorded. */
static ALWAYS_INLINE int is_import(const Node *node)
{
    return (node->flags & NODE_SKIPS) == NODE_IMPORT;
}

/* Whether this call, which `enter_again` has not entered, is such code. */
static ALWAYS_INLINE int enters_library(const Thread *thread, const void *code)
{
    return thread != NULL && is_import(thread->cursor) && is_library_code(code) && part_is_ours();
}

/* Leave this routine, if it is the innermost one and no sampling window ends, or if it was not
 * recorded because an import is running. 0: not done. `now`: read already, or else (`reads`) to be
 * read, which the latter does not need. */
static ALWAYS_INLINE int leave_again(Thread *thread, const void *key, uint64_t *now, int reads)
{
    if (unlikely(thread == NULL || thread->cursor->key != key)) {
        if (thread != NULL && is_import(thread->cursor) && key != import_code && part_is_ours())
            return 1;
        *now = reads ? clock_fast_ticks() : *now;
        return 0;
    }
    Node *node = thread->cursor;
    *now = reads ? clock_fast_ticks() : *now;
    if (unlikely(*now >= window_end(thread)))
        return 0;
    node->inclusive += *now - node->t0;
    cursor_set(thread, node->parent);
    return 1;
}

/* Read the clock last on entry and first on return, to exclude our own cost. The cursor moves when
 * the node's clock is right: the process may be killed in between, and what is open then counts from
 * `t0` to the end. */
static ALWAYS_INLINE void node_enter(Thread *thread, Node *node, int resume, int full)
{
    if (resume)
        node->resumes++;
    else
        node->calls++;
    if (full && metric_count)
        metrics_enter(thread, node);
    uint64_t now = clock_ticks();
    if (unlikely(now >= thread->due_ticks))
        now = memory_looked(thread, node, now);
    node->t0 = now;
    cursor_set(thread, node);
}

static ALWAYS_INLINE uint64_t node_leave(Thread *thread, Node *node, uint64_t now, int full)
{
    /* On 3.11, entry and return are one function: keep GCC from holding the cursor's address across
     * the call. */
    __asm__("" : "+r"(thread));
    uint64_t took = now - node->t0;
    if (full && metric_count)
        metrics_leave(thread, node, took);
    if (full && unlikely(node->flags & NODE_SPANS))
        span_add(thread, node, now);
    node->inclusive += took;
    cursor_set(thread, node->parent);
    if (unlikely(now >= thread->due_ticks))
        memory_due(thread, node, now);
    return took;
}

/* Run a node's clock, and do nothing else: used where many nodes change at once. */
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
    if (unlikely(node->flags & NODE_SPANS))
        span_add(thread, node, now);
}

/* The call path of the innermost frame, whatever timers are open in it; NULL if it is not
 * recorded. */
static inline Node *node_running(const Thread *thread, const void *code)
{
    Node *node = thread->cursor;
    while (unlikely(node->key != code)) {
        const Routine *routine;
        if (KEY_KIND(node->key) == KEY_TIMER && !key_is_routine(node->key) && node->parent != NULL)
            node = node->parent;
        else if ((routine = routine_find(code)) != NULL && node->key == routine->node_key)
            break;
        else
            return NULL;
    }
    return node;
}

static ALWAYS_INLINE enum Entry enter_on(Thread *thread, void *key, int resume, PyObject *callable,
                                         PyObject *globals, int full)
{
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

static ALWAYS_INLINE enum Entry enter(void *key, int resume, PyObject *callable,
                                      PyObject *globals, int full)
{
    return enter_on(thread_entering(key), key, resume, callable, globals, full);
}

/* `returned`: the return value; NULL if an exception leaves it. */
static ALWAYS_INLINE enum Entry leave_at(uint64_t now, void *key, int full, PyObject *returned)
{
    Thread *thread = thread_mine();
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

static ALWAYS_INLINE enum Entry leave(void *key, int full)
{
    return leave_at(clock_ticks(), key, full, Py_None);
}

#endif
