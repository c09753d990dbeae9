/* Layers of a network: calls of its modules as nodes of the call tree, one node per module.
 *
 * The routines through which a framework calls modules are recognised by file and name (tables in
 * taupy/network). Such a routine carries a flag, so it never takes the fast path through `enter`
 * and `leave`; in its place we record a timer named after the module's qualified name and class
 * (layer_names.h). Routines between it and the module's own code are not recorded.
 *
 * Nothing is registered with the program, and none of its code is run. */
#ifndef TAUPY_LAYERS_H
#define TAUPY_LAYERS_H

#include "layer_facts.h"

enum LayerKind { /* what a routine calls */
    LAYER_MODULE = 'm',    /* a PyTorch module; autograd reports its backward pass */
    LAYER_OLDER = 'o',     /* the same, in versions where no LAYER_MODULE calls this routine */
    LAYER_LAYER = 'l',     /* a layer of another framework */
    LAYER_ESTIMATOR = 'e', /* fit and predict: no forward pass */
};

extern char **layer_codes;    /* "KIND FILE:NAME" of the routines that call modules; NULL: none */
extern char **plumbing_codes; /* the same for routines in between */
extern Listener layers_listener;

/* Have the engine report them. */
void layers_start(void);
/* This routine begins to call a module. */
void layer_called(Thread *thread, LayerCall call);
/* The call returns; value is NULL if an exception leaves it. */
void layer_returns(Thread *thread, const void *frame, PyObject *value);

#endif
