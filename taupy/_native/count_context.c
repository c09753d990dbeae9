#define _GNU_SOURCE
#include "count_context.h"
#include "count_file.h"
#include "count_image.h"
#include "count_watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS_AT_MOST 64
#define FAULTS_AT_MOST 3
#define GONE ((void *)-1) /* its address may soon be reused */

enum ContextState { NEW, PREPARING, READY, FAILED };

static CountContext contexts[CONTEXTS_AT_MOST];

/* ---------------------------------------------------------------- contexts */

/* The entry of a context, found or created; NULL if there are too many. */
static CountContext *place_of(void *context)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++) {
        void *there = __atomic_load_n(&contexts[i].context, __ATOMIC_ACQUIRE);
        if (there == NULL && __atomic_compare_exchange_n(&contexts[i].context, &there, context, 0,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return &contexts[i];
        if (there == context)
            return &contexts[i];
    }
    return NULL;
}

static int device_of(void *context)
{
    uint32_t device = 0;
    return counting_setup.cupti->device_of != NULL &&
                   counting_setup.cupti->device_of(context, &device) == 0
               ? (int)device
               : 0;
}

static void write_problem(const CountContext *here)
{
    if (here->step != NULL)
        count_problem(here->step, here->code);
    else if (!count_has_given_up())
        count_file_text("no metrics", here->chip != NULL ? here->chip : "?", "");
}

enum Moment { AT_CREATION, AT_LAUNCH, IN_OUR_THREAD };

/* State after a failed attempt: try again, or give up. */
static int state_after(CountContext *here, enum Moment moment)
{
    int may_be_elsewhere = here->step != NULL && here->code == INVALID_OPERATION;
    if (moment == AT_CREATION && here->step != NULL) {
        here->first_step = here->step;
        here->first_code = here->code;
        if (may_be_elsewhere || !counting_setup.refused())
            return NEW;
        write_problem(here); /* a launch would be refused, too */
        return FAILED;
    }
    if (moment == AT_LAUNCH && may_be_elsewhere && here->first_code == INVALID_OPERATION) {
        here->needs_thread = 1;
        count_watch_wake();
        return NEW;
    }
    if (moment == AT_LAUNCH && may_be_elsewhere && here->first_code != 0) {
        here->step = here->first_step; /* more informative */
        here->code = here->first_code;
    }
    write_problem(here);
    return FAILED;
}

/* Prepare on one thread; meanwhile, others do not count in this context. */
static void prepare_once(CountContext *here, enum Moment moment)
{
    int expected = NEW;
    if ((here->needs_thread && moment != IN_OUR_THREAD) ||
        !__atomic_compare_exchange_n(&here->state, &expected, PREPARING, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    if (moment != IN_OUR_THREAD)
        here->device = device_of(here->context);
    int state = config_prepare(here) == 0 ? READY : state_after(here, moment);
    __atomic_store_n(&here->state, state, __ATOMIC_RELEASE);
    if (state == FAILED && here->step != NULL)
        counting_setup.refused();
}

void count_context_created(void *context)
{
    CountContext *here = context != NULL ? place_of(context) : NULL;
    if (here != NULL && !counting_setup.by_region)
        prepare_once(here, AT_CREATION);
}

void count_context_gone(void *context)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++)
        if (__atomic_load_n(&contexts[i].context, __ATOMIC_ACQUIRE) == context) {
            __atomic_store_n(&contexts[i].state, FAILED, __ATOMIC_RELEASE);
            __atomic_store_n(&contexts[i].context, GONE, __ATOMIC_RELEASE);
        }
}

CountContext *count_context(void *context)
{
    CountContext *here = context != NULL ? place_of(context) : NULL; /* NULL: the call creates it */
    if (here == NULL)
        return NULL;
    prepare_once(here, AT_LAUNCH);
    return __atomic_load_n(&here->state, __ATOMIC_ACQUIRE) != FAILED && !count_has_given_up()
               ? here
               : NULL;
}

int count_context_is_ready(const CountContext *here)
{
    return __atomic_load_n(&here->state, __ATOMIC_ACQUIRE) == READY && !count_has_given_up();
}

void count_context_give_up(CountContext *here)
{
    __atomic_store_n(&here->state, FAILED, __ATOMIC_RELEASE);
    counting_setup.refused();
}

/* Whether others or the driver keep the counters: a later launch is refused, too. */
static int is_refusal(int code)
{
    return code == 15 || code == 26 || code == 33 || code == 35 || (code >= 39 && code <= 45);
}

void count_context_fault(CountContext *here)
{
    if (is_refusal(here->code))
        counting_setup.refused();
    if (++here->faults >= FAULTS_AT_MOST)
        count_context_give_up(here);
}

/* ---------------------------------------------------------------- one launch, one region */

static int ranges_in(CountContext *here, size_t *ranges)
{
    PDataInfo info = FILLED(PDataInfo, ranges, .data = here->data, .bytes = here->data_bytes);
    TRY("counter data", RANGE(data_info, info));
    *ranges = info.ranges;
    return 0;
}

static int start(CountContext *here)
{
    PProfiler start = FILLED(PProfiler, profiler, .profiler = here->profiler);
    if (ranges_in(here, &here->first_range) != 0)
        return -1;
    TRY("start", RANGE(start, start));
    return 0;
}

/* Start with the configuration that CUPTI already holds. */
static int start_again(CountContext *here)
{
    if (!here->keeps_ranges && config_clear(here) != 0)
        here->keeps_ranges = 1;
    return start(here);
}

/* CUPTI accepts no configuration within a launch: our thread will set it. */
static int wait_for_thread(CountContext *here)
{
    here->needs_thread = 1;
    count_watch_wake();
    return 1;
}

static int is_full(CountContext *here)
{
    size_t ranges = 0;
    return here->keeps_ranges && ranges_in(here, &ranges) == 0 && ranges >= RANGES_AT_MOST;
}

static int start_kernel(CountContext *here)
{
    if (here->needs_thread)
        return 1;
    if (here->has_config && !is_full(here)) {
        const char *step;
        int code;
        if (start_again(here) == 0)
            return 0;
        step = here->step;
        code = here->code;
        if (config_set(here, AUTO_RANGE, KERNEL_REPLAY) == 0)
            return start(here);
        here->has_config = here->code == INVALID_OPERATION; /* the old one is still in place */
        here->step = step;
        here->code = code;
        return -1;
    }
    if (config_set(here, AUTO_RANGE, KERNEL_REPLAY) == 0)
        return start(here);
    return here->code == INVALID_OPERATION ? wait_for_thread(here) : -1;
}

int count_kernel_start(CountContext *here)
{
    int result = start_kernel(here);
    if (result >= 0)
        return result;
    count_problem(here->step, here->code);
    if (here->faults != 0 || !config_leave_out_sass(here))
        return -1;
    if (config_make(here) == 0)
        return start_kernel(here);
    if (here->code == INVALID_OPERATION)
        return wait_for_thread(here);
    count_problem(here->step, here->code);
    return -1;
}

void count_contexts_leave(void)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++) {
        PProfiler disable = FILLED(PProfiler, profiler, .profiler = contexts[i].profiler);
        if (contexts[i].profiler != NULL && contexts[i].context != GONE)
            RANGE(disable, disable);
        contexts[i].profiler = NULL;
        __atomic_store_n(&contexts[i].state, FAILED, __ATOMIC_RELEASE);
    }
}

void count_contexts_tend(void)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++) {
        CountContext *here = &contexts[i];
        if (!here->needs_thread)
            continue;
        prepare_once(here, IN_OUR_THREAD);
        if (count_context_is_ready(here) && !here->has_config && config_make(here) != 0) {
            count_problem(here->step, here->code);
            count_context_give_up(here);
        }
        here->needs_thread = 0;
    }
}

int count_region_start(CountContext *here)
{
    if (config_set(here, USER_RANGE, USER_REPLAY) == 0 && start(here) == 0)
        return 0;
    count_problem(here->step, here->code);
    return -1;
}

static int stop(CountContext *here, int early, double *values)
{
    PStop stop = FILLED(PStop, all_passes, .profiler = here->profiler);
    PDecode decode = FILLED(PDecode, dropped, .profiler = here->profiler);
    PEvaluate evaluate =
        FILLED(PEvaluate, values, .host = here->host, .data = here->data,
               .bytes = here->data_bytes, .range = here->first_range, .names = here->names,
               .count = here->count, .values = values);
    size_t ranges;
    int code = RANGE(stop, stop);
    if (code != 0 && early)
        return NOT_STOPPED;
    TRY("stop", code);
    TRY("decode", RANGE(decode, decode));
    if (ranges_in(here, &ranges) != 0)
        return -1;
    if (ranges == here->first_range && early)
        return NOTHING_YET;
    /* Otherwise there was a foreign kernel, or a pass is missing. */
    if (ranges != here->first_range + 1 || decode.dropped || !stop.all_passes)
        return NOT_CLEAN;
    TRY("evaluate", RANGE(evaluate, evaluate));
    count_image_keep(here, values);
    here->faults = 0;
    return COUNTED;
}

int count_stop(CountContext *here, int early, double *values)
{
    int result = stop(here, early, values);
    if (result < 0)
        count_problem(here->step, here->code);
    return result;
}

void count_write_values(const char *text, const CountContext *here, const double *values)
{
    char *line = NULL;
    size_t size = 0;
    FILE *stream = text != NULL ? open_memstream(&line, &size) : NULL;
    if (stream == NULL)
        return;
    counting_setup.has_counted = 1;
    fputs(text, stream);
    for (size_t i = 0; i < here->count; i++)
        fprintf(stream, "\t%.17g", values[i]);
    if (fclose(stream) == 0)
        count_file_line("%s", line);
    free(line);
}
