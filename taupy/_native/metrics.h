/* Additional metrics of a node: the thread's CPU time, and counters, read at every call or only at
 * regions. Each has a pair (at entry, inclusive) next to the node. */
#ifndef TAUPY_METRICS_H
#define TAUPY_METRICS_H

#include "calltree.h"

#define METRICS_AT_MOST 4 /* as many pairs as fit in one more cache line */

extern int metric_count;         /* additional metrics that a node has room for */
extern int call_metrics;         /* number read at every call; the others are read at regions */
extern int cpu_time_wanted;      /* the first one is the thread's CPU time */
extern uint64_t long_call_ticks; /* after a call this long, listeners look for new threads */

void metrics_enter(Thread *thread, Node *node);
void metrics_leave(Thread *thread, Node *node, uint64_t took);
/* Account for what is open up to now, and continue. Under ended_lock (natives.h): the thread may be
 * about to end, and its descriptors to be closed and reused. */
void metrics_flush(Thread *thread);
/* Note in the thread's block why its counters are unreliable: no memory, no lock. */
void counters_tell(Thread *thread, int faults, int why_not_open);

#endif
