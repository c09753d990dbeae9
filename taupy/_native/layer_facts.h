/* What a layer is made of and computes: parameters, shapes, floating-point operations.
 *
 * Shapes are looked at in the calls 1, 2, 4, 8 and so on of a layer, so that other calls pay for a
 * counter. Only tensors of PyTorch's own classes are looked at, by the library of operators_host.h:
 * no code of the program runs for it, and nothing is kept alive. Operations are counted from the
 * first call of a model until a step of training has ended (or OUTERMOST_CALLS calls without one;
 * then again from the first backward pass on). They are those of the innermost layer at work, or
 * whose backward pass is. */
#ifndef TAUPY_LAYER_FACTS_H
#define TAUPY_LAYER_FACTS_H

#include "layer_names.h"
#include "listeners.h"

#define FACT_TEXT 160
#define OPERATORS_TEXT 512

/* In the part; as in taupy/record/engine_layout.py. */
typedef struct LayerRecord {
    uint64_t key;                        /* of the timer of its calls */
    int64_t parameters, parameter_bytes; /* of what is never called by itself; -1: not known */
    int64_t output_bytes;
    uint64_t calls;                      /* while operations were counted */
    uint64_t operators, flop;            /* with a formula, of the forward passes, in these calls */
    uint64_t backward_operators, backward_flop;
    uint32_t input_varies, output_varies; /* a call before had other shapes */
    char input[FACT_TEXT], output[FACT_TEXT]; /* shapes; empty: not known */
    char unknown[OPERATORS_TEXT]; /* names of operators without a formula, a blank after each */
} LayerRecord;

typedef struct LayerCall {
    const Routine *routine; /* that calls the module */
    const void *frame;
    PyObject *module;
} LayerCall;

extern char *operators_library; /* of operators_library.cpp; NULL: there is none */
extern Listener layer_facts_listener;

/* A module of this layer is called. 1: what it returns is to be told. */
int layer_facts_called(const Layer *layer, const LayerCall *call);
void layer_facts_returned(const void *timer, PyObject *module, PyObject *value);
/* The outermost module of a thread is about to be called; a backward pass begins; a step of
 * training has ended. */
void layer_facts_outermost(void);
void layer_facts_backward(void);
void layer_facts_step(void);

#endif
