/* What a thread has used up when a step begins and ends: its CPU time, the time it waited for a
 * processor (run delay), its hardware and software counters, and the work it has stated.
 *
 * CPU time and run delay are the kernel's, and read without any option; the run delay comes from
 * /proc/thread-self/schedstat, which stays open. Only at the boundaries of steps: two or three
 * readings a step. */
#ifndef TAUPY_STEP_METRICS_H
#define TAUPY_STEP_METRICS_H

#include "counters.h"
#include "run_delay.h"

/* Work that the program states by user events of these names, or that is derived from shapes; as
 * STATED in taupy/model/metric.py. */
enum StepWork { WORK_FLOP, WORK_FP64, WORK_FP32, WORK_FP16, WORK_BF16, WORK_BYTES, STEP_WORKS };

/* CPU time [ns], run delay [ns], then the counters in their order, then stated work. */
enum StepMetric { STEP_CPU_TIME, STEP_RUN_DELAY, STEP_COUNTERS };
#define STEP_READ (STEP_COUNTERS + COUNTER_METRICS_AT_MOST)
#define STEP_METRICS (STEP_READ + STEP_WORKS)
#define STEP_UNKNOWN RUN_DELAY_UNKNOWN

typedef struct StepMark {
    uint64_t values[STEP_READ]; /* STEP_UNKNOWN: not available */
    double work[STEP_WORKS];
    unsigned stated; /* bits of the kinds of work that were stated at all */
} StepMark;

/* The kind of work that a user event states; -1: none. */
int step_work_of(const char *name, const char *unit);
/* This thread states work. Needs no GIL. */
void step_work_add(enum StepWork kind, double amount);

/* What this thread has used so far. `counters`: its own; NULL: none. */
StepMark step_mark(CounterGroup *counters);
/* What was used between two marks; NaN: unknown. */
void step_used(const StepMark *begin, const StepMark *end, double *metrics);

/* This thread ends. */
void step_metrics_thread_ends(void);
/* Recording ends, or this is a forked child: no file stays open. */
void step_metrics_close(void);

#endif
