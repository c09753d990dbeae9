/* Backward passes by layer: each node of autograd's graph as a node of the call tree.
 *
 * It stands under "backward of LAYER", that of the layer that was at work when it was made
 * (owners.h); directly where the pass was called, if none was. A node without a number, which
 * adds to a parameter's gradient, belongs to the layer of the node before it, which has made the
 * gradient. Autograd runs without the GIL: call paths that are there are entered without it. */
#ifndef TAUPY_AUTOGRAD_H
#define TAUPY_AUTOGRAD_H

#include "listeners.h"

extern char *autograd_library; /* of autograd_library.cpp; NULL: there is none */
extern char *autograd_lock;    /* a file that is locked while the library is not there; or NULL */
extern Listener autograd_listener;

/* A module is being imported: if it is PyTorch's, have the library compiled meanwhile. */
void autograd_imported(void);

/* A module is called: PyTorch is there. The first time, listen to its nodes. */
void autograd_start(void);
/* From now on this layer is at work on the calling thread: the key of its backward pass; or
 * NULL: none is. */
void autograd_owner(void *backward);

#endif
