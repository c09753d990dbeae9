/* Detecting steps and recording them; see steps.h. */
#include "steps.h"
#include "evaluation.h"
#include "layer_facts.h"
#include "logged.h"
#include "process.h"
#include "thread.h"
#include <math.h>

#define OPEN_AT_MOST 32 /* nested phases */
#define RATE "learning rate"
#define UPDATES 8       /* optimizers told apart within a step */

enum Phase { FORWARD = 1, LOSS, BACKWARD, RECOMPUTE, CHECKPOINT = 8, VALIDATION, COMPILE }; /* as in taupy/network/phases.py */

/* Where a step begins or ends. */
typedef struct Boundary {
    uint64_t ticks;
    StepMark used; /* by the thread, so far */
} Boundary;

/* Work that makes up a step, or part of one. */
typedef struct Work {
    int is_open;
    Boundary start, updated; /* `updated`: end of the last optimizer step */
    Batch batch;
    uint64_t tokens[2]; /* of modules in training mode, of others; COUNT_UNKNOWN: none known */
    uint64_t phases[STEP_PHASES], phases_updated[STEP_PHASES]; /* ..., until `updated` */
    double values[STEP_VALUES];
    const void *optimizers[UPDATES];
    const void *source; /* where the last batch came from; stays alive while it yields batches */
    unsigned updates, fetches, calls, backwards, trains, evaluates;
} Work;

typedef struct OpenPhase {
    const void *owner; /* the known routine, or for a forward pass the module */
    int kind, role;
    const KnownRoutine *known; /* fetches a batch; else NULL */
    PyObject *source;          /* where from: alive as long as it is open */
    Batch batch;               /* what it has fetched so far */
} OpenPhase;

struct Steps {
    Work now;
    Work before; /* finished, unless another optimizer steps in `now` */
    Work aside;  /* batches of accumulated gradients, while there is a validation between them */
    uint64_t aside_since;
    uint64_t since; /* when the innermost phase began or resumed */
    OpenPhase open[OPEN_AT_MOST];
    size_t depth;
    LoadersAhead ahead;
    const void *optimizer; /* the one currently stepping */
    unsigned updates_each; /* optimizer steps in the previous step */
    int is_told; /* the program marks its steps explicitly */
    unsigned told_depth;
    enum StepKind told;
    StepRecord *last, *last_of[STEP_KINDS];
    StepSeries series[STEP_KINDS];
};

/* ---------------------------------------------------------------- values and rows */

void step_value(Thread *thread, const char *name, double value)
{
    struct Steps *steps = thread->steps;
    if (steps == NULL || !isfinite(value))
        return;
    if (strcmp(name, "samples") == 0 && steps->now.is_open && value >= 0 && value < 1e15) {
        steps->now.batch.samples = (uint64_t)value;
        return;
    }
    int at = step_value_place(name);
    Work *work = steps->now.is_open ? &steps->now : steps->before.is_open ? &steps->before : NULL;
    if (at < 0)
        return;
    if (work != NULL)
        work->values[at] = value;
    else if (steps->last != NULL && isnan(steps->last->values[at]))
        steps->last->values[at] = value; /* between steps: belongs to the last one */
}

/* A value of a whole epoch: belongs to its last step of training, or of validation (`val_...`). */
static void epoch_value(Thread *thread, const char *name, double value)
{
    const struct Steps *steps = thread->steps;
    int is_validation = strncmp(name, "val_", 4) == 0 && steps->last_of[STEP_VALIDATION] != NULL;
    StepRecord *last = steps->last_of[is_validation ? STEP_VALIDATION : STEP_TRAINING];
    int at = last != NULL && isfinite(value) ? step_value_place(name) : -1;
    if (at >= 0 && isnan(last->values[at]))
        last->values[at] = value;
}

StepsWindow steps_window;
uint64_t steps_ended;

/* The tokens that modules received, unless the program has logged its own number. */
static void keep_tokens(StepRecord *row, uint64_t tokens)
{
    int at = tokens == COUNT_UNKNOWN ? -1 : step_value_place(STEP_TOKENS);
    if (at >= 0 && isnan(row->values[at]))
        row->values[at] = (double)tokens;
}

/* Record the work as one step, ending at `end`. */
static void step_write(Thread *thread, enum StepKind kind, const Work *work, const Boundary *end)
{
    struct Steps *steps = thread->steps;
    StepSeries *series = &steps->series[kind];
    if (kind == STEP_TRAINING) {
        layer_facts_step();
        steps->updates_each = work->updates;
    }
    uint64_t took = end->ticks - work->start.ticks;
    steps_ended += kind == STEP_TRAINING;
    StepRecord one = {++series->count, 1, work->start.ticks, took, took,
                      work->batch.is_uncounted ? COUNT_UNKNOWN : work->batch.samples};
    memcpy(one.phases, work->phases, sizeof one.phases);
    memcpy(one.values, work->values, sizeof one.values);
    step_used(&work->start.used, &end->used, one.metrics);
    keep_tokens(&one, work->tokens[work->tokens[0] == COUNT_UNKNOWN]);
    StepRecord *row = step_row_add(series, thread, kind, &one);
    if (row != NULL)
        steps->last = steps->last_of[kind] = row;
    else
        part->calls_over_limit++;
}

/* The boundary at this moment, on its own thread. */
static Boundary boundary(const Thread *thread, uint64_t at)
{
    return (Boundary){at, step_mark(thread->counters)};
}

/* Record the work as one step that ends at this moment. */
static void step_ends_here(Thread *thread, enum StepKind kind, const Work *work, uint64_t at)
{
    const Boundary here = boundary(thread, at);
    step_write(thread, kind, work, &here);
}

/* ---------------------------------------------------------------- work */

static void work_open(const Thread *thread, Work *work, uint64_t at)
{
    memset(work, 0, sizeof *work);
    work->is_open = 1;
    work->start = boundary(thread, at);
    work->batch.samples = work->tokens[0] = work->tokens[1] = COUNT_UNKNOWN;
    for (int i = 0; i < STEP_VALUES; i++)
        work->values[i] = NAN;
}

/* Merge `first`, the earlier work, into `work`. */
static void work_join(Work *work, const Work *first)
{
    work->start = first->start;
    batch_add(&work->batch, &first->batch);
    for (int i = 0; i < 2; i++)
        work->tokens[i] = sum_known(work->tokens[i], first->tokens[i]);
    for (int i = 0; i < STEP_PHASES; i++)
        work->phases[i] += first->phases[i];
    for (int i = 0; i < STEP_VALUES; i++)
        if (isnan(work->values[i]))
            work->values[i] = first->values[i];
    for (unsigned i = 0; i < first->updates && i < UPDATES && work->updates < UPDATES; i++)
        work->optimizers[work->updates++] = first->optimizers[i];
    work->updates += work->updates == 0 && first->updates > 0;
    if (first->updated.ticks > work->updated.ticks) {
        work->updated = first->updated;
        memcpy(work->phases_updated, first->phases_updated, sizeof work->phases_updated);
    }
    work->fetches += first->fetches;
    work->calls += first->calls;
    work->backwards += first->backwards;
    work->trains += first->trains;
    work->evaluates += first->evaluates;
}

/* Whether there was no computation: batches may have been fetched, but were not used. */
static int is_idle(const Work *work)
{
    return work->calls == 0 && work->backwards == 0 && work->updates == 0;
}

static int is_only_fetched(const Work *work)
{
    return work->is_open && work->fetches > 0 && is_idle(work);
}

static int has_stepped(const Work *work, const void *optimizer)
{
    for (unsigned i = 0; i < work->updates && i < UPDATES; i++)
        if (work->optimizers[i] == optimizer)
            return 1;
    return 0;
}

static int is_validation(const Work *work)
{
    return work->is_open && work->calls > 0 && work->backwards == 0 && work->updates == 0 &&
           (work->fetches > 0 || (work->evaluates > 0 && work->trains == 0));
}

/* Record the previous work as a complete step, to which nothing more will be added. */
static void settle(Thread *thread, struct Steps *steps)
{
    if (steps->before.is_open)
        step_write(thread, STEP_TRAINING, &steps->before, &steps->now.start);
    steps->before.is_open = 0;
}

/* New work begins; if an optimizer has stepped, it may belong to a new step. */
static void work_begins(const Thread *thread, struct Steps *steps, uint64_t at)
{
    if (steps->now.is_open && steps->now.updates > 0) {
        steps->before = steps->now;
        work_open(thread, &steps->now, at);
    } else if (!steps->now.is_open)
        work_open(thread, &steps->now, at);
}

/* Whether modules were called only to try or to build a model, before a thread's first batch. */
static int is_trial_run(const struct Steps *steps)
{
    const Work *now = &steps->now;
    return now->is_open && now->fetches == 0 && now->backwards == 0 && now->updates == 0 &&
           !steps->before.is_open && steps->series[STEP_TRAINING].count == 0;
}

/* What has followed the optimizer step until now was still part of it. */
static void rejoin(struct Steps *steps)
{
    if (steps->before.is_open && steps->now.updates == 0 && steps->now.fetches == 0) {
        work_join(&steps->now, &steps->before);
        steps->before.is_open = 0;
    }
}

/* The last step of a validation ends before anything else does. */
static void validation_ends(Thread *thread, struct Steps *steps, uint64_t at)
{
    if (!is_validation(&steps->now) || steps->now.trains > 0)
        return;
    settle(thread, steps);
    step_ends_here(thread, STEP_VALIDATION, &steps->now, at);
    steps->now.is_open = 0;
}

/* A phase that does not belong to the step before it. */
static void phase_ends_step(Thread *thread, struct Steps *steps, int kind, uint64_t at)
{
    if (kind == CHECKPOINT)
        validation_ends(thread, steps, at);
    if (kind != VALIDATION)
        return;
    rejoin(steps);
    if (steps->now.is_open && steps->now.updates == 0 && steps->now.backwards > 0) {
        settle(thread, steps);
        steps->aside = steps->now;
        steps->aside_since = at;
        steps->now.is_open = 0;
    }
    if (steps->now.is_open && steps->now.updates > 0) {
        step_ends_here(thread, STEP_TRAINING, &steps->now, at);
        steps->now.is_open = 0;
    }
}

static void fetch_begins(Thread *thread, struct Steps *steps, const void *source, uint64_t at)
{
    Work *now = &steps->now;
    rejoin(steps);
    if (is_validation(now)) {
        settle(thread, steps);
        step_ends_here(thread, STEP_VALIDATION, now, at);
        work_open(thread, now, at);
    } else if ((is_only_fetched(now) && now->source == source) || is_trial_run(steps))
        work_open(thread, now, at);
    work_begins(thread, steps, at);
    now->fetches++;
    now->source = source;
}

/* The source has no more batches. */
static void fetch_failed(Thread *thread, struct Steps *steps)
{
    settle(thread, steps);
    if (is_idle(&steps->now))
        steps->now.is_open = 0;
}

/* A batch was fetched, or none was left, under a framework that marks its steps explicitly. */
static void fetch_told(const Thread *thread, struct Steps *steps, uint64_t at)
{
    if (steps->told_depth == 0) {
        work_open(thread, &steps->now, at);
        steps->now.fetches = 1;
    }
}

static void update_ends(Thread *thread, struct Steps *steps, const void *optimizer, uint64_t at)
{
    Work *now = &steps->now;
    const Work *before = &steps->before;
    int is_whole = steps->updates_each > 0 && before->updates >= steps->updates_each;
    if (before->is_open && (has_stepped(before, optimizer) || (is_whole && now->fetches > 0)))
        settle(thread, steps);
    else if (before->is_open) {
        work_join(now, &steps->before);
        steps->before.is_open = 0;
    }
    if (now->updates < UPDATES && !has_stepped(now, optimizer))
        now->optimizers[now->updates++] = optimizer;
    now->updated = boundary(thread, at);
    memcpy(now->phases_updated, now->phases, sizeof now->phases_updated);
}

/* No step follows, so that this one ends with the optimizer's: what came after does not count. */
static void write_until_update(Thread *thread, struct Steps *steps)
{
    memcpy(steps->now.phases, steps->now.phases_updated, sizeof steps->now.phases);
    step_write(thread, STEP_TRAINING, &steps->now, &steps->now.updated);
}

/* ---------------------------------------------------------------- phases */

/* Charge the time up to now to the innermost phase. */
static uint64_t phase_run(struct Steps *steps)
{
    uint64_t now = clock_ticks();
    size_t depth = steps->depth < OPEN_AT_MOST ? steps->depth : OPEN_AT_MOST;
    if (steps->now.is_open && depth > 0 && steps->open[depth - 1].kind >= 0)
        steps->now.phases[steps->open[depth - 1].kind] += now - steps->since;
    steps->since = now;
    return now;
}

static int is_inside(const struct Steps *steps, int role)
{
    for (size_t i = 0; i < steps->depth && i < OPEN_AT_MOST; i++)
        if (steps->open[i].role == role)
            return 1;
    return 0;
}

static int is_in_phase(const struct Steps *steps, int kind)
{
    for (size_t i = 0; i < steps->depth && i < OPEN_AT_MOST; i++)
        if (steps->open[i].kind == kind)
            return 1;
    return 0;
}

/* The kind that a phase counts as; precedence as in taupy/network/phases.py. */
static int meant(const struct Steps *steps, int kind)
{
    if (kind != FORWARD && kind != LOSS)
        return kind;
    return is_in_phase(steps, COMPILE)      ? COMPILE
           : is_in_phase(steps, VALIDATION) ? VALIDATION
                                            : kind;
}

/* Whether calls made now are to be ignored: they are part of something counted as a whole, or only
 * a trial run of the program's code. */
static int is_aside(const struct Steps *steps)
{
    return is_inside(steps, KNOWN_UPDATE) || is_inside(steps, KNOWN_FETCH) ||
           is_in_phase(steps, COMPILE);
}

static void phase_push(struct Steps *steps, const void *owner, int kind, int role)
{
    if (steps->depth < OPEN_AT_MOST)
        steps->open[steps->depth] = (OpenPhase){owner, kind, role, NULL, NULL, {COUNT_UNKNOWN, 0}};
    steps->depth++;
}

/* Close the owner's innermost phase, and any phase left open inside it. Returns 0 if it has
 * none. */
static int phase_pop(struct Steps *steps, const void *owner)
{
    if (steps->depth > OPEN_AT_MOST) {
        steps->depth--;
        return 0;
    }
    for (size_t i = steps->depth; i-- > 0;)
        if (steps->open[i].owner == owner) {
            steps->depth = i;
            return 1;
        }
    return 0;
}

/* A validation has ended: the step that it has interrupted goes on. */
static void validation_left(Thread *thread, struct Steps *steps, uint64_t at)
{
    validation_ends(thread, steps, at);
    if (!steps->aside.is_open || is_in_phase(steps, VALIDATION))
        return;
    steps->now = steps->aside;
    steps->now.phases[VALIDATION] += at - steps->aside_since;
    steps->aside.is_open = 0;
}

static struct Steps *steps_of(Thread *thread)
{
    if (thread->steps == NULL)
        thread->steps = calloc(1, sizeof *thread->steps);
    return thread->steps;
}

/* ---------------------------------------------------------------- events */

/* `with_fetch`: the batch fetched just before belongs to this step. */
static void step_told(Thread *thread, enum StepKind kind, int with_fetch)
{
    struct Steps *steps = steps_of(thread);
    if (steps == NULL || steps->told_depth++ > 0)
        return;
    uint64_t at = phase_run(steps);
    if (!steps->is_told) {
        settle(thread, steps);
        if (steps->now.is_open && steps->now.updates > 0)
            write_until_update(thread, steps);
    }
    steps->is_told = 1;
    steps->told = kind;
    if (!with_fetch || !is_only_fetched(&steps->now))
        work_open(thread, &steps->now, at);
}

void step_begin(Thread *thread, enum StepKind kind) { step_told(thread, kind, 0); }

void step_end(Thread *thread)
{
    struct Steps *steps = thread->steps;
    if (steps == NULL || steps->told_depth == 0 || --steps->told_depth > 0)
        return;
    step_ends_here(thread, steps->told, &steps->now, phase_run(steps));
    steps->now.is_open = 0;
}

/* The first item if the variable is a tuple, else the variable. */
static PyObject *object_of(PyObject *variable)
{
    if (variable != NULL && PyTuple_CheckExact(variable))
        return PyTuple_GET_SIZE(variable) > 0 ? PyTuple_GET_ITEM(variable, 0) : NULL;
    return variable;
}

/* Record a learning rate: a number, a tensor, or a variable of Keras that holds one. */
static void tell_rate(Thread *thread, PyObject *rate)
{
    double number;
    PyObject *variables = NULL;
    if (rate == NULL)
        return;
    if (!PyFloat_CheckExact(rate) && !tensor_number(rate, &number)) {
        variables = PyObject_GenericGetDict(rate, NULL);
        rate = variables != NULL && PyDict_CheckExact(variables)
                   ? PyDict_GetItemString(variables, "_value") /* borrowed */
                   : NULL;
    }
    if (rate != NULL && PyFloat_CheckExact(rate))
        step_value(thread, RATE, PyFloat_AS_DOUBLE(rate));
    else if (rate != NULL && tensor_number(rate, &number))
        step_value(thread, RATE, number);
    Py_XDECREF(variables);
    PyErr_Clear();
}

/* Record the learning rate of the optimizer's first parameter group. */
static void tell_rate_of(Thread *thread, PyObject *optimizer)
{
    PyObject *variables = optimizer != NULL ? PyObject_GenericGetDict(optimizer, NULL) : NULL;
    PyObject *groups = variables != NULL && PyDict_CheckExact(variables)
                           ? PyDict_GetItemString(variables, "param_groups") /* borrowed, all */
                           : NULL;
    if (groups != NULL && PyList_CheckExact(groups) && PyList_GET_SIZE(groups) > 0 &&
        PyDict_CheckExact(PyList_GET_ITEM(groups, 0)))
        tell_rate(thread, PyDict_GetItemString(PyList_GET_ITEM(groups, 0), "lr"));
    Py_XDECREF(variables);
    PyErr_Clear();
}

/* The innermost routine that fetches a batch; NULL if none does. */
static OpenPhase *fetch_open(struct Steps *steps)
{
    for (size_t i = steps->depth < OPEN_AT_MOST ? steps->depth : OPEN_AT_MOST; i-- > 0;)
        if (steps->open[i].known != NULL)
            return &steps->open[i];
    return NULL;
}

/* A batch is fetched, or (NULL) none was left, for the routine that fetches now, or the step. */
static void batch_arrives(struct Steps *steps, const Batch *batch)
{
    OpenPhase *outer = fetch_open(steps);
    if (outer != NULL && outer->known->is_ahead)
        loader_ahead_fetched(loader_ahead(&steps->ahead, outer->source), batch);
    else if (batch != NULL && outer != NULL)
        batch_add(&outer->batch, batch);
    else if (batch != NULL && steps->now.is_open)
        batch_add(&steps->now.batch, batch);
}

/* A routine that fetches has ended. */
static void fetch_ended(struct Steps *steps, const OpenPhase *ended, int returned)
{
    Batch batch = ended->batch, more;
    if (returned && ended->known->is_ahead)
        batch = loader_ahead_returned(loader_ahead(&steps->ahead, ended->source));
    else if (returned) {
        more = batch_of_workers(ended->source);
        batch_add(&batch, &more);
    } else if (ended->known->is_ahead)
        loader_ahead(&steps->ahead, ended->source)->source = NULL;
    batch_arrives(steps, returned ? &batch : NULL);
}

/* The loader makes a batch of these samples. */
static void add_samples(struct Steps *steps, PyObject *samples)
{
    Batch batch = {COUNT_UNKNOWN, 0};
    if (samples == NULL || !PyList_CheckExact(samples))
        return;
    batch.samples = (uint64_t)PyList_GET_SIZE(samples);
    OpenPhase *fetch = fetch_open(steps);
    if (fetch != NULL || steps->now.is_open)
        batch_add(fetch != NULL ? &fetch->batch : &steps->now.batch, &batch);
}

/* Update step detection, for programs that do not mark their steps explicitly. */
static void recognise(Thread *thread, struct Steps *steps, const KnownRoutine *known,
                      PyObject *first, uint64_t at)
{
    if (is_aside(steps))
        return;
    if (known->role == KNOWN_FETCH)
        fetch_begins(thread, steps, first, at);
    else if (known->role == KNOWN_BACKWARD && !is_inside(steps, KNOWN_BACKWARD)) {
        work_begins(thread, steps, at);
        steps->now.backwards++;
    } else if (known->role == KNOWN_PHASE)
        phase_ends_step(thread, steps, known->kind, at);
    else if (known->role == KNOWN_UPDATE) {
        if (!steps->now.is_open || has_stepped(&steps->now, object_of(first)))
            work_begins(thread, steps, at);
        steps->optimizer = object_of(first);
        tell_rate_of(thread, object_of(first));
    }
}

/* Give the thread of a DataLoader worker process the name users know it by. */
static void name_worker(Thread *thread, PyObject *number)
{
    long worker = number != NULL && PyLong_CheckExact(number) ? PyLong_AsLong(number) : -1;
    if (worker >= 0)
        snprintf(thread->name, sizeof thread->name, "DataLoader worker %ld", worker);
    PyErr_Clear();
}

/* Whether a phase that begins now counts as validation, which no phase around it says yet. */
static int is_evaluation(const struct Steps *steps, int kind)
{
    return (kind == FORWARD || kind == LOSS) && !is_inside(steps, KNOWN_BACKWARD) &&
           !is_in_phase(steps, FORWARD) && meant(steps, kind) == kind;
}

int steps_called(Thread *thread, const KnownRoutine *known, PyObject *first, PyObject *second)
{
    int evaluates = 0;
    if (known->role == KNOWN_GROUPS || known->role == KNOWN_PAIR)
        return 0;
    if (known->role == KNOWN_WORKER) {
        name_worker(thread, first);
        return 0;
    }
    struct Steps *steps = steps_of(thread);
    if (steps == NULL)
        return 0;
    if (known->role == KNOWN_BACKWARD)
        layer_facts_backward();
    if (known->role == KNOWN_VALUE)
        (known->kind ? logged_plain : logged_value)(thread, step_value, first, second);
    else if (known->role == KNOWN_VALUES)
        logged_values(thread, known->kind ? epoch_value : step_value, first, second);
    else if (known->role == KNOWN_RATE)
        tell_rate(thread, first);
    else if (known->role == KNOWN_SAMPLES)
        add_samples(steps, first);
    else if (known->role == KNOWN_END) {
        logged_values(thread, step_value, first, NULL);
        step_end(thread);
    } else if (known->role != KNOWN_BEGIN) {
        uint64_t at = phase_run(steps);
        if (!steps->is_told)
            recognise(thread, steps, known, first, at);
        else if (known->role == KNOWN_FETCH && !is_aside(steps))
            fetch_told(thread, steps, at);
        evaluates = known->role == KNOWN_PHASE && known->kind == LOSS &&
                    is_evaluation(steps, LOSS) && without_gradients();
        phase_push(steps, known, evaluates ? VALIDATION : meant(steps, known->kind), known->role);
        if (known->role == KNOWN_FETCH && steps->depth <= OPEN_AT_MOST) {
            steps->open[steps->depth - 1].known = known;
            steps->open[steps->depth - 1].source = first;
        }
    }
    return evaluates;
}

void steps_left(Thread *thread, const KnownRoutine *known, int returned)
{
    struct Steps *steps = thread->steps;
    if (steps == NULL)
        return;
    if (known->role == KNOWN_BEGIN) {
        step_told(thread, known->kind, 1);
        return;
    }
    if (known->role == KNOWN_END || known->role >= KNOWN_VALUE)
        return;
    uint64_t at = phase_run(steps);
    if (!phase_pop(steps, known))
        return;
    const OpenPhase ended = steps->open[steps->depth];
    if (known->role == KNOWN_FETCH && ended.known != NULL)
        fetch_ended(steps, &ended, returned);
    if (is_aside(steps))
        return;
    if (steps->is_told) {
        if (known->role == KNOWN_FETCH && !returned && steps->told_depth == 0)
            steps->now.is_open = 0;
    } else if (known->role == KNOWN_FETCH && !returned)
        fetch_failed(thread, steps);
    else if (known->role == KNOWN_UPDATE)
        update_ends(thread, steps, steps->optimizer, at);
    else if (known->role == KNOWN_PHASE && known->kind == VALIDATION)
        validation_left(thread, steps, at);
}

/* Whether a module is in training mode; -1 if unknown. Losses stay in it whatever their model does,
 * so `of_model` asks for modules with submodules only. */
static int is_training(PyObject *module, int of_model)
{
    PyObject *variables = PyObject_GenericGetDict(module, NULL);
    int found = -1;
    if (variables != NULL && PyDict_CheckExact(variables)) {
        PyObject *training = PyDict_GetItemString(variables, "training"); /* borrowed */
        PyObject *modules = PyDict_GetItemString(variables, "_modules");
        if (!of_model || (modules != NULL && PyDict_Check(modules) && PyDict_Size(modules) > 0))
            found = training == Py_True ? 1 : training == Py_False ? 0 : -1;
    }
    Py_XDECREF(variables);
    PyErr_Clear();
    return found;
}

void steps_forward_left(Thread *thread, PyObject *module)
{
    struct Steps *steps = steps_of(thread);
    if (steps == NULL)
        return;
    phase_run(steps);
    phase_pop(steps, module);
}

int steps_forward(Thread *thread, PyObject *module, int of_pytorch)
{
    struct Steps *steps = steps_of(thread);
    if (steps == NULL)
        return 0;
    uint64_t at = phase_run(steps);
    int is_again = is_inside(steps, KNOWN_BACKWARD);
    if (!steps->is_told && !is_again && !is_aside(steps)) {
        work_begins(thread, steps, at);
        int training = is_training(module, 1);
        steps->now.calls++;
        steps->now.trains += training == 1;
        steps->now.evaluates += training == 0;
    }
    int evaluates = of_pytorch && is_evaluation(steps, FORWARD) &&
                    (is_training(module, 0) == 0 || without_gradients());
    int kind = is_again ? RECOMPUTE : evaluates ? VALIDATION : meant(steps, FORWARD);
    phase_push(steps, module, kind, KNOWN_PHASE);
    return evaluates;
}

void steps_tokens(Thread *thread, PyObject *module, uint64_t tokens)
{
    struct Steps *steps = thread->steps;
    if (tokens == COUNT_UNKNOWN || steps == NULL || !steps->now.is_open || is_aside(steps) ||
        is_inside(steps, KNOWN_BACKWARD))
        return;
    uint64_t *sum = &steps->now.tokens[is_training(module, 1) == 0];
    *sum = sum_known(*sum, tokens);
}

/* ---------------------------------------------------------------- the window */

/* Whether the previous work is certainly a complete step: in a loop with several optimizers, all of
 * them have stepped. */
static int is_settled(const struct Steps *steps)
{
    return steps->before.is_open && steps->before.updates >= steps->updates_each;
}

enum StepPlace steps_place(const Thread *thread)
{
    const struct Steps *steps = thread->steps;
    if (steps == NULL || !steps->now.is_open)
        return STEP_NONE;
    uint64_t ended = steps->series[STEP_TRAINING].count + (uint64_t)is_settled(steps);
    int is_inside = ended + 1 >= steps_window.first && ended + 1 <= steps_window.last;
    return steps_window.first == 0 || is_inside ? STEP_INSIDE : STEP_OUTSIDE;
}

int steps_goes_on(const Thread *thread)
{
    const struct Steps *steps = thread->steps;
    if (steps == NULL || !steps->now.is_open)
        return 0;
    const Work *now = &steps->now;
    int is_validated = now->evaluates > 0 && now->trains == 0 && now->backwards == 0;
    return steps->is_told || (now->updates == 0 && !is_validated);
}

/* ---------------------------------------------------------------- end of threads and of the run */

/* The thread's training is over: any work that may be a step counts as one. */
static void steps_finish(Thread *thread)
{
    struct Steps *steps = thread->steps;
    if (steps == NULL || steps->is_told)
        return;
    settle(thread, steps);
    if (steps->now.is_open && steps->now.updates > 0)
        write_until_update(thread, steps);
    else if (is_validation(&steps->now) && steps->series[STEP_VALIDATION].count > 0) {
        Boundary last = {steps->since}; /* what the thread had used by then is unknown */
        memset(last.used.values, 0xff, sizeof last.used.values);
        step_write(thread, STEP_VALIDATION, &steps->now, &last);
    }
    steps->now.is_open = 0;
}

static void on_finish(int ends)
{
    pthread_mutex_lock(&ended_lock); /* excludes threads that are ending: they do this themselves */
    for (Thread *thread = threads; ends && thread != NULL; thread = thread->next)
        if (!thread_is_over(thread))
            steps_finish(thread);
    pthread_mutex_unlock(&ended_lock);
    if (ends)
        step_metrics_close();
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    step_metrics_close();
}

static void on_thread_end(Thread *thread)
{
    struct Steps *steps = thread->steps;
    step_metrics_thread_ends();
    if (steps == NULL)
        return;
    /* Other threads may be writing to the part: add at most two rows, and only where they already
     * have room. */
    const StepSeries *training = &steps->series[STEP_TRAINING];
    const StepSeries *validation = &steps->series[STEP_VALIDATION];
    if (step_rows_fit(training, 2) && (validation->rows == 0 || step_rows_fit(validation, 1)))
        steps_finish(thread);
    thread->steps = NULL;
    free(steps);
}

Listener steps_listener = {
    .on_finish = on_finish, .on_thread_end = on_thread_end, .on_fork = on_fork};
