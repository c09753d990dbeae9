/* Greenlets: many stacks on one thread.
 *
 * The cursor belongs to a stack, so it is exchanged when greenlets switch. greenlet tells
 * of switches through its trace function (one a thread), which we take as soon as the
 * module is there and nobody else has it. A greenlet's path hangs where it was first
 * switched to. While it is switched out, its open routines' clocks stand still, as a
 * suspended generator's do; those it shares with the running one go on. */
#ifndef TAUPY_GREENLETS_H
#define TAUPY_GREENLETS_H

#include "listeners.h"

extern Listener greenlets_listener;

#endif
