/* PyTorch's operators: the library that tells of them, and their nodes of the call tree
 * (`taupy run --operators`).
 *
 * An operator appears at the call path that calls it, under its name in torch.profiler, and so do
 * the operators that it calls, however deep; what a backward pass calls is below the node of
 * autograd's graph (autograd.h). The engine's own operators, one around each of these nodes, are
 * left out, since a node of a layer belongs to a pass, not to an operator.
 *
 * With the sizes and types of inputs, an operator has a call path for each of these. The profile
 * merges them (record/operator_inputs.py).
 *
 * Most operators run without the GIL. It is taken for a call path that is new, never on a thread
 * without a call tree of its own: whoever holds the GIL may be waiting for one of PyTorch's
 * workers. What these call is not recorded, and the trial says how many that are. */
#ifndef TAUPY_OPERATORS_H
#define TAUPY_OPERATORS_H

#include "listeners.h"
#include "operators_host.h"

extern char *operators_library; /* path of the compiled operators_library.cpp; NULL: none */
extern int operators_wanted;    /* record them; 2: with the sizes and types of their inputs */
extern Listener operators_listener;

/* The library's functions; NULL before it is loaded, or if there is none. */
extern OperatorsHost operators_host;

/* PyTorch is there: load the library, and record operators if that is wanted. Done once. */
void operators_load(void);

#endif
