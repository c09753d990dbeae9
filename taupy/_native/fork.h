/* Forks: the child begins a part of its own when it first enters or leaves anything. */
#ifndef TAUPY_FORK_H
#define TAUPY_FORK_H

#include "listeners.h"

extern Listener fork_listener;

/* From now on forks are noticed. */
void forks_watch(void);

#endif
