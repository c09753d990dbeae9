/* Layers of a network: calls of its modules as nodes of the tree, one a module.
 *
 * The routines through which a framework calls modules are known by file and name
 * (taupy/network has the tables). Such a routine has a flag, so that it never takes the quick way
 * through `enter` and `leave`; what is recorded is a timer of the module's qualified name and
 * class (layer_names.h), in place of the routine. Routines between it and the module's own code
 * are not recorded. Nothing is registered with the program and no code of its runs. */
#ifndef TAUPY_LAYERS_H
#define TAUPY_LAYERS_H

#include "layer_facts.h"

enum LayerKind { /* what a routine calls */
    LAYER_MODULE = 'm',    /* a module of PyTorch, of whose backward pass autograd tells */
    LAYER_OLDER = 'o',     /* the same in versions where no LAYER_MODULE calls this routine */
    LAYER_LAYER = 'l',     /* a layer of another framework */
    LAYER_ESTIMATOR = 'e', /* what is fitted and asked: no forward pass */
};

extern char **layer_codes;    /* "KIND FILE:NAME" of the routines that call modules; NULL: none */
extern char **plumbing_codes; /* of those in between */
extern Listener layers_listener;

/* Have the engine tell of them. */
void layers_start(void);
/* The call of a module by this routine begins. */
void layer_called(Thread *thread, LayerCall call);
/* It returns; value NULL: an exception leaves it. */
void layer_returns(Thread *thread, const void *frame, PyObject *value);

#endif
