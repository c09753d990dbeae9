/* Collecting facts about layers; see layer_facts.h. */
#include "layer_facts.h"
#include "children_of.h"
#include "frames.h"
#include "operators.h"
#include "process.h"
#include "timers.h"
#include <stdio.h>

#define OUTERMOST_CALLS 64
#define OUTERMOST_CALLS_IN_TRAINING 100000
#define TENSORS_AT_MOST 16
#define SHAPES_KEPT 4
#define DEEPEST 3 /* nesting of lists and tuples that hold tensors */

enum Counting { COUNTING_NOT_YET, COUNTING, COUNTING_PAUSED, COUNTING_OVER };

static int has_backward;
static enum Counting counting;
static uint64_t outermost_calls, outermost_most = OUTERMOST_CALLS;
static uint64_t periods; /* of counting, so far */

/* ---------------------------------------------------------------- records */

/* The shapes met most, of one side of a layer. With more than SHAPES_KEPT in turn, calls of the
 * rarest count for the one that takes its place. */
typedef struct ShapesMet {
    uint64_t hash, calls;
} ShapesMet;

typedef struct LayerLooks {
    uint64_t calls, next, last; /* so far; at which shapes are read next; at which they were last */
    uint64_t stands_for;        /* calls since the look before the last */
    ShapesMet input[SHAPES_KEPT], output[SHAPES_KEPT]; /* first: those in the record */
} LayerLooks;

static LayerRecord *record_of(const void *key)
{
    const NamedTimer *timer = KEY_POINTER(key);
    return timer->facts_generation == generation ? timer->facts : NULL;
}

static void record_give(void *key, LayerRecord *record)
{
    NamedTimer *timer = KEY_POINTER(key);
    timer->facts = record;
    timer->facts_generation = generation;
}

/* Needs the GIL. */
static LayerRecord *record_new(const Layer *layer)
{
    NamedTimer *timer = KEY_POINTER(layer->timer);
    if (timer->looks == NULL && (timer->looks = malloc(sizeof *timer->looks)) == NULL)
        return NULL; /* never freed, as the timer */
    *timer->looks = (LayerLooks){.next = 1};
    Block *block = part_block(part, BLOCK_LAYER, 0, sizeof(LayerRecord));
    if (block == NULL)
        return NULL;
    LayerRecord *record = (LayerRecord *)(block + 1);
    record->parameters = record->parameter_bytes = record->output_bytes = -1;
    record->key = (uint64_t)layer->timer;
    pthread_mutex_lock(&tree_lock);
    record_give(layer->timer, record);
    record_give(layer->backward, record);
    pthread_mutex_unlock(&tree_lock);
    return record;
}

/* ---------------------------------------------------------------- operators */

static void name_unknown(LayerRecord *record, const char *name)
{
    size_t size = strlen(name), used = strlen(record->unknown);
    for (const char *at = record->unknown; (at = strstr(at, name)) != NULL; at += size)
        if (at[size] == ' ' && (at == record->unknown || at[-1] == ' '))
            return;
    if (used + size + 2 <= OPERATORS_TEXT && strchr(name, ' ') == NULL) {
        memcpy(record->unknown + used, name, size);
        record->unknown[used + size] = ' ';
    }
}

/* The layer that is running; `is_backward` is set if it is in its backward pass. Needs
 * tree_lock. */
static LayerRecord *record_at_work(Thread *thread, int *is_backward)
{
    for (const Node *node = visible(thread); node->parent != NULL; node = node->parent) {
        LayerRecord *record = KEY_KIND(node->key) == KEY_TIMER ? record_of(node->key) : NULL;
        if (record != NULL) {
            *is_backward = record->key != (uint64_t)node->key;
            return record;
        }
    }
    return NULL;
}

static void computed(const char *name, int64_t flop)
{
    int is_backward = 0;
    Thread *thread = is_measured() && !waiting ? this_thread : NULL;
    pthread_mutex_lock(&tree_lock);
    LayerRecord *record = thread != NULL ? record_at_work(thread, &is_backward) : NULL;
    if (record == NULL || counting != COUNTING || (!is_backward && record->period != periods))
        ;
    else if (flop < 0) {
        name_unknown(record, name);
        *(is_backward ? &record->backward_is_unsized : &record->is_unsized) |=
            flop == OPERATOR_UNSIZED;
    } else if (is_backward) {
        record->backward_operators++;
        record->backward_flop += (uint64_t)flop;
    } else {
        record->operators++;
        record->flop += (uint64_t)flop;
    }
    pthread_mutex_unlock(&tree_lock);
}

static void count(enum Counting what)
{
    if ((counting == COUNTING) != (what == COUNTING)) {
        operators_host.computed = computed;
        operators_host.count(what == COUNTING);
        periods += what == COUNTING;
    }
    counting = what;
}

void layer_facts_outermost(void)
{
    operators_load();
    if (operators_host.count == NULL || counting == COUNTING_OVER || counting == COUNTING_PAUSED)
        return;
    count(outermost_calls++ < outermost_most ? COUNTING : COUNTING_PAUSED);
}

/* A layer is called for the first time: count, even if others have been counted already. */
static void count_late(void)
{
    if (counting != COUNTING && operators_host.count != NULL) {
        outermost_calls = 0;
        outermost_most = OUTERMOST_CALLS;
        count(COUNTING);
    }
}

void layer_facts_pass(const void *backward)
{
    LayerRecord *record = counting == COUNTING ? record_of(backward) : NULL;
    if (record != NULL)
        record->backward_passes++;
}

void layer_facts_backward(void)
{
    if (counting == COUNTING_PAUSED && !has_backward)
        counting = COUNTING_NOT_YET;
    if (!has_backward)
        outermost_most = OUTERMOST_CALLS_IN_TRAINING;
    has_backward = 1;
}

void layer_facts_step(void)
{
    if (counting == COUNTING)
        count(COUNTING_OVER);
}

/* ---------------------------------------------------------------- tensors */

typedef struct Described {
    char text[FACT_TEXT];
    size_t size;
    unsigned tensors;
    int64_t bytes;
} Described;

static void add_text(Described *found, const char *text)
{
    size_t size = strlen(text);
    if (found->size + size < FACT_TEXT) {
        memcpy(found->text + found->size, text, size + 1);
        found->size += size;
    }
}

/* Not by snprintf, which is slow in a process with libquadmath: it adds forms of its own. */
static void add_size(Described *found, int64_t size)
{
    char digits[24], *at = &digits[sizeof digits - 1];
    *at = 0;
    do {
        *--at = (char)('0' + size % 10);
        size /= 10;
    } while (size > 0);
    add_text(found, at);
}

static void add_shape(Described *found, const HostTensor *tensor)
{
    if (found->tensors > 1)
        add_text(found, ", ");
    if (tensor->dimensions == 0)
        add_text(found, "scalar");
    for (int i = 0; i < tensor->dimensions && i < TENSOR_DIMENSIONS; i++) {
        if (i > 0)
            add_text(found, "x");
        add_size(found, tensor->sizes[i]);
    }
}

static void describe(Described *found, PyObject *object, int depth)
{
    HostTensor tensor;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (object == NULL || found->tensors == TENSORS_AT_MOST || depth > DEEPEST)
        return;
    if (operators_host.tensor(object, &tensor)) {
        found->tensors++;
        found->bytes += tensor.items * tensor.item_bytes;
        add_shape(found, &tensor);
    } else if (PyTuple_Check(object))
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
            describe(found, PyTuple_GET_ITEM(object, i), depth + 1);
    else if (PyList_Check(object))
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++)
            describe(found, PyList_GET_ITEM(object, i), depth + 1);
    else if (PyDict_Check(object))
        while (PyDict_Next(object, &at, &key, &value))
            describe(found, value, depth + 1);
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    while (*text != 0)
        hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
    return hash;
}

/* Returns 1 if these shapes are kept: no others were met in more calls. */
static int keep_shapes(char *kept, uint32_t *varies, ShapesMet *met, const Described *found,
                       uint64_t calls)
{
    const uint64_t hash = hash_of(found->text);
    int at = 0;
    if (found->tensors == 0)
        return 0;
    *varies |= kept[0] != 0 && strcmp(kept, found->text) != 0;
    for (int i = 1; i < SHAPES_KEPT && met[at].hash != hash; i++)
        if (met[i].hash == hash || at == 0 || met[i].calls < met[at].calls)
            at = i;
    met[at].hash = hash;
    met[at].calls += calls;
    if (at > 0 && met[at].calls <= met[0].calls)
        return 0;
    const ShapesMet most = met[at];
    met[at] = met[0];
    met[0] = most;
    memcpy(kept, found->text, FACT_TEXT);
    return 1;
}

typedef struct Parameters {
    int64_t items, bytes;
    int is_unknown;
} Parameters;

/* Parameters held directly by a module, from its __dict__. */
static void add_parameters(void *to, PyObject *module)
{
    Parameters *sums = to;
    PyObject *parameters = parameters_of(module), *key, *value;
    Py_ssize_t at = 0;
    sums->is_unknown |= parameters == NULL || !PyDict_Check(parameters);
    while (!sums->is_unknown && PyDict_Next(parameters, &at, &key, &value)) {
        HostTensor tensor;
        if (value == Py_None)
            continue;
        if (!operators_host.tensor(value, &tensor))
            sums->is_unknown = 1;
        else {
            sums->items += tensor.items;
            sums->bytes += tensor.items * tensor.item_bytes;
        }
    }
}

/* Count the module's own parameters and, once a call has ended, also those of submodules that were
 * never called themselves: MultiheadAttention uses its `out_proj` that way. */
static void keep_parameters(LayerRecord *record, PyObject *module, int has_ended)
{
    Parameters sums = {0, 0, 0};
    add_parameters(&sums, module);
    if (has_ended)
        layers_uncalled(module, add_parameters, &sums);
    record->parameters = sums.is_unknown ? -1 : sums.items;
    record->parameter_bytes = sums.is_unknown ? -1 : sums.bytes;
}

/* A layer is called for the first time: recount the layers above it, which may have been credited
 * with its parameters. */
static void look_again(const Layer *layer)
{
    for (layer = layer->above; layer != NULL; layer = layer->above) {
        LayerLooks *looks = layer->timer != NULL ? ((NamedTimer *)KEY_POINTER(layer->timer))->looks : NULL;
        if (looks != NULL)
            looks->next = 0;
    }
}

/* ---------------------------------------------------------------- calls */

/* Calls until the next look: a sixteenth of those so far in the mean, as if by chance. */
static uint64_t distance(uint64_t calls)
{
    return 1 + (calls * 0x9E3779B97F4A7C15u >> 33) % (calls / 8 + 1);
}

int layer_facts_called(const Layer *layer, const LayerCall *call)
{
    if (operators_host.tensor == NULL)
        return 0;
    LayerRecord *record = record_of(layer->timer);
    if (record == NULL) {
        record = record_new(layer);
        look_again(layer);
        count_late();
    }
    if (record == NULL)
        return 0;
    record->calls += counting == COUNTING;
    record->period = counting == COUNTING ? periods : 0;
    LayerLooks *looks = ((NamedTimer *)KEY_POINTER(layer->timer))->looks;
    if (++looks->calls < looks->next)
        return 0;
    looks->stands_for = looks->calls - looks->last;
    looks->last = looks->calls;
    looks->next = looks->calls + distance(looks->calls);
    Described found = {"", 0, 0, 0};
    for (int at = 1; at <= 2; at++) { /* *args, **kwargs */
        PyObject *arguments = frame_argument(call->frame, call->routine->key, at);
        describe(&found, arguments, 0);
        Py_XDECREF(arguments);
    }
    keep_shapes(record->input, &record->input_varies, looks->input, &found, looks->stands_for);
    keep_parameters(record, call->module, 0);
    return 1;
}

static int is_pytorchs(const PyObject *object)
{
    const PyTypeObject *type = Py_TYPE(object);
    while (type != NULL && strcmp(type->tp_name, "torch._C.TensorBase") != 0)
        type = type->tp_base;
    return type != NULL;
}

int tensor_number(PyObject *object, double *number)
{
    HostTensor tensor;
    if (operators_host.tensor == NULL && is_pytorchs(object))
        operators_load();
    if (operators_host.tensor == NULL || !operators_host.tensor(object, &tensor) || !tensor.is_number)
        return 0;
    *number = tensor.number;
    return 1;
}

/* Record once in which argument the tokens are. */
static void tell_tokens(PyObject *module, const char *what)
{
    static uint64_t told;
    char text[256];
    if (told == generation)
        return;
    told = generation;
    snprintf(text, sizeof text, "%s of %s", what, Py_TYPE(module)->tp_name);
    metadata_write("taupy.tokens", text);
}

/* The first argument, borrowed. */
static PyObject *first_argument(PyObject *positional, PyObject *named)
{
    PyObject *name, *first = NULL;
    Py_ssize_t at = 0;
    if (positional != NULL && PyTuple_CheckExact(positional) && PyTuple_GET_SIZE(positional) > 0)
        return PyTuple_GET_ITEM(positional, 0);
    if (named != NULL && PyDict_CheckExact(named))
        PyDict_Next(named, &at, &name, &first);
    return first;
}

uint64_t layer_facts_tokens(const LayerCall *call, int64_t ids[2])
{
    HostTensor tensor;
    uint64_t found = COUNT_UNKNOWN;
    ids[0] = ids[1] = 0;
    operators_load();
    if (operators_host.tensor == NULL)
        return found;
    PyObject *positional = frame_argument(call->frame, call->routine->key, 1);
    PyObject *named = frame_argument(call->frame, call->routine->key, 2);
    const TokensFound tokens = tokens_among(call->module, positional, named);
    PyObject *first = first_argument(positional, named);
    if (tokens.tokens != NULL && operators_host.tensor(tokens.tokens, &tensor)) {
        found = (uint64_t)tensor.items;
        tell_tokens(call->module, tokens.name);
    } else if (first != NULL && operators_host.tensor(first, &tensor) && tensor.kind == TENSOR_INDICES &&
               tensor.dimensions == 2 && children_count(children_of(call->module)) > 0)
        memcpy(ids, tensor.sizes, 2 * sizeof *ids);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return found;
}

/* Whether among these tensors there is one with a row of numbers for each id. */
static int has_rows(PyObject *object, const int64_t ids[2], int depth)
{
    HostTensor tensor;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (operators_host.tensor(object, &tensor))
        return tensor.kind == TENSOR_FLOATS && tensor.dimensions == 3 &&
               tensor.sizes[0] == ids[0] && tensor.sizes[1] == ids[1];
    if (depth == DEEPEST)
        return 0;
    for (Py_ssize_t i = 0; PyTuple_Check(object) && i < PyTuple_GET_SIZE(object); i++)
        if (has_rows(PyTuple_GET_ITEM(object, i), ids, depth + 1))
            return 1;
    while (PyDict_Check(object) && PyDict_Next(object, &at, &key, &value))
        if (has_rows(value, ids, depth + 1))
            return 1;
    return 0;
}

uint64_t layer_facts_predicted(PyObject *module, const int64_t ids[2], PyObject *value)
{
    if (ids[0] * ids[1] == 0 || value == NULL || operators_host.tensor == NULL || !has_rows(value, ids, 1))
        return COUNT_UNKNOWN;
    tell_tokens(module, "first input");
    return (uint64_t)(ids[0] * ids[1]);
}

void layer_facts_returned(const void *timer, PyObject *module, PyObject *value)
{
    LayerRecord *record = record_of(timer);
    if (record == NULL || value == NULL) /* an exception is propagating: leave it alone */
        return;
    keep_parameters(record, module, 1);
    Described found = {"", 0, 0, 0};
    describe(&found, value, 0);
    LayerLooks *looks = ((const NamedTimer *)KEY_POINTER(timer))->looks;
    if (keep_shapes(record->output, &record->output_varies, looks->output, &found, looks->stands_for))
        record->output_bytes = found.bytes;
}

/* In a forked child, nothing has been counted yet. */
static void on_fork(const Thread *thread)
{
    (void)thread;
    if (counting != COUNTING)
        counting = COUNTING_NOT_YET;
    outermost_calls = 0;
    outermost_most = OUTERMOST_CALLS;
    has_backward = 0;
}

Listener layer_facts_listener = {.on_fork = on_fork};
