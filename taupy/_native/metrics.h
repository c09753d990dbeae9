/* The further metrics of a node: the thread's CPU time, and counters, read at every call or at
 * regions only. A node has a pair (at entry, inclusive) for each, beside it. */
#ifndef TAUPY_METRICS_H
#define TAUPY_METRICS_H

#include "calltree.h"

#define METRICS_AT_MOST 4 /* pairs that fill one more cache line */

extern int metric_count;         /* further metrics that a node has room for */
extern int call_metrics;         /* so many of them are read at every call, the others at regions */
extern int cpu_time_wanted;      /* the first of them is the thread's CPU time */
extern uint64_t long_call_ticks; /* after such a call, listeners look for new threads */

void metrics_enter(Thread *thread, Node *node);
void metrics_leave(Thread *thread, Node *node, uint64_t took);
/* What is open counts up to now, and goes on. Under ended_lock (natives.h): the thread may be
 * about to end, and its descriptors to be closed and to become another's. */
void metrics_flush(Thread *thread);
/* Why a thread's counters are not to be believed stands with its block: no memory, no lock. */
void counters_tell(Thread *thread, int faults, int why_not_open);

#endif
