/* Facts about layers: parameters, shapes, floating-point operations.
 *
 * Shapes are read at some calls of a layer, ever fewer and not at equal distances, so that the last
 * batch of each epoch is not met again and again; all other calls only pay for a counter. A call
 * that is looked at stands for those since the last look; kept are the shapes of most calls.
 * Only tensors of PyTorch's own classes are inspected, through the library of operators.h:
 * none of the program's code is run, and nothing is kept alive.
 *
 * Operations are counted from a model's first call until a training step has ended (or for
 * OUTERMOST_CALLS calls if none does; then again from the first backward pass on), and likewise
 * from the first call of a layer that is used later. They are attributed to the innermost layer
 * that is running, or whose backward pass is; not to a call that began before the counting. */
#ifndef TAUPY_LAYER_FACTS_H
#define TAUPY_LAYER_FACTS_H

#include "batches.h"
#include "layer_names.h"
#include "listeners.h"

#define FACT_TEXT 160
#define OPERATORS_TEXT 512

/* As stored in the part; layout shared with taupy/record/engine_layout.py. */
typedef struct LayerRecord {
    uint64_t key;                        /* key of the layer's timer */
    int64_t parameters, parameter_bytes; /* excludes modules called separately; -1: unknown */
    int64_t output_bytes;
    uint64_t calls;                      /* calls during which operations were counted */
    uint64_t operators, flop;            /* with a formula, in the forward passes of these calls */
    uint64_t backward_passes;            /* begun while operations were counted */
    uint64_t backward_operators, backward_flop; /* in these passes */
    uint64_t period;                     /* of counting, in which the last call began; 0: in none */
    uint32_t is_unsized, backward_is_unsized; /* an operator's formula needs other arguments */
    uint32_t input_varies, output_varies; /* calls had different shapes */
    char input[FACT_TEXT], output[FACT_TEXT]; /* shapes of most calls; empty: unknown */
    char unknown[OPERATORS_TEXT]; /* operators without a formula, each followed by a space */
} LayerRecord;

typedef struct LayerCall {
    const Routine *routine; /* the routine that calls the module */
    const void *frame;
    PyObject *module;
} LayerCall;

extern Listener layer_facts_listener;

/* A module of this layer is called. Returns 1 if its result is wanted. */
int layer_facts_called(const Layer *layer, const LayerCall *call);
void layer_facts_returned(const void *timer, PyObject *module, PyObject *value);
/* How many tokens a call receives; COUNT_UNKNOWN if none of its arguments is known to hold them.
 * `ids` is then set to the shape of its first argument if it may do so, else to zeros. */
uint64_t layer_facts_tokens(const LayerCall *call, int64_t ids[2]);
/* The tokens of a call whose first argument has this shape and that returns `value`. */
uint64_t layer_facts_predicted(PyObject *module, const int64_t ids[2], PyObject *value);
/* The number in a tensor that is on the CPU. Returns 0 for other objects. */
int tensor_number(PyObject *object, double *number);
/* A backward pass of the layer with this key begins. Needs tree_lock. */
void layer_facts_pass(const void *backward);
/* A thread's outermost module is about to be called; a backward pass begins; a training step has
 * ended. */
void layer_facts_outermost(void);
void layer_facts_backward(void);
void layer_facts_step(void);

#endif
