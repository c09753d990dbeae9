/* What a thread has used up when a step begins and ends: its CPU time, the time it waited for a
 * processor (run delay), and its hardware and software counters.
 *
 * CPU time and run delay are the kernel's, and read without any option; the run delay comes from
 * /proc/thread-self/schedstat, which stays open. Only at the boundaries of steps: two or three
 * readings a step. */
#ifndef TAUPY_STEP_METRICS_H
#define TAUPY_STEP_METRICS_H

#include "counters.h"

/* CPU time [ns], run delay [ns], then the counters in their order. */
enum StepMetric { STEP_CPU_TIME, STEP_RUN_DELAY, STEP_COUNTERS };
#define STEP_METRICS (STEP_COUNTERS + COUNTER_METRICS_AT_MOST)
#define STEP_UNKNOWN UINT64_MAX

typedef struct StepMark {
    uint64_t values[STEP_METRICS]; /* STEP_UNKNOWN: not available */
} StepMark;

/* What this thread has used so far. `counters`: its own; NULL: none. */
StepMark step_mark(CounterGroup *counters);
/* What was used between two marks; NaN: unknown. */
void step_used(const StepMark *begin, const StepMark *end, double *metrics);

/* This thread ends. */
void step_metrics_thread_ends(void);
/* Recording ends, or this is a forked child: no file stays open. */
void step_metrics_close(void);

#endif
