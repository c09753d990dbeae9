/* Forks: the child creates its own part when it first enters or leaves anything. */
#ifndef TAUPY_FORK_H
#define TAUPY_FORK_H

#include "listeners.h"

extern Listener fork_listener;

/* Start watching for forks. */
void forks_watch(void);

#endif
