/* Backward passes by layer: each node of autograd's graph appears as a node of the call tree.
 *
 * It goes under "backward of LAYER", for the layer that was active when the graph node was created
 * (owners.h), or directly under the call of the backward pass if there was none. A graph node
 * without a sequence number, which accumulates a parameter's gradient, is attributed to the layer
 * of the node before it, which produced the gradient.
 *
 * Autograd runs without the GIL: existing call paths are entered without it. */
#ifndef TAUPY_AUTOGRAD_H
#define TAUPY_AUTOGRAD_H

#include "listeners.h"

extern char *autograd_library; /* path of the built autograd_library.cpp; NULL: none */
extern Listener autograd_listener;

/* A module is called, so PyTorch is loaded. The first time, start listening to its graph nodes. */
void autograd_start(void);
/* This layer is now the active one on the calling thread: the key of its backward pass, or NULL for
 * none. */
void autograd_owner(void *backward);

#endif
