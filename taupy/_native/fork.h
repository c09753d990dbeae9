/* Forks: the child begins a part of its own when it first enters or leaves anything. */
#ifndef TAUPY_FORK_H
#define TAUPY_FORK_H

#include "calltree.h"

extern int forked; /* this process began by a fork in a measured one */
extern ClockPair fork_pair;
extern int64_t fork_epoch_ns;

/* Of pthread_atfork. */
void fork_prepare(void);
void fork_child(void);

/* Has the child not recorded anything yet? */
int fork_is_pending(void);

/* The frames that were open when the parent forked are open in the child's thread, too. */
void fork_reopen(Thread *thread);

#endif
