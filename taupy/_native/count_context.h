/* One CUDA context while kernels or regions are counted: CUPTI's Range Profiler, configured for it.
 *
 * What is asked for becomes a configuration and room for its results when the context is created,
 * where NVIDIA's own example does it; a launch then only starts and stops the profiler. Where CUPTI
 * refuses that, it is tried at the first launch; where it refuses that, too, by a thread of our own,
 * which is in no callback of its. Whoever calls has the right of count_watch.h, but for the creation
 * of a context: there CUPTI may hold locks of its own, and none of ours is taken. */
#ifndef TAUPY_COUNT_CONTEXT_H
#define TAUPY_COUNT_CONTEXT_H

#include "count_config.h"

/* Of the driver's or CUPTI's word that one was created, or will be gone. */
void count_context_created(void *context);
void count_context_gone(void *context);

/* The one that counts in this CUDA context, perhaps not ready for it yet; NULL: nothing is counted
 * there. */
CountContext *count_context(void *context);

/* A launch could not be counted: the next ones are tried, but not for ever. */
void count_context_fault(CountContext *here);
void count_context_give_up(CountContext *here);
int count_context_is_ready(const CountContext *here);

/* What callbacks may not do; by a thread that is in none. */
void count_contexts_tend(void);

/* Begin to count a kernel, or a region. 0; less: what went wrong has been written; more: it cannot
 * be counted yet. */
int count_kernel_start(CountContext *here);
int count_region_start(CountContext *here);

enum { COUNTED = 0, NOTHING_YET = 1, NOT_STOPPED = 2, NOT_CLEAN = 3 }; /* or -1 */

/* End it: `values`, METRICS_AT_MOST long, has here->count of them if it was COUNTED. `early`: there
 * may be nothing yet. */
int count_stop(CountContext *here, int early, double *values);

/* They go into the file, as a line that begins with `text`; NULL: not at all. */
void count_write_values(const char *text, const CountContext *here, const double *values);

#endif
