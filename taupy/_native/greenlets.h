/* Greenlets: many stacks on one thread.
 *
 * The cursor belongs to a stack, so it is swapped when greenlets switch. greenlet reports switches
 * through its trace function (one per thread), which we claim as soon as the module is loaded,
 * unless it is already taken.
 *
 * A greenlet's call path is attached where it was first switched to. While it is switched out, the
 * clocks of its open routines are stopped, like those of a suspended generator; clocks of nodes it
 * shares with the running greenlet continue. */
#ifndef TAUPY_GREENLETS_H
#define TAUPY_GREENLETS_H

#include "listeners.h"

extern Listener greenlets_listener;

#endif
