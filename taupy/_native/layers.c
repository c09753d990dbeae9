/* Module calls as nodes; see layers.h. */
#include "layers.h"
#include "autograd.h"
#include "carry.h"
#include "evaluation.h"
#include "frames.h"
#include "known.h"
#include "layer_names.h"
#include "process.h"
#include "steps.h"
#include "steps_window.h"
#include "timers.h"
#include "timing.h"

char **layer_codes, **plumbing_codes;

/* Layers open on this thread, outermost first. Those of different greenlets may be interleaved. */
static __thread struct {
    OpenLayer *layers;
    size_t count, room;
    uint64_t start; /* entries left from an earlier session began before it */
} open;
static uint64_t starts;

static uint32_t flags_of_kind(Routine *routine, enum LayerKind kind)
{
    static int has_newer;
    has_newer |= kind == LAYER_MODULE;
    if (kind == LAYER_OLDER && has_newer)
        return ROUTINE_PLUMBING;
    routine->layer_kind = kind == LAYER_OLDER ? LAYER_MODULE : kind;
    return ROUTINE_LAYER;
}

static uint32_t layer_flags(Routine *routine)
{
    for (char **code = layer_codes; code != NULL && *code != NULL; code++)
        if (routine_is_at(routine, strchr(*code, ' ') + 1))
            return flags_of_kind(routine, (enum LayerKind)**code);
    for (char **code = plumbing_codes; code != NULL && *code != NULL; code++)
        if (routine_is_at(routine, *code))
            return ROUTINE_PLUMBING;
    return 0;
}

static int open_grow(void)
{
    while (open.start != starts && open.count > 0)
        Py_DECREF(open.layers[--open.count].module);
    open.start = starts;
    if (open.count < open.room)
        return 0;
    size_t room = open.room ? open.room * 2 : 16;
    OpenLayer *more = realloc(open.layers, room * sizeof *more);
    if (more == NULL)
        return -1;
    open.layers = more;
    open.room = room;
    return 0;
}

/* Whether this call belongs to the one already open: made through a second routine or, for an
 * estimator, one of its methods calling another. */
static int is_within(const Routine *routine, const PyObject *module)
{
    const OpenLayer *inner = open.count > 0 ? &open.layers[open.count - 1] : NULL;
    return inner != NULL && inner->module == module &&
           (inner->routine != routine || routine->layer_kind == LAYER_ESTIMATOR);
}

static int is_network(const Routine *routine) { return routine->layer_kind != LAYER_ESTIMATOR; }

/* End the validation that an outermost module is; its call may be hidden. */
static void evaluation_leave(Thread *thread, void *evaluation)
{
    int is_hidden = thread->cursor == &thread->hidden;
    if (evaluation == NULL)
        return;
    if (is_hidden)
        unhide(thread);
    leave(evaluation, 1);
    if (is_hidden)
        hide(thread);
}

static void layer_begin(Thread *thread, const LayerCall *call)
{
    const Routine *routine = call->routine;
    int has_room = open_grow() == 0, is_pytorch = routine->layer_kind == LAYER_MODULE;
    if (is_pytorch)
        autograd_start();
    const char *group = is_network(routine) ? LAYER_GROUP : ESTIMATOR_GROUP;
    Layer *layer = has_room && !is_within(routine, call->module)
                       ? layer_of(call->module, open.layers, open.count, group)
                       : NULL;
    if (layer == NULL)
        return;
    int is_outermost = open.count == 0 && is_network(routine);
    int evaluates = is_outermost && steps_forward(thread, call->module, is_pytorch);
    steps_window_look(thread, routine->key);
    int brief = is_brief(thread);
    if (brief && !is_outermost)
        return;
    void *evaluation = evaluates ? evaluation_timer() : NULL;
    void *timer = !brief ? layer->timer : evaluation != NULL ? evaluation : brief_forward();
    if (brief || evaluation == NULL || !timer_begin(thread, evaluation))
        evaluation = NULL;
    if (timer != NULL)
        enter(timer, 0, Py_None, NULL, 1);
    if (timer == NULL || thread->cursor == &thread->hidden) {
        evaluation_leave(thread, evaluation);
        if (is_outermost)
            steps_forward_left(thread, call->module);
        return;
    }
    int64_t ids[2] = {0, 0};
    if (open.count == 0 && is_pytorch) {
        if (!brief)
            layer_facts_outermost();
        steps_tokens(thread, call->module, layer_facts_tokens(call, ids));
    }
    open.layers[open.count++] =
        (OpenLayer){layer, Py_NewRef(call->module), call->frame, routine, timer, 0,
                    is_pytorch && !brief && layer_facts_called(layer, call), {ids[0], ids[1]},
                    evaluation};
    autograd_owner(brief ? NULL : layer->backward);
}

void layer_called(Thread *thread, LayerCall call)
{
    if (thread->cursor == &thread->hidden) {
        hide(thread);
        return;
    }
    if (call.module == NULL || group_disabled(LAYER_GROUP))
        return;
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    layer_begin(thread, &call);
    PyErr_Restore(type, value, trace);
    errno = saved;
}

void layer_returns(Thread *thread, const void *frame, PyObject *value)
{
    size_t at = open.start == starts ? open.count : 0;
    while (at > 0 && open.layers[at - 1].frame != frame)
        at--;
    if (at == 0) {
        if (thread->cursor == &thread->hidden)
            unhide(thread);
        return;
    }
    OpenLayer ended = open.layers[at - 1];
    memmove(&open.layers[at - 1], &open.layers[at], (open.count-- - at) * sizeof ended);
    autograd_owner(open.count > 0 ? open.layers[open.count - 1].layer->backward : NULL);
    if (open.count == 0 && is_network(ended.routine))
        steps_forward_left(thread, ended.module);
    leave(ended.timer, 1);
    evaluation_leave(thread, ended.evaluation);
    if (ended.ids[0] > 0)
        steps_tokens(thread, ended.module, layer_facts_predicted(ended.module, ended.ids, value));
    if (ended.is_looked_at)
        layer_facts_returned(ended.timer, ended.module, value);
    Py_DECREF(ended.module);
}

static void on_thread_end(Thread *thread)
{
    (void)thread;
    free(open.layers);
    memset(&open, 0, sizeof open);
}

Listener layers_listener = {.on_thread_end = on_thread_end};

static int on_entered(Thread *thread, Routine *routine)
{
    FrameAtWork frame = frame_at_work(routine->key);
    layer_called(thread, (LayerCall){routine, frame.id, frame.self});
    Py_XDECREF(frame.self);
    return 1;
}

static int on_left(Thread *thread, Routine *routine, PyObject *returned)
{
    FrameAtWork frame = frame_at_work(routine->key);
    layer_returns(thread, frame.id, returned);
    Py_XDECREF(frame.self);
    return 1;
}

void layers_start(void)
{
    static RoutineWatch watch = {
        .flags_of = layer_flags, .flags = ROUTINE_LAYER, .entered = on_entered, .left = on_left};
    routine_watch_add(&watch);
    starts++;
}
