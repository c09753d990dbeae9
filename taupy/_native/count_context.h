/* A CUDA context in which kernels or regions are counted, with CUPTI's Range Profiler configured
 * for it.
 *
 * The configuration and the space for results are set up when the context is created, as in
 * NVIDIA's own example; a launch then only starts and stops the profiler. If CUPTI refuses that, it
 * is retried at the first launch; if refused again, by a thread of our own, outside any of CUPTI's
 * callbacks.
 *
 * Callers hold the launch right of count_watch.h, except at the creation of a context: CUPTI may
 * hold its own locks there, and we take none of ours. */
#ifndef TAUPY_COUNT_CONTEXT_H
#define TAUPY_COUNT_CONTEXT_H

#include "count_config.h"

/* The driver or CUPTI reports that a context was created, or is about to be destroyed. */
void count_context_created(void *context);
void count_context_gone(void *context);

/* The counting state of this CUDA context, possibly not ready yet; NULL: nothing is counted
 * there. */
CountContext *count_context(void *context);

/* A launch could not be counted: later ones are still tried, up to a limit. */
void count_context_fault(CountContext *here);
void count_context_give_up(CountContext *here);
int count_context_is_ready(const CountContext *here);

/* Nothing is counted any more: leave the GPU's counters to others. */
void count_contexts_leave(void);

/* Work that callbacks must not do; called by a thread outside of any callback. */
void count_contexts_tend(void);

/* Start counting a kernel or a region. 0: success; negative: failed, and reported; positive: it
 * cannot be counted yet. */
int count_kernel_start(CountContext *here);
int count_region_start(CountContext *here);

enum { COUNTED = 0, NOTHING_YET = 1, NOT_STOPPED = 2, NOT_CLEAN = 3 }; /* or -1 */

/* Stop counting: if COUNTED, `values` (METRICS_AT_MOST long) holds here->count values. `early`: the
 * results may not be there yet. */
int count_stop(CountContext *here, int early, double *values);

/* Write the values to the file, as a line that begins with `text`; NULL: do not write them. */
void count_write_values(const char *text, const CountContext *here, const double *values);

#endif
