/* Additional metrics of a node: those of sources that were asked for, and then counters (counters.h).
 * They are read at every call or only at regions. Each has a pair (at entry, inclusive) next to the
 * node. */
#ifndef TAUPY_METRICS_H
#define TAUPY_METRICS_H

#include "calltree.h"

#define METRICS_AT_MOST 4 /* as many pairs as fit in one more cache line */

/* A metric of calls. To add one, write metric_NAME.c with a `metric_NAME`, and add NAME to SOURCES in
 * metrics.c: it can then be asked for by its name, and is stored with it. */
typedef struct MetricSource {
    const char *name, *unit;
    int at_calls; /* read at every call; if 0, only at regions */
    /* The thread's value so far, which never decreases. `own`: it is the calling thread; otherwise
     * it is another one, which may have ended. No Python: also called without the GIL. */
    uint64_t (*read)(Thread *thread, int own);
} MetricSource;

extern int metric_count;         /* additional metrics that a node has room for */
extern int source_count;         /* the first ones; the others are counters */
extern int call_metrics;         /* number read at every call; the others are read at regions */
extern uint64_t long_call_ticks; /* after a call this long, listeners look for new threads */

/* The sources that there are, one after another; NULL after the last one. */
const MetricSource *metrics_source(int number);
/* Measure those of these names (NULL-terminated; NULL: none). Returns the first name that no source
 * has, or one too many; else NULL. */
const char *metrics_choose(char *const *names);
/* Which sources are measured: a line each, "NAME UNIT calls" or "NAME UNIT regions". */
void metrics_describe(char *text, size_t size);
void metrics_enter(Thread *thread, Node *node);
void metrics_leave(Thread *thread, Node *node, uint64_t took);
/* Account for what is open up to now, and continue. Under ended_lock (natives.h): the thread may be
 * about to end, and its descriptors to be closed and reused. */
void metrics_flush(Thread *thread);
/* Note in the thread's block why its counters are unreliable: no memory, no lock. */
void counters_tell(Thread *thread, int faults, int why_not_open);

#endif
