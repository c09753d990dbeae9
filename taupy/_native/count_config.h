/* The configuration of counting in a CUDA context, as CUPTI's Range Profiler needs it: the chip's
 * metrics, a configuration image built from them, and space for results. */
#ifndef TAUPY_COUNT_CONFIG_H
#define TAUPY_COUNT_CONFIG_H

#include "cupti_library.h"
#include "cupti_range.h"
#include <stddef.h>
#include <stdint.h>

#define RANGES_AT_MOST 64 /* in a data image that cannot be reinitialised */
#define METRICS_AT_MOST 256

typedef struct Counting { /* shared by all contexts; set once */
    Cupti *cupti;
    RangeProfiler *range;
    const char *run_folder; /* contains gpu.counters, which lists each chip's metrics */
    const char *save_folder; /* save CUPTI's images here, for tests; else NULL */
    int by_region;
    int has_counted;         /* at least one launch or region */
    int (*refused)(void);    /* CUPTI has refused to count; returns 1 if that is the end of counting */
    int has_given_up; /* CUPTI, after a fatal error: must not be called any more; atomic */
} Counting;

extern Counting counting_setup;

typedef struct CountContext {
    void *context;
    int device;
    int state;   /* atomic */
    int faults;  /* consecutive launches that could not be counted */
    int reduced; /* metrics that need code patching are left out */
    int has_config;   /* CUPTI holds one */
    int needs_thread; /* the configuration cannot be set in a callback: our thread sets it */
    int keeps_ranges; /* the data image cannot be initialised for each launch */
    size_t first_range;
    char *chip;
    uint8_t *availability;
    void *profiler, *host;
    uint8_t *config, *data;
    size_t config_bytes, data_bytes, availability_bytes;
    int is_kept; /* see count_image.h */
    const char **names;
    size_t count;
    const char *step, *first_step; /* last failed step; at the context's creation; */
    int code, first_code;          /* and CUPTI's results */
} CountContext;

/* A failing call stores its step and CUPTI's result, and returns -1. */
#define TRY(what, call)                                                                            \
    if ((here->code = (call)) != 0) {                                                              \
        here->step = what;                                                                         \
        return -1;                                                                                 \
    }
#define RANGE(function, parameters)                                                                \
    (count_has_given_up() ? -1 : counting_setup.range->function(&(parameters)))

static inline int count_has_given_up(void)
{
    return __atomic_load_n(&counting_setup.has_given_up, __ATOMIC_ACQUIRE);
}

/* Do everything up to the start of the profiler. Steps that an earlier, failed attempt completed
 * are not repeated. */
int config_prepare(CountContext *here);

/* Build the configuration image, and allocate space for its results. */
int config_make(CountContext *here);

/* Pass it to CUPTI; clear the data image. */
int config_set(CountContext *here, int range, int replay);
int config_clear(CountContext *here);

/* Some counters are produced by code that CUPTI patches into kernels, all others by hardware. If
 * the profiler does not start with the former, count only the latter. Returns whether any are
 * left. */
int config_leave_out_sass(CountContext *here);

/* All metrics must be added in a single call: metrics added by separate calls share no passes, so
 * ten metrics would take ten (CUPTI 13.0, measured). If one is unknown, all are refused as an
 * invalid argument; then each is tried alone, in an object of its own, so that it can be named. */
int count_add_metrics(CountContext *here, const char *chip, const uint8_t *availability);

void count_problem(const char *step, int code);

#endif
