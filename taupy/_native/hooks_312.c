/* The interpreter's hooks over the call-path tree, one way per Python version.
 *
 * 3.11: the frame-evaluation hook (PEP 523): called instead of the interpreter's loop, so
 *       entry and return are one C function. C functions come by the profile function.
 * 3.12: sys.monitoring (PEP 669) with callables of a type of our own, whose vectorcall
 *       is a C function. It sees all threads, and others may use it at the same time.
 *
 * Every callback leaves the interpreter's error state and errno alone. */
#ifndef TAUPY_HOOKS_H
#define TAUPY_HOOKS_H

#include "greenlets.c"

#define IS_GENERATOR_LIKE (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

static int throttling;
static uint64_t throttle_calls = 100000, throttle_ticks;
static int python_disabled; /* the program disabled the group PYTHON */
static int record_c_calls;

/* May recording begin on this thread? The interpreter's own start-up is not the program:
 * it begins with the first frame of __main__, or of runpy, which -m goes through. */
static Thread *thread_begin(PyObject *globals)
{
    if (!active)
        return NULL;
    if (waiting) {
        PyObject *name = globals == NULL ? NULL : PyDict_GetItemString(globals, "__name__");
        if (name == NULL || !PyUnicode_Check(name) ||
            (PyUnicode_CompareWithASCIIString(name, "__main__") != 0 &&
             PyUnicode_CompareWithASCIIString(name, "runpy") != 0))
            return NULL;
        waiting = 0;
    }
    return thread_new();
}

#if PY_VERSION_HEX < 0x030C0000
static int c_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg);
#endif

/* The name of a Python thread, looked up without running any of the program's code. */
static void name_thread(Thread *thread)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *module = modules ? PyDict_GetItemString(modules, "threading") : NULL;
    if (module == NULL || !PyModule_Check(module))
        return;
    PyObject *living = PyDict_GetItemString(PyModule_GetDict(module), "_active");
    if (living == NULL || !PyDict_CheckExact(living))
        return;
    PyObject *id = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *object = id ? PyDict_GetItem(living, id) : NULL;
    Py_XDECREF(id);
    PyObject *attributes = object ? PyObject_GenericGetDict(object, NULL) : NULL;
    PyObject *name = attributes ? PyDict_GetItemString(attributes, "_name") : NULL;
    if (name != NULL && PyUnicode_Check(name)) {
        char *text = text_of(name);
        if (text != NULL)
            snprintf(thread->name, sizeof thread->name, "%s", text);
        free(text);
    }
    Py_XDECREF(attributes);
}

static void phase_called(Thread *thread, Routine *routine, PyObject *object); /* phases.h */
static void phase_returns(Thread *thread, Routine *routine, PyObject *object, int returned);
static int phase_goes_on(Thread *thread, const Node *node);
static void phase_moved(Thread *thread, const Node *from, Node *to);
static void phases_closed(const Thread *thread);
#if PY_VERSION_HEX >= 0x030C0000
static PyObject *first_argument(PyObject *code);
static void phase_end(Thread *thread, const PyObject *object);
#endif

/* The answer for a routine with flags: as `child_slow`. */
static Node *child_unrecorded(Thread *thread, Routine *routine)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (routine->flags & ROUTINE_PHASE) {
        PyObject *object = first_argument(routine->key);
        phase_called(thread, routine, object);
        Py_XDECREF(object);
        return NULL; /* it has been entered */
    }
#endif
    (void)thread, (void)routine;
    return &nowhere;
}

/* A child that there is no node for yet. */
static __attribute__((noinline)) Node *child_new(Thread *thread, Node *parent, void *key,
                                                 PyObject *callable, PyObject *globals)
{
    Routine *routine;
    Node *node;
    if (unlikely(parent == &thread->hidden)) {
        if ((routine = routine_find(key)) != NULL && routine->flags)
            return child_unrecorded(thread, routine);
        hide(thread);
        return NULL;
    }
    if ((routine = routine_find(key)) != NULL && routine->flags)
        return child_unrecorded(thread, routine);
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (globals == NULL && (include_patterns != NULL || exclude_patterns != NULL))
        globals = PyEval_GetGlobals();
    if (routine == NULL)
        routine = routine_new(key, callable, globals);
    if (thread->name[0] == 0 && thread->node_count > 1 && thread->node_count < 64)
        name_thread(thread);
    if (unlikely(greenlet_loaded && !thread->greenlet_seen))
        greenlet_take(thread);
#if PY_VERSION_HEX < 0x030C0000
    if (record_c_calls && PyThreadState_Get()->c_profilefunc != c_event)
        part->profile_taken = 1;
#endif
    PyErr_Restore(type, value, trace);
    if (routine == NULL || routine->flags) {
        errno = saved;
        return routine == NULL ? &nowhere : child_unrecorded(thread, routine);
    }
    /* One that came out of retirement brings its nodes along. */
    if ((node = routine_node(routine, thread, parent)) != NULL) {
        errno = saved;
        return parent->last = node;
    }
    if (depth_limit != 0 && parent->depth >= depth_limit) {
        hide(thread);
        errno = saved;
        return NULL;
    }
    if (routine->generation != generation)
        routine_record(routine);
    if (unlikely(counter_event_count))
        natives_look();
    if (sample_ticks) {
        uint64_t now = clock_ticks();
        if (now - thread->sampled_ticks > sample_ticks)
            sample_resident(thread, now);
    }
    node = node_new(thread, parent, routine->node_key);
    if (node == NULL) {
        part->calls_over_limit++;
        hide(thread);
    } else {
        routine_add_node(routine, node);
        if (unlikely(taupy_gpu_host.enabled)) {
            if (routine->backward == 0)
                routine->backward = is_backward(routine->name, routine->file) ? 1 : 2;
            if (routine->backward == 1)
                node->flags |= NODE_BACKWARD;
            if (gpu_lookout)
                gpu_look(clock_ticks());
        }
    }
    errno = saved;
    return node;
}

/* The child `key` of `parent` where the last child is another. NULL: hidden, and counted
 * as such; &nowhere: not to be recorded at all, its callees go to `parent`. Small, since a
 * routine that calls several others comes here at most of its calls. */
static __attribute__((noinline)) Node *child_slow(Thread *thread, Node *parent, void *key,
                                                  PyObject *callable, PyObject *globals)
{
    Node *node = node_find(thread, parent, key); /* the hidden node has no children */
    if (likely(node != NULL))
        return parent->last = node;
    return child_new(thread, parent, key, callable, globals);
}

enum { ENTERED = 0, UNRECORDED = 1 };

/* `full` is a constant where this is inlined: further metrics and throttling cost nothing
 * where nobody asked for them. */
static inline __attribute__((always_inline)) int enter(void *key, int resume, PyObject *callable,
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
        node = child_slow(thread, parent, key, callable, globals);
        if (unlikely(node == NULL))
            return ENTERED;
        if (unlikely(node == &nowhere))
            return UNRECORDED;
    }
    thread->cursor = node;
    if (resume)
        node->resumes++;
    else
        node->calls++;
    if (full && metric_count)
        metrics_enter(thread, node);
    node->t0 = clock_ticks();
    return ENTERED;
}

#define RANGE_NAMES_AT_MOST 4096
static int ranges_open;     /* of NVTX */
static size_t phases_open;  /* of record_function */

/* 1: a range of NVTX, 2: of record_function. */
static inline uint32_t is_range(const void *key)
{
    return KEY_KIND(key) == KEY_TIMER ? ((NamedTimer *)KEY_POINTER(key))->range : 0;
}

/* Open timer `key` at the cursor. 0: there is no room for it, or it is too deep. */
static int timer_begin(Thread *thread, void *key)
{
    enter(key, 0, Py_None, NULL, 1);
    if (thread->cursor != &thread->hidden)
        return 1;
    unhide(thread);
    return 0;
}

static int goes_on(Thread *thread, const Node *node)
{
    uint32_t range = is_range(node->key);
    return range == 1 || (range == 2 && phase_goes_on(thread, node));
}

/* Go on, under the cursor, with what was open between `outer` (not with it) and `inner`: only
 * ranges, or routines, too, and what was open in them. Timers that began in `outer` itself have
 * ended with it. A range's call counts where first something is called in it. */
static void go_on(Thread *thread, Node *inner, Node *outer, int ranges_only, uint64_t now)
{
    Node *open[RANGE_FRAMES];
    int n = 0, in_routine = 0;
    for (Node *node = inner; node != outer && n < RANGE_FRAMES; node = node->parent)
        open[n++] = node;
    while (n-- > 0) {
        Node *parent = thread->cursor, *old = open[n];
        in_routine |= !ranges_only && KEY_KIND(old->key) != KEY_TIMER;
        if (!in_routine && !goes_on(thread, old)) {
            part->overlaps += !ranges_only;
            continue;
        }
        Node *node = parent->last->key == old->key
                         ? parent->last
                         : child_slow(thread, parent, old->key, NULL, NULL);
        if (node == NULL || node == &nowhere) {
            if (node == NULL)
                unhide(thread);
            if (phases_open)
                phase_moved(thread, old, NULL);
            continue;
        }
        thread->cursor = node;
        if (phases_open)
            phase_moved(thread, old, node);
        if (is_range(old->key) && old->calls > 0 && old->last == &nowhere) {
            old->calls--;
            node->calls++;
        } else
            node->resumes++;
        if (metric_count)
            metrics_enter(thread, node);
        node->t0 = now;
        part->repairs--; /* it was closed by design */
    }
}

/* Ranges that began in a routine go on when it returns (`push` is often called by one),
 * unless it was the thread's outermost. */
static void ranges_go_on(Thread *thread, Node *inner, Node *outer, uint64_t now)
{
    if (thread->cursor->parent == NULL)
        phases_closed(thread);
    else if (ranges_open || phases_open)
        go_on(thread, inner, outer, 1, now);
}

static int leave_unrecorded(Thread *thread, Routine *routine, int returned)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (routine->flags & ROUTINE_PHASE) {
        PyObject *object = first_argument(routine->key);
        if (thread->cursor == &thread->hidden && python_disabled) { /* on_start_hidden began it */
            unhide(thread);
            if (routine->flags & ROUTINE_PHASE_EXIT && object != NULL)
                phase_end(thread, object);
        }
        phase_returns(thread, routine, object, returned);
        Py_XDECREF(object);
        return ENTERED;
    }
#endif
    (void)thread, (void)routine, (void)returned;
    return UNRECORDED;
}

/* `returned`: it does, and no exception leaves it. */
static __attribute__((noinline)) int leave_slow(Thread *thread, void *key, uint64_t now,
                                                int returned)
{
    Routine *routine;
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
        part->unmatched++; /* it began before we did */
        return ENTERED;
    }
    close_down_to(thread, node, now);
    ranges_go_on(thread, inner, node, now);
    return ENTERED;
}

/* TAU's rule: many calls, little time each. Nothing more is recorded of the routine; its
 * nodes keep what they have, under keys that no look-up finds. Not while it is open. */
static __attribute__((noinline)) void throttle(void *key, uint64_t took)
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

/* `full` and `returned` are constants where this is inlined. */
static inline __attribute__((always_inline)) int leave_as(void *key, int full, int returned)
{
    uint64_t now = clock_ticks();
    Thread *thread = this_thread;
    if (unlikely(thread == NULL)) {
        if (!active || waiting || forked_path == NULL || (thread = thread_new()) == NULL)
            return ENTERED;
    }
    Node *node = thread->cursor;
    if (unlikely(node->key != key))
        return leave_slow(thread, key, now, returned);
    uint64_t took = now - node->t0;
    node->inclusive += took;
    if (full && metric_count)
        metrics_leave(thread, node, took);
    thread->cursor = node->parent;
    if (full && throttling && KEY_KIND(key) != KEY_TIMER)
        throttle(key, took);
    return ENTERED;
}

static inline __attribute__((always_inline)) int leave(void *key, int full)
{
    return leave_as(key, full, 1);
}

/* Does the in-code API's own code call this? Usually the caller is the current routine. */
static inline int called_by_us(const PyCodeObject *caller)
{
    Thread *thread = this_thread;
    if (likely(thread == NULL || thread->cursor->key == (const void *)caller))
        return 0;
    Routine *routine = routine_find(caller);
    return routine != NULL && routine->flags & ROUTINE_OURS;
}

static inline void *key_of_c(PyObject *callable)
{
    if (PyCFunction_Check(callable))
        return (char *)((PyCFunctionObject *)callable)->m_ml + KEY_C;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        return (char *)((PyMethodDescrObject *)callable)->d_method + KEY_C;
    return NULL;
}

#include "phases.c"

/* With C calls recorded, the interpreter would tell a profile function that the program sets of
 * the return of sys.setprofile, whose call it has not seen: that event is left out. */
static PyCFunction real_setprofile, real_setprofile_all;
static Py_tracefunc programs_own; /* sys.setprofile's, which calls a Python function */

static PyObject *wrapped_setprofile(PyObject *module, PyObject *function);
static PyObject *wrapped_setprofile_all(PyObject *module, PyObject *function);

static int programs_first(PyObject *function, PyFrameObject *frame, int what, PyObject *arg)
{
    PyThreadState *state = PyThreadState_Get();
    if (state->c_profilefunc == programs_first)
        state->c_profilefunc = programs_own;
    if (what == PyTrace_C_RETURN && PyCFunction_Check(arg) &&
        (PyCFunction_GET_FUNCTION(arg) == wrapped_setprofile ||
         PyCFunction_GET_FUNCTION(arg) == wrapped_setprofile_all))
        return 0;
    return programs_own(function, frame, what, arg);
}

static PyObject *set_profile(PyCFunction real, PyObject *module, PyObject *function)
{
    PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX < 0x030C0000
    int only_we = state->c_profilefunc == c_event;
#else
    int only_we = active && record_c_calls && state->c_profilefunc == NULL;
#endif
    PyObject *result = real(module, function);
    if (only_we && result != NULL && state->c_profilefunc != NULL) {
        programs_own = state->c_profilefunc;
        state->c_profilefunc = programs_first;
    }
    return result;
}

static PyObject *wrapped_setprofile(PyObject *module, PyObject *function)
{
    return set_profile(real_setprofile, module, function);
}

static PyObject *wrapped_setprofile_all(PyObject *module, PyObject *function)
{
    return set_profile(real_setprofile_all, module, function);
}

static void wrap_setprofile(void)
{
    PyObject *sys = record_c_calls ? PyImport_ImportModule("sys") : NULL;
    if (sys != NULL) {
        wrap(sys, "setprofile", &real_setprofile, (void *)wrapped_setprofile, METH_O);
        wrap(sys, "_setprofileallthreads", &real_setprofile_all, (void *)wrapped_setprofile_all,
             METH_O);
    }
    PyErr_Clear();
    Py_XDECREF(sys);
}

#if PY_VERSION_HEX < 0x030C0000
/* ------------------------------------------------------------------ Python 3.11 */

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <sys/mman.h>
#include <ucontext.h>

static _PyFrameEvalFunction next_eval;

static int c_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)unused;
    void *key;
    if ((what == PyTrace_C_CALL || what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) &&
        called_by_us(frame->f_frame->f_code))
        return 0;
    if (what == PyTrace_C_CALL) {
        if ((key = key_of_c(arg)) != NULL && this_thread != NULL)
            enter(key, 0, arg, frame->f_frame->f_globals, 1);
    } else if (what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) {
        if ((key = key_of_c(arg)) != NULL)
            leave(key, 1);
    }
    return 0;
}

static void hook_c_calls(PyThreadState *state)
{
    /* As PyEval_SetProfile does, without its audit event: the program may refuse that. */
    state->c_profilefunc = c_event;
    state->cframe->use_tracing = 255;
}

/* The hook runs each Python frame on the C stack, where plain Python 3.11 would not: a
 * program that recurses deeply must not run out of it. Near the stack's end, evaluation
 * goes on on a stack of its own. */
#define STACK_MARGIN (256 * 1024)
#define STACK_SEGMENT (64ull << 20)

typedef struct Segment {
    PyThreadState *state;
    struct _PyInterpreterFrame *frame;
    int throwing;
    PyObject *result;
    ucontext_t caller, callee;
} Segment;

static void segment_run(unsigned low, unsigned high)
{
    Segment *segment = (Segment *)((uint64_t)low | (uint64_t)high << 32);
    segment->result = _PyEval_EvalFrameDefault(segment->state, segment->frame, segment->throwing);
}

static void find_stack(Thread *thread)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
    }
    /* A small thread stack gets a small margin: three quarters of it are the program's. */
    size_t margin = size / 4 < STACK_MARGIN ? size / 4 : STACK_MARGIN;
    thread->stack_low = low == NULL ? NULL : (char *)low + margin;
}

static __attribute__((noinline)) PyObject *eval_near_end(Thread *thread, PyThreadState *state,
                                                         struct _PyInterpreterFrame *frame,
                                                         int throwing)
{
    char *here = __builtin_frame_address(0), *low;
    if (thread->stack_low == STACK_UNKNOWN)
        find_stack(thread);
    low = thread->stack_low;
    /* Far below our own stack's end: a stack of somebody else's, a greenlet's for one. */
    if (here >= low || low - here > STACK_MARGIN)
        return _PyEval_EvalFrameDefault(state, frame, throwing);
    char *stack = mmap(NULL, STACK_SEGMENT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return _PyEval_EvalFrameDefault(state, frame, throwing);
    Segment segment = {.state = state, .frame = frame, .throwing = throwing};
    getcontext(&segment.callee);
    segment.callee.uc_stack.ss_sp = stack;
    segment.callee.uc_stack.ss_size = STACK_SEGMENT;
    segment.callee.uc_link = &segment.caller;
    makecontext(&segment.callee, (void (*)(void))segment_run, 2, (unsigned)(uint64_t)&segment,
                (unsigned)((uint64_t)&segment >> 32));
    thread->stack_low = stack + STACK_MARGIN;
    swapcontext(&segment.caller, &segment.callee);
    if (this_thread != NULL) /* another one than `thread` in a fork's child */
        this_thread->stack_low = low;
    munmap(stack, STACK_SEGMENT);
    return segment.result;
}

static inline __attribute__((always_inline)) PyObject *
evaluate(Thread *thread, PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    if (unlikely(next_eval != _PyEval_EvalFrameDefault))
        return next_eval(state, frame, throwing);
    if (unlikely((char *)__builtin_frame_address(0) < thread->stack_low))
        return eval_near_end(thread, state, frame, throwing);
    return _PyEval_EvalFrameDefault(state, frame, throwing);
}

/* A method of record_function. */
static __attribute__((noinline)) PyObject *eval_phase(Thread *thread, PyThreadState *state,
                                                      struct _PyInterpreterFrame *frame,
                                                      int throwing, Routine *routine)
{
    PyObject *object = frame->f_code->co_argcount > 0 ? Py_XNewRef(frame->localsplus[0]) : NULL;
    phase_called(thread, routine, object);
    PyObject *result = evaluate(thread, state, frame, throwing);
    if (this_thread == thread)
        phase_returns(thread, routine, object, result != NULL);
    Py_XDECREF(object);
    return result;
}

/* Will the interpreter refuse this frame, since it is one too deep? Its own rule is
 * _Py_CheckRecursiveCall's; nothing of the frame runs then, so it is no call. */
static __attribute__((noinline)) int is_too_deep(const PyThreadState *state)
{
    return state->recursion_headroom == 0 &&
           state->recursion_limit - state->recursion_remaining + 1 >= Py_GetRecursionLimit();
}

static inline __attribute__((always_inline)) PyObject *
eval_frame(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing, int full, int hidden)
{
    PyCodeObject *code = frame->f_code;
    int resume = 0;
    if (unlikely(state->recursion_remaining <= 0) && is_too_deep(state))
        return next_eval(state, frame, throwing);
    if (unlikely(code->co_flags & IS_GENERATOR_LIKE)) {
        if (frame->owner != FRAME_OWNED_BY_GENERATOR) /* makes the generator, runs nothing */
            return next_eval(state, frame, throwing);
        int unstarted = (int)(frame->prev_instr - _PyCode_CODE(code)) < code->_co_firsttraceable;
        if (unstarted && throwing) /* ends before it began: nothing of it runs */
            return next_eval(state, frame, throwing);
        resume = !unstarted;
    }
    Thread *thread = this_thread;
    if (unlikely(thread == NULL)) {
        if ((thread = thread_begin(frame->f_globals)) == NULL)
            return next_eval(state, frame, throwing);
        if (record_c_calls)
            hook_c_calls(state);
    }
    Node *parent = thread->cursor;
    Node *node = parent->last;
    PyObject *result;
    if (hidden) { /* a constant where this is inlined */
        hide(thread);
        node = NULL;
    } else if (unlikely(node->key != (void *)code))
        node = child_slow(thread, parent, code, NULL, frame->f_globals);
    if (unlikely(node == NULL || node == &nowhere)) {
        Routine *routine = unlikely(phases_known) ? routine_find(code) : NULL;
        if (unlikely(routine != NULL && routine->flags & ROUTINE_PHASE)) {
            if (hidden)
                unhide(thread);
            return eval_phase(thread, state, frame, throwing, routine);
        }
        result = evaluate(thread, state, frame, throwing);
        if (node == NULL) {
            thread = this_thread;
            if (thread == NULL && forked_path != NULL)
                thread = thread_new();
            if (thread != NULL && thread->cursor == &thread->hidden)
                unhide(thread);
        }
        return result;
    }
    thread->cursor = node;
    if (resume)
        node->resumes++;
    else
        node->calls++;
    if (full && metric_count)
        metrics_enter(thread, node);
    node->t0 = clock_ticks();
    result = evaluate(thread, state, frame, throwing);
    uint64_t now = clock_ticks();
    if (unlikely(this_thread != thread || thread->cursor != node)) {
        /* A fork's child, a timer left open, or a greenlet switched in between. */
        thread = this_thread;
        if (thread == NULL && (forked_path == NULL || (thread = thread_new()) == NULL))
            return result;
        leave_slow(thread, code, now, result != NULL);
        return result;
    }
    uint64_t took = now - node->t0;
    node->inclusive += took;
    if (full && metric_count)
        metrics_leave(thread, node, took);
    thread->cursor = parent;
    if (full && throttling)
        throttle(code, took);
    return result;
}

static PyObject *eval_plain(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    return eval_frame(state, frame, throwing, 0, 0);
}

static PyObject *eval_full(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    return eval_frame(state, frame, throwing, 1, 0);
}

/* While the group PYTHON is disabled. */
static PyObject *eval_hidden(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    return eval_frame(state, frame, throwing, 0, 1);
}

static _PyFrameEvalFunction our_eval(int enabled)
{
    return !enabled ? eval_hidden : throttling || call_metrics ? eval_full : eval_plain;
}

static int hooks_install(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    next_eval = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, our_eval(1));
    return 0;
}

static int hooks_remove(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), next_eval);
    PyThreadState *state = PyThreadState_Get();
    if (record_c_calls && state->c_profilefunc == c_event) {
        state->c_profilefunc = NULL;
        state->cframe->use_tracing = state->c_tracefunc != NULL ? 255 : 0;
    }
    return 0;
}

static void hooks_python_enabled(int enabled)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    /* Another tool (TorchDynamo) may have put its own before ours, and calls ours. */
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == our_eval(!enabled)) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, our_eval(enabled));
        python_disabled = !enabled;
    }
}

static const char *hooks_name(void) { return "frame evaluation (PEP 523)"; }

#else
/* ------------------------------------------------------------------ Python 3.12 and later */

typedef struct Callback {
    PyObject_HEAD
    vectorcallfunc call;
} Callback;

static PyTypeObject callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "taupy.callback",
    .tp_basicsize = sizeof(Callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callback, call),
    .tp_call = PyVectorcall_Call,
};

/* The first argument of the routine at work, if it is this one. A new reference, or NULL. */
static PyObject *first_argument(PyObject *code)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *names = NULL, *value = NULL;
    PyCodeObject *at_work = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    if ((PyObject *)at_work == code && at_work->co_argcount > 0 &&
        (names = PyCode_GetVarnames(at_work)) != NULL)
        value = PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, 0));
    PyErr_Clear();
    Py_XDECREF(names);
    Py_XDECREF(at_work);
    return value;
}

static int tool = -1;
static PyObject *disable; /* sys.monitoring.DISABLE: no such event here again */

#define CALLBACK(name)                                                                             \
    static PyObject *name(PyObject *self, PyObject *const *args, size_t n, PyObject *names)

#define CALLBACKS(suffix, full)                                                                    \
    CALLBACK(on_start##suffix)                                                                     \
    {                                                                                              \
        return Py_NewRef(likely(enter(args[0], 0, NULL, NULL, full) == ENTERED) ? Py_None          \
                                                                                : disable);        \
    }                                                                                              \
    CALLBACK(on_resume##suffix)                                                                    \
    {                                                                                              \
        return Py_NewRef(likely(enter(args[0], 1, NULL, NULL, full) == ENTERED) ? Py_None          \
                                                                                : disable);        \
    }                                                                                              \
    CALLBACK(on_return##suffix)                                                                    \
    {                                                                                              \
        return Py_NewRef(likely(leave(args[0], full) == ENTERED) ? Py_None : disable);             \
    }                                                                                              \
    CALLBACK(on_throw##suffix)                                                                     \
    {                                                                                              \
        enter(args[0], 1, NULL, NULL, full);                                                       \
        Py_RETURN_NONE;                                                                            \
    }                                                                                              \
    CALLBACK(on_unwind##suffix)                                                                    \
    {                                                                                              \
        leave_as(args[0], full, 0);                                                                \
        Py_RETURN_NONE;                                                                            \
    }                                                                                              \
    CALLBACK(on_call##suffix)                                                                      \
    {                                                                                              \
        void *key = key_of_c(args[2]);                                                             \
        if (key != NULL && !called_by_us((PyCodeObject *)args[0]))                                 \
            enter(key, 0, args[2], NULL, full);                                                    \
        Py_RETURN_NONE;                                                                            \
    }                                                                                              \
    CALLBACK(on_c_return##suffix)                                                                  \
    {                                                                                              \
        void *key = key_of_c(args[2]);                                                             \
        if (key != NULL && !called_by_us((PyCodeObject *)args[0]))                                 \
            leave(key, full);                                                                      \
        Py_RETURN_NONE;                                                                            \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
CALLBACKS(_plain, 0)
CALLBACKS(_full, 1)

/* The group PYTHON is disabled: what starts is hidden, what returns as ever. */
CALLBACK(on_start_hidden)
{
    Thread *thread = this_thread;
    if (thread != NULL)
        hide(thread);
    Py_RETURN_NONE;
}
#pragma GCC diagnostic pop

static const struct {
    const char *event;
    vectorcallfunc plain, full;
} callbacks[] = {
    {"PY_START", on_start_plain, on_start_full},
    {"PY_RESUME", on_resume_plain, on_resume_full},
    {"PY_THROW", on_throw_plain, on_throw_full},
    {"PY_RETURN", on_return_plain, on_return_full},
    {"PY_YIELD", on_return_plain, on_return_full},
    {"PY_UNWIND", on_unwind_plain, on_unwind_full},
    {"CALL", on_call_plain, on_call_full},
    {"C_RETURN", on_c_return_plain, on_c_return_full},
    {"C_RAISE", on_c_return_plain, on_c_return_full},
};
#define CALLBACK_COUNT 9
#define CALLBACKS_WITHOUT_C 6
#define FIRST_UNSETTABLE 7 /* C_RETURN and C_RAISE come along with CALL */

static int register_callback(PyObject *monitoring, PyObject *event, vectorcallfunc function)
{
    PyObject *callback = Py_NewRef(Py_None);
    if (function != NULL) {
        Callback *object = PyObject_New(Callback, &callback_type);
        if (object == NULL)
            return -1;
        object->call = function;
        callback = (PyObject *)object;
    }
    PyObject *result =
        PyObject_CallMethod(monitoring, "register_callback", "iOO", tool, event, callback);
    Py_DECREF(callback);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int set_events(PyObject *monitoring, long set)
{
    PyObject *result = PyObject_CallMethod(monitoring, "set_events", "il", tool, set);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int each_callback(PyObject *monitoring, int install, long *set)
{
    PyObject *all = PyObject_GetAttrString(monitoring, "events");
    int full = throttling || call_metrics;
    if (all == NULL)
        return -1;
    for (int i = 0; i < (record_c_calls ? CALLBACK_COUNT : CALLBACKS_WITHOUT_C); i++) {
        PyObject *event = PyObject_GetAttrString(all, callbacks[i].event);
        if (event == NULL ||
            register_callback(monitoring, event,
                              !install ? NULL : full ? callbacks[i].full : callbacks[i].plain)) {
            Py_XDECREF(event);
            Py_DECREF(all);
            return -1;
        }
        if (i < FIRST_UNSETTABLE)
            *set |= PyLong_AsLong(event);
        Py_DECREF(event);
    }
    Py_DECREF(all);
    return 0;
}

static int hooks_install(void)
{
    static const int tools[] = {4, 3, 5, 1, 0}; /* 2 is cProfile's: it must find it free */
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    long set = 0;
    if (monitoring == NULL || PyType_Ready(&callback_type) != 0)
        return -1;
    if (disable == NULL && (disable = PyObject_GetAttrString(monitoring, "DISABLE")) == NULL)
        return -1;
    for (size_t i = 0; tool < 0 && i < sizeof tools / sizeof *tools; i++) {
        PyObject *result = PyObject_CallMethod(monitoring, "use_tool_id", "is", tools[i], "taupy");
        if (result != NULL)
            tool = tools[i];
        else
            PyErr_Clear();
        Py_XDECREF(result);
    }
    if (tool < 0) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring has no free tool id");
        return -1;
    }
    return each_callback(monitoring, 1, &set) || set_events(monitoring, set) ? -1 : 0;
}

static int hooks_remove(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    long set = 0;
    if (monitoring == NULL || tool < 0)
        return 0;
    if (set_events(monitoring, 0) || each_callback(monitoring, 0, &set))
        return -1;
    PyObject *result = PyObject_CallMethod(monitoring, "free_tool_id", "i", tool);
    tool = -1;
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static void hooks_python_enabled(int enabled)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    PyObject *all = monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
    int full = throttling || call_metrics;
    for (int i = 0; all != NULL && i < 2; i++) { /* PY_START, PY_RESUME */
        PyObject *event = PyObject_GetAttrString(all, callbacks[i].event);
        if (event != NULL)
            register_callback(monitoring, event,
                              !enabled ? on_start_hidden
                              : full   ? callbacks[i].full
                                       : callbacks[i].plain);
        Py_XDECREF(event);
    }
    Py_XDECREF(all);
    PyErr_Clear();
    python_disabled = !enabled;
}

static const char *hooks_name(void) { return "sys.monitoring (PEP 669)"; }
#endif

#endif
