/* What is counted in a CUDA context, as CUPTI's Range Profiler wants it told: metrics of its chip, a
 * configuration made of them, and room for results. */
#ifndef TAUPY_COUNT_CONFIG_H
#define TAUPY_COUNT_CONFIG_H

#include "cupti_library.h"
#include "cupti_range.h"
#include <stddef.h>
#include <stdint.h>

#define RANGES_AT_MOST 64 /* in a data image that cannot be initialised */
#define METRICS_AT_MOST 256

typedef struct Counting { /* what all contexts have in common; set once */
    Cupti *cupti;
    RangeProfiler *range;
    const char *run_folder; /* the metrics of each chip stand there, in gpu.counters */
    const char *save_folder; /* CUPTI's images are kept here, for tests; else NULL */
    int by_region;
    int (*current_device)(int *); /* of libcuda; may be NULL */
    int has_given_up; /* CUPTI, after a fatal error: nothing of it may be called; atomically */
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
    size_t config_bytes, data_bytes, availability_bytes;
    int is_kept; /* see count_image.h */
    const char **names;
    size_t count;
    const char *step, *first_step; /* that went wrong last; when the context was created; */
    int code, first_code;          /* and CUPTI's answers */
} CountContext;

/* A call that fails leaves its step and CUPTI's answer, and -1. */
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

/* All that there is to do but to start. What was done already, by a try that failed later, is not
 * done again. */
int config_prepare(CountContext *here);

/* What is to be counted becomes a configuration, and room for its results. */
int config_make(CountContext *here);

/* CUPTI gets it; and the data image is emptied. */
int config_set(CountContext *here, int range, int replay);
int config_clear(CountContext *here);

/* Some counters are made by code that CUPTI puts into kernels, all others by the hardware. Where
 * the profiler does not start with the former, the latter are counted. Anything left? */
int config_leave_out_sass(CountContext *here);

/* All metrics must be added by one call: what several calls add shares no pass, ten metrics would take
 * ten (CUPTI 13.0, measured). Where one is unknown all are refused as a wrong argument; then each is
 * tried alone, in an object of its own, so that it can be named. */
int count_add_metrics(CountContext *here, const char *chip, const uint8_t *availability);

void count_problem(const char *step, int code);

#endif
