/* One CUDA context while kernels or regions are counted: CUPTI's Range Profiler, configured for it.
 *
 * What is asked for becomes a configuration and room for its results when the context is created,
 * where NVIDIA's own example does it; a launch then only starts and stops the profiler. Where CUPTI
 * refuses that, it is tried at the first launch; where it refuses that, too, by a thread of our own,
 * which is in no callback of its. Whoever calls has the right of count_watch.h, but for the creation
 * of a context: there CUPTI may hold locks of its own, and none of ours is taken. */
#ifndef TAUPY_COUNT_CONTEXT_H
#define TAUPY_COUNT_CONTEXT_H

#include "cupti_library.h"
#include "cupti_range.h"
#include <stddef.h>
#include <stdint.h>

#define METRICS_AT_MOST 256

typedef struct Counting { /* what all contexts have in common; set once */
    Cupti *cupti;
    RangeProfiler *range;
    const char *run_folder; /* the metrics of each chip stand there, in gpu.counters */
    int by_region;
    int (*current_device)(int *); /* of libcuda; may be NULL */
} Counting;

extern Counting counting_setup;

typedef struct CountContext {
    void *context;
    int device;
    int state;   /* atomically */
    int faults;  /* launches in a row that could not be counted */
    int reduced; /* what CUPTI counts by changed code is left out */
    int has_config;   /* CUPTI holds one */
    int needs_thread; /* it takes none in a callback: our thread gives it one */
    int keeps_ranges; /* the data image cannot be initialised for each launch */
    size_t first_range;
    char *chip;
    uint8_t *availability;
    void *profiler, *host;
    uint8_t *config, *data;
    size_t config_bytes, data_bytes;
    const char **names;
    size_t count;
    const char *step, *first_step; /* that went wrong last; when the context was created; */
    int code, first_code;          /* and CUPTI's answers */
} CountContext;

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

/* All metrics must be added by one call: what several calls add shares no pass, ten metrics would take
 * ten (CUPTI 13.0, measured). Where one is unknown all are refused as a wrong argument; then each is
 * tried alone, in an object of its own, so that it can be named. */
int count_add_metrics(CountContext *here, const char *chip, const uint8_t *availability);

void count_problem(const char *step, int code);

#endif
