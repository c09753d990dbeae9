/* Hooks for Python 3.11: frame evaluation (PEP 523), and C calls through the profile function. */
#define _GNU_SOURCE
#define Py_BUILD_CORE_MODULE 1
#include "hooks.h"

#if PY_VERSION_HEX < 0x030C0000
#include "arguments.h"
#include "awaits.h"
#include "carry.h"
#include "imports.h"
#include "known.h"
#include "line_events.h"
#include "pairs.h"
#include "layers.h"
#include "phases.h"
#include "process.h"
#include "suspensions.h"
#include "timing.h"
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <sys/mman.h>
#include <ucontext.h>

#define IS_GENERATOR_LIKE (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

int python_disabled, record_c_calls;
static _PyFrameEvalFunction next_eval;

static int c_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)unused;
    void *key;
    if ((what == PyTrace_C_CALL || what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) &&
        called_by_us(frame->f_frame->f_code))
        return 0;
    if (what == PyTrace_C_CALL) {
        if ((key = key_of_c(arg)) != NULL && thread_mine() != NULL)
            enter(key, 0, arg, frame->f_frame->f_globals, 1);
    } else if (what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) {
        if ((key = key_of_c(arg)) != NULL)
            leave(key, 1);
    }
    return 0;
}

static void hook_c_calls(PyThreadState *state)
{
    /* Like PyEval_SetProfile, but without its audit event, which the program may refuse. */
    state->c_profilefunc = c_event;
    state->cframe->use_tracing = 255;
}

static void on_lookup(Thread *thread)
{
    (void)thread;
    if (record_c_calls && PyThreadState_Get()->c_profilefunc != c_event)
        part->profile_taken = 1;
}

Listener hooks_listener = {.on_lookup = on_lookup};

int hooks_have_c_calls_alone(const PyThreadState *state) { return state->c_profilefunc == c_event; }

/* With the hook, every Python frame also takes C stack, unlike in plain Python 3.11. So that a
 * deeply recursive program does not overflow it, evaluation continues on a separate stack near its
 * end. */
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

/* Unlike the frame's address, this needs no frame pointer. */
static ALWAYS_INLINE char *stack_here(void)
{
#if defined(__x86_64__)
    char *here;
    __asm__("mov %%rsp, %0" : "=r"(here));
    return here;
#else
    return __builtin_frame_address(0);
#endif
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
    /* A small thread stack gets a small margin: three quarters of the stack remain for the
     * program. */
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
    /* Far below the end of our own stack: this is a foreign stack, a greenlet's for example. */
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
    if ((thread = thread_mine()) != NULL) /* another one in a forked child */
        thread->stack_low = low;
    munmap(stack, STACK_SEGMENT);
    return segment.result;
}

static inline __attribute__((always_inline)) PyObject *
evaluate_untraced(Thread *thread, PyThreadState *state, struct _PyInterpreterFrame *frame,
                  int throwing)
{
    if (unlikely(next_eval != _PyEval_EvalFrameDefault))
        return next_eval(state, frame, throwing);
    if (unlikely(stack_here() < thread->stack_low))
        return eval_near_end(thread, state, frame, throwing);
    return _PyEval_EvalFrameDefault(state, frame, throwing);
}

/* Whether the frame is that of a generator that has started. */
static ALWAYS_INLINE int is_resumed(const struct _PyInterpreterFrame *frame)
{
    const PyCodeObject *code = frame->f_code;
    return code->co_flags & IS_GENERATOR_LIKE && frame->owner == FRAME_OWNED_BY_GENERATOR &&
           (int)(frame->prev_instr - _PyCode_CODE(code)) >= code->_co_firsttraceable;
}

/* In bytes of code. */
static int64_t instruction_of(const struct _PyInterpreterFrame *frame, PyCodeObject *code)
{
    return (int64_t)(frame->prev_instr - _PyCode_CODE(code)) * (int64_t)sizeof(_Py_CODEUNIT);
}

static int trace_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)unused, (void)arg;
    if (what == PyTrace_LINE)
        line_begins(frame->f_frame->f_code, PyFrame_GetLineNumber(frame));
    return 0;
}

/* The interpreter's loop looks at this when a frame begins, and hands it back when it ends. */
static void set_trace(PyThreadState *state, Py_tracefunc trace)
{
    state->c_tracefunc = trace;
    state->cframe->use_tracing = trace != NULL || state->c_profilefunc != NULL ? 255 : 0;
}

/* Only frames with lines are traced, and those that a debugger traces are its own. */
static NOINLINE PyObject *evaluate_lines(Thread *thread, PyThreadState *state,
                                         struct _PyInterpreterFrame *frame, int throwing)
{
    PyCodeObject *code = frame->f_code;
    Py_tracefunc before = state->c_tracefunc, wanted = lines_has(code) ? trace_event : NULL;
    if (wanted != NULL && is_resumed(frame))
        line_resumes(code, PyCode_Addr2Line(code, (int)instruction_of(frame, code)));
    if (before == wanted || (before != NULL && before != trace_event))
        return evaluate_untraced(thread, state, frame, throwing);
    set_trace(state, wanted);
    PyObject *result = evaluate_untraced(thread, state, frame, throwing);
    if (state->c_tracefunc == wanted)
        set_trace(state, before);
    return result;
}

static inline __attribute__((always_inline)) PyObject *
evaluate(Thread *thread, PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    if (unlikely(lines_used))
        return evaluate_lines(thread, state, frame, throwing);
    return evaluate_untraced(thread, state, frame, throwing);
}

void hooks_lines(PyObject *code) { (void)code; }

/* A method of record_function. */
static __attribute__((noinline)) PyObject *eval_phase(Thread *thread, PyThreadState *state,
                                                      struct _PyInterpreterFrame *frame,
                                                      int throwing, Routine *routine)
{
    PyObject *object = frame->f_code->co_argcount > 0 ? Py_XNewRef(frame->localsplus[0]) : NULL;
    phase_called(thread, routine, object);
    PyObject *result = evaluate(thread, state, frame, throwing);
    if (thread_mine() == thread)
        phase_returns(thread, routine, object, result != NULL);
    Py_XDECREF(object);
    return result;
}

/* importlib's `_find_and_load`. */
static __attribute__((noinline)) PyObject *eval_import(Thread *thread, PyThreadState *state,
                                                       struct _PyInterpreterFrame *frame,
                                                       int throwing, Routine *routine)
{
    import_entered(thread, routine, frame->localsplus[0]);
    PyObject *result = evaluate(thread, state, frame, throwing);
    uint64_t now = clock_ticks();
    if ((thread = thread_mine()) != NULL || (thread = thread_after_fork()) != NULL)
        import_left(thread, routine, now);
    return result;
}

/* The call of a module. */
static __attribute__((noinline)) PyObject *eval_layer(Thread *thread, PyThreadState *state,
                                                      struct _PyInterpreterFrame *frame,
                                                      int throwing, const Routine *routine)
{
    PyObject *module = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : NULL;
    layer_called(thread, (LayerCall){routine, frame, module});
    PyObject *result = evaluate(thread, state, frame, throwing);
    if ((thread = thread_mine()) != NULL || (thread = thread_after_fork()) != NULL)
        layer_returns(thread, frame, result);
    return result;
}

static PyObject *argument(const struct _PyInterpreterFrame *frame, int at)
{
    return at >= 0 && at < frame->f_code->co_nlocalsplus ? Py_XNewRef(frame->localsplus[at]) : NULL;
}

/* A known routine. */
static __attribute__((noinline)) PyObject *eval_known(Thread *thread, PyThreadState *state,
                                                      struct _PyInterpreterFrame *frame,
                                                      int throwing, Routine *routine)
{
    PyObject *first = argument(frame, routine->known->first);
    PyObject *second = argument(frame, routine->known->second);
    known_called(thread, routine, first, second);
    if (routine->known->role == KNOWN_PAIR)
        pairs_called(thread, routine, frame);
    PyObject *result = evaluate(thread, state, frame, throwing);
    if ((thread = thread_mine()) != NULL || (thread = thread_after_fork()) != NULL)
        known_left(thread, routine, result);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return result;
}

/* Whether the interpreter will refuse this frame as too deep (the rule of _Py_CheckRecursiveCall).
 * Nothing of the frame runs then, so it is not a call. */
static __attribute__((noinline)) int is_too_deep(const PyThreadState *state)
{
    return state->recursion_headroom == 0 &&
           state->recursion_limit - state->recursion_remaining + 1 >= Py_GetRecursionLimit();
}

/* A frame that is not recorded; `is_hidden`: it was hidden when it started. */
static __attribute__((noinline)) PyObject *
eval_unrecorded(Thread *thread, PyThreadState *state, struct _PyInterpreterFrame *frame,
                int throwing, int is_hidden)
{
    PyObject *result = evaluate(thread, state, frame, throwing);
    if (is_hidden) {
        if ((thread = thread_mine()) == NULL)
            thread = thread_after_fork();
        if (thread != NULL && thread->cursor == &thread->hidden)
            unhide(thread);
    }
    return result;
}

/* Leave a routine while others, or timers, are open in it. */
static NOINLINE void leave_open(Thread *thread, struct _PyInterpreterFrame *frame,
                                PyCodeObject *code, uint64_t now, PyObject *result)
{
    Suspension here = {frame, 0};
    if (timers_used && code->co_flags & IS_GENERATOR_LIKE && result != NULL &&
        _PyFrame_GetGenerator(frame)->gi_frame_state == FRAME_SUSPENDED) {
        here.is_yield = is_yielded(result);
        suspension = &here;
    }
    leave_slow(thread, code, now, result);
    suspension = NULL;
}

static inline __attribute__((always_inline)) PyObject *
eval_frame(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing, int full, int hidden)
{
    PyCodeObject *code = frame->f_code;
    int resume = 0;
    if (unlikely(state->recursion_remaining <= 0) && is_too_deep(state))
        return next_eval(state, frame, throwing);
    if (unlikely(code->co_flags & IS_GENERATOR_LIKE)) {
        if (frame->owner != FRAME_OWNED_BY_GENERATOR) /* creates the generator, runs nothing */
            return next_eval(state, frame, throwing);
        resume = is_resumed(frame);
        if (!resume && throwing) /* ends before it starts: none of it runs */
            return next_eval(state, frame, throwing);
    }
    Thread *thread = thread_entering(code);
    if (unlikely(thread == NULL)) {
        if ((thread = thread_begin(frame->f_globals)) == NULL)
            return next_eval(state, frame, throwing);
        if (record_c_calls)
            hook_c_calls(state);
    }
    Node *parent = thread->cursor;
    Node *node = parent->last;
    if (hidden) { /* a constant when inlined */
        hide(thread);
        node = NULL;
    } else if (unlikely(node->key != (void *)code)) {
        if (unlikely(parent->flags & NODE_SKIPS)) {
            if (entry_is_skipped(thread, code, NULL, frame->f_globals))
                return evaluate(thread, state, frame, throwing);
            parent = thread->cursor;
        }
        node = child_slow(thread, parent, code, NULL, frame->f_globals);
    }
    if (unlikely(node == NULL || node == &nowhere)) {
        Routine *routine = unlikely(phases_known) ? routine_find(code) : NULL;
        if (!hidden && routine != NULL && routine->flags & ROUTINE_IMPORT)
            return eval_import(thread, state, frame, throwing, routine);
        if (routine != NULL && routine->flags & ROUTINE_LAYER && !hidden)
            return eval_layer(thread, state, frame, throwing, routine);
        if (routine != NULL && routine->flags & ROUTINE_KNOWN && !hidden)
            return eval_known(thread, state, frame, throwing, routine);
        if (likely(routine == NULL || !(routine->flags & ROUTINE_PHASE)))
            return eval_unrecorded(thread, state, frame, throwing, node == NULL);
        if (hidden)
            unhide(thread);
        return eval_phase(thread, state, frame, throwing, routine);
    }
    frame_apart = frame;
    node_enter(thread, node, resume, full);
    frame_apart = NULL;
    if (unlikely(timers_held && resume))
        timers_resume(thread, frame);
    PyObject *result = evaluate(thread, state, frame, throwing);
    uint64_t now = clock_ticks();
    if (unlikely(thread_mine() != thread || thread->cursor != node)) {
        /* In a forked child, with a timer left open, or after a greenlet switch. */
        if ((thread = thread_mine()) != NULL || (thread = thread_after_fork()) != NULL)
            leave_open(thread, frame, code, now, result);
        return result;
    }
    frame_apart = frame;
    uint64_t took = node_leave(thread, node, now, full);
    frame_apart = NULL;
    if (full && throttling)
        throttle(code, took);
    return result;
}

static NOINLINE PyObject *eval_otherwise(PyThreadState *state, struct _PyInterpreterFrame *frame,
                                         int throwing)
{
    return eval_frame(state, frame, throwing, 0, 0);
}

static NOINLINE PyObject *left_otherwise(struct _PyInterpreterFrame *frame, PyCodeObject *code,
                                         uint64_t now, PyObject *result)
{
    Thread *thread = thread_mine();
    if (thread != NULL && thread->cursor->key != (void *)code)
        leave_open(thread, frame, code, now, result);
    else {
        frame_apart = frame;
        leave_at(now, code, 0, result);
        frame_apart = NULL;
    }
    return result;
}

/* The most frequent case: calls the interpreter's own evaluation function directly. */
static ALWAYS_INLINE PyObject *eval_again(PyThreadState *state, struct _PyInterpreterFrame *frame,
                                          int throwing, int resume)
{
    PyCodeObject *code = frame->f_code;
    Thread *thread = this_thread;
    Node *node;
    if (unlikely(state->recursion_remaining <= 0 || thread == NULL ||
                 stack_here() < thread->stack_low))
        return eval_otherwise(state, frame, throwing);
    if (unlikely((node = enter_again(thread, code, resume)) == NULL))
        return enters_library(thread, code) ? _PyEval_EvalFrameDefault(state, frame, throwing)
                                            : eval_otherwise(state, frame, throwing);
    if (resume && unlikely(timers_held))
        timers_resume(thread, frame);
    PyObject *result = _PyEval_EvalFrameDefault(state, frame, throwing);
    uint64_t now = clock_fast_ticks();
    if (unlikely(this_thread != thread || thread->cursor != node || now >= window_end(thread)))
        return left_otherwise(frame, code, now, result);
    node->inclusive += now - node->t0;
    cursor_set(thread, node->parent);
    return result;
}

static NOINLINE PyObject *eval_generator(PyThreadState *state, struct _PyInterpreterFrame *frame,
                                         int throwing, int full)
{
    PyCodeObject *code = frame->f_code;
    int resumed = is_resumed(frame);
    int awaits = suspends(code) && frame->owner == FRAME_OWNED_BY_GENERATOR; /* not yet, in its call */
    int64_t instruction = awaits && resumed ? instruction_of(frame, code) : 0;
    Thread *thread = this_thread;
    Node *from = thread != NULL ? thread->cursor : NULL;
    PyObject *result = full      ? eval_frame(state, frame, throwing, 1, 0)
                       : resumed ? eval_again(state, frame, throwing, 1)
                                 : eval_otherwise(state, frame, throwing);
    if (!awaits || from == NULL || this_thread != thread || thread->cursor != from)
        return result;
    Node *node = from->last; /* what was entered */
    if (node->key != (void *)code)
        return result;
    if (resumed)
        suspension_ends(thread, node, code, instruction);
    if (result != NULL && _PyFrame_GetGenerator(frame)->gi_frame_state == FRAME_SUSPENDED &&
        !is_yielded(result))
        suspension_begins(thread, node, code, instruction_of(frame, code), clock_ticks());
    return result;
}

static PyObject *eval_plain(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    if (unlikely(frame->f_code->co_flags & IS_GENERATOR_LIKE))
        return eval_generator(state, frame, throwing, 0);
    return eval_again(state, frame, throwing, 0);
}

static PyObject *eval_full(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    if (unlikely(suspends(frame->f_code)))
        return eval_generator(state, frame, throwing, 1);
    return eval_frame(state, frame, throwing, 1, 0);
}

/* Used while the group PYTHON is disabled. */
static PyObject *eval_hidden(PyThreadState *state, struct _PyInterpreterFrame *frame, int throwing)
{
    return eval_frame(state, frame, throwing, 0, 1);
}

static _PyFrameEvalFunction our_eval(int enabled)
{
    int full = timing_is_full() || lines_used || next_eval != _PyEval_EvalFrameDefault;
    return !enabled ? eval_hidden : full ? eval_full : eval_plain;
}

int hooks_install(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    next_eval = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, our_eval(1));
    return 0;
}

int hooks_remove(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), next_eval);
    PyThreadState *state = PyThreadState_Get();
    if (record_c_calls && state->c_profilefunc == c_event) {
        state->c_profilefunc = NULL;
        state->cframe->use_tracing = state->c_tracefunc != NULL ? 255 : 0;
    }
    return 0;
}

void hooks_python_enabled(int enabled)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    /* Another tool (TorchDynamo) may have installed its function on top of ours, and calls ours. */
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == our_eval(!enabled)) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, our_eval(enabled));
        python_disabled = !enabled;
    }
}

const char *hooks_name(void) { return "frame evaluation (PEP 523)"; }

#endif
