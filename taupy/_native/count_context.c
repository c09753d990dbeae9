#define _GNU_SOURCE
#include "count_context.h"
#include "count_file.h"
#include "count_watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS_AT_MOST 64
#define RANGES_AT_MOST 64 /* in a data image that cannot be initialised */
#define FAULTS_AT_MOST 3
#define GONE ((void *)-1) /* its address may be another's soon */
#define CACHE_CONTROL_SINCE 130400 /* CUPTI's version */
#define INVALID_OPERATION 7 /* its answer where it takes no configuration */

enum ContextState { NEW, PREPARING, READY, FAILED };

Counting counting_setup;
static CountContext contexts[CONTEXTS_AT_MOST];
static int initialized; /* cuptiProfilerInitialize was called */

void count_problem(const char *step, int code)
{
    const char *name = NULL;
    if (code != 0 && counting_setup.cupti->result_string != NULL)
        counting_setup.cupti->result_string(code, &name);
    count_file_line("error\t%s\t%d\t%s", step, code, name != NULL ? name : "");
}

#define TRY(what, call)                                                                            \
    if ((here->code = (call)) != 0) {                                                              \
        here->step = what;                                                                         \
        return -1;                                                                                 \
    }
#define RANGE(function, parameters) counting_setup.range->function(&(parameters))

/* ---------------------------------------------------------------- metrics */

/* The metrics of a chip, from the launcher's file: a line "chip NAME METRIC METRIC ...". */
static const char **metrics_of(const char *chip, size_t *count)
{
    char path[4096], *line = NULL, *rest, *word;
    size_t room = 0;
    const char **names = calloc(METRICS_AT_MOST, sizeof *names);
    snprintf(path, sizeof path, "%s/gpu.counters", counting_setup.run_folder);
    FILE *file = fopen(path, "re");
    *count = 0;
    while (file != NULL && names != NULL && getline(&line, &room, file) > 0) {
        word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, "chip") != 0)
            continue;
        word = strtok_r(NULL, " \n", &rest);
        if (word == NULL || strcmp(word, chip) != 0)
            continue;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL && *count < METRICS_AT_MOST)
            names[(*count)++] = strdup(word);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return names;
}

static void host_close(CountContext *here)
{
    PProfiler old = FILLED(PProfiler, profiler, .profiler = here->host);
    if (here->host != NULL)
        RANGE(host_deinitialize, old);
    here->host = NULL;
}

static int host_open(CountContext *here, const char *chip, const uint8_t *availability)
{
    PHostInitialize initialize = FILLED(PHostInitialize, host, .type = RANGE_PROFILER,
                                        .chip = chip, .availability = availability);
    host_close(here);
    int code = RANGE(host_initialize, initialize);
    here->host = code == 0 ? initialize.host : NULL;
    return code;
}

static int host_add(CountContext *here, size_t first, size_t count)
{
    PAddMetrics add = FILLED(PAddMetrics, count, .host = here->host, .names = &here->names[first],
                             .count = count);
    return RANGE(add_metrics, add);
}

int count_add_metrics(CountContext *here, const char *chip, const uint8_t *availability)
{
    size_t kept = 0;
    int code = host_open(here, chip, availability);
    if (code != 0 || (code = host_add(here, 0, here->count)) == 0)
        return code;
    for (size_t i = 0; i < here->count; i++) {
        if ((code = host_open(here, chip, availability)) != 0)
            return code;
        if (host_add(here, i, 1) == 0)
            here->names[kept++] = here->names[i];
        else
            count_file_text("missing", here->names[i], "");
    }
    here->count = kept;
    if ((code = host_open(here, chip, availability)) != 0)
        return code;
    return kept ? host_add(here, 0, kept) : 1;
}

/* ---------------------------------------------------------------- its configuration */

static int data_initialize(CountContext *here)
{
    PDataInitialize data = FILLED(PDataInitialize, data, .profiler = here->profiler,
                                  .bytes = here->data_bytes, .data = here->data);
    return RANGE(data_initialize, data);
}

static int set_config(CountContext *here, int range, int replay)
{
    PSetConfig config = FILLED(
        PSetConfig, target_level, .profiler = here->profiler, .config_bytes = here->config_bytes,
        .config = here->config, .data_bytes = here->data_bytes, .data = here->data,
        .range = range, .replay = replay, .ranges = RANGES_AT_MOST, .levels = 1, .least_level = 1,
        .target_level = 1);
    here->has_config = 0;
    TRY("counter data", data_initialize(here));
    TRY("set configuration", RANGE(set_config, config));
    here->has_config = 1;
    return 0;
}

static int enable(CountContext *here)
{
    PEnable enable = FILLED(PEnable, profiler, .context = here->context,
                            .cache_control = CACHES_LEFT_ALONE);
    if (counting_setup.cupti->version >= CACHE_CONTROL_SINCE)
        enable.size = offsetof(PEnable, cache_control) + sizeof enable.cache_control;
    if (here->profiler != NULL)
        return 0;
    TRY("enable", RANGE(enable, enable));
    here->profiler = enable.profiler;
    return 0;
}

/* What is to be counted becomes a configuration, and room for its results. */
static int configure(CountContext *here)
{
    TRY("metrics", count_add_metrics(here, here->chip, here->availability));
    PImageSize size = FILLED(PImageSize, bytes, .host = here->host);
    TRY("configuration", RANGE(image_size, size));
    here->config_bytes = size.bytes;
    free(here->config);
    here->config = calloc(1, size.bytes);
    PImage image = FILLED(PImage, image, .host = here->host, .bytes = size.bytes,
                          .image = here->config);
    TRY("configuration", here->config == NULL ? 8 : RANGE(image, image));
    PPasses passes = FILLED(PPasses, passes, .bytes = here->config_bytes, .image = here->config);
    TRY("passes", RANGE(passes, passes));
    if (enable(here) != 0)
        return -1;
    PDataSize data = FILLED(PDataSize, bytes, .profiler = here->profiler, .names = here->names,
                            .count = here->count, .ranges = RANGES_AT_MOST,
                            .nodes = RANGES_AT_MOST);
    TRY("counter data", RANGE(data_size, data));
    here->data_bytes = data.bytes;
    free(here->data);
    here->data = calloc(1, data.bytes);
    TRY("counter data", here->data == NULL ? 8 : 0);
    if (!counting_setup.by_region && set_config(here, AUTO_RANGE, KERNEL_REPLAY) != 0)
        return -1;
    char *names = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&names, &length);
    for (size_t i = 0; text != NULL && i < here->count; i++)
        fprintf(text, "\t%s", here->names[i]);
    if (text != NULL && fclose(text) == 0)
        count_file_line("device\t%d\t%s\t%zu%s", here->device, here->chip, passes.passes, names);
    free(names);
    return 0;
}

/* Some counters are made by code that CUPTI puts into kernels, all others by the hardware. Where
 * the profiler does not start with the former, the latter are counted. Anything left? */
static int leave_out_sass(CountContext *here)
{
    size_t kept = 0;
    if (here->reduced)
        return 0;
    here->reduced = 1;
    for (size_t i = 0; i < here->count; i++)
        if (strstr(here->names[i], "__sass_") == NULL)
            here->names[kept++] = here->names[i];
    if (kept == 0 || kept == here->count)
        return 0;
    count_file_text("reduced", here->chip, "");
    here->count = kept;
    return 1;
}

static void note_support(CountContext *here)
{
    PSupported supported = FILLED(PSupported, api, .device = here->device, .api = RANGE_PROFILER);
    char text[128];
    if (RANGE(supported, supported) != 0 || supported.supported == 3)
        return;
    snprintf(text, sizeof text, "vgpu %d confidential %d cmp %d wsl %d sli %d", supported.vgpu,
             supported.confidential, supported.cmp, supported.wsl, supported.sli);
    count_file_text("unsupported", here->chip, text);
}

static int find_chip(CountContext *here)
{
    PChipName chip = FILLED(PChipName, name, .device = (size_t)here->device);
    TRY("chip name", RANGE(chip_name, chip));
    here->names = metrics_of(chip.name, &here->count);
    here->chip = strdup(chip.name);
    TRY("chip name", here->names == NULL || here->chip == NULL ? 8 : 0);
    note_support(here);
    return 0;
}

static int find_availability(CountContext *here)
{
    PAvailability available = FILLED(PAvailability, image, .context = here->context);
    TRY("availability", RANGE(availability, available));
    uint8_t *image = calloc(1, available.size_of_image);
    TRY("availability", image == NULL ? 8 : 0);
    available.image = image;
    if ((here->code = RANGE(availability, available)) != 0) {
        here->step = "availability";
        free(image);
        return -1;
    }
    here->availability = image;
    return 0;
}

/* What was done already, by a try that failed later, is not done again. */
static int prepare(CountContext *here)
{
    PInitialize initialize = FILLED(PInitialize, reserved, .reserved = NULL);
    if (!initialized) /* not before the driver is ready, which it is not when it loads us */
        TRY("initialize", RANGE(initialize, initialize));
    initialized = 1;
    if (here->chip == NULL && find_chip(here) != 0)
        return -1;
    if (here->count == 0) {
        here->step = NULL;
        return -1;
    }
    if (here->availability == NULL && find_availability(here) != 0)
        return -1;
    return configure(here);
}

/* ---------------------------------------------------------------- which one */

/* Its place, found or made; NULL: there are too many. */
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
    int current = 0;
    if (counting_setup.cupti->device_of != NULL &&
        counting_setup.cupti->device_of(context, &device) == 0)
        return (int)device;
    return counting_setup.current_device != NULL && counting_setup.current_device(&current) == 0
               ? current
               : 0;
}

static void write_problem(const CountContext *here)
{
    if (here->step != NULL)
        count_problem(here->step, here->code);
    else
        count_file_text("no metrics", here->chip != NULL ? here->chip : "?", "");
}

enum Moment { AT_CREATION, AT_LAUNCH, IN_OUR_THREAD };

/* What a try that failed leaves: another one, or none. */
static int state_after(CountContext *here, enum Moment moment)
{
    int may_be_elsewhere = here->step != NULL && here->code == INVALID_OPERATION;
    if (moment == AT_CREATION && here->step != NULL) {
        here->first_step = here->step;
        here->first_code = here->code;
        return NEW;
    }
    if (moment == AT_LAUNCH && may_be_elsewhere && here->first_code == INVALID_OPERATION) {
        here->needs_thread = 1;
        count_watch_wake();
        return NEW;
    }
    if (moment == AT_LAUNCH && may_be_elsewhere && here->first_code != 0) {
        here->step = here->first_step; /* which says more */
        here->code = here->first_code;
    }
    write_problem(here);
    return FAILED;
}

/* One thread at a time; others count nothing in it meanwhile. */
static void prepare_once(CountContext *here, enum Moment moment)
{
    int expected = NEW;
    if ((here->needs_thread && moment != IN_OUR_THREAD) ||
        !__atomic_compare_exchange_n(&here->state, &expected, PREPARING, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    if (moment != IN_OUR_THREAD)
        here->device = device_of(here->context);
    int state = prepare(here) == 0 ? READY : state_after(here, moment);
    __atomic_store_n(&here->state, state, __ATOMIC_RELEASE);
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
    CountContext *here = context != NULL ? place_of(context) : NULL; /* NULL: the call makes one */
    if (here == NULL)
        return NULL;
    prepare_once(here, AT_LAUNCH);
    return __atomic_load_n(&here->state, __ATOMIC_ACQUIRE) != FAILED ? here : NULL;
}

int count_context_is_ready(const CountContext *here)
{
    return __atomic_load_n(&here->state, __ATOMIC_ACQUIRE) == READY;
}

void count_context_give_up(CountContext *here)
{
    __atomic_store_n(&here->state, FAILED, __ATOMIC_RELEASE);
}

void count_context_fault(CountContext *here)
{
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

/* With the configuration that CUPTI holds. */
static int start_again(CountContext *here)
{
    if (!here->keeps_ranges && data_initialize(here) != 0)
        here->keeps_ranges = 1;
    return start(here);
}

/* Where CUPTI takes no configuration from within a launch, our thread gives it one. */
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
        if (set_config(here, AUTO_RANGE, KERNEL_REPLAY) == 0)
            return start(here);
        here->has_config = here->code == INVALID_OPERATION; /* the old one still stands */
        here->step = step;
        here->code = code;
        return -1;
    }
    if (set_config(here, AUTO_RANGE, KERNEL_REPLAY) == 0)
        return start(here);
    return here->code == INVALID_OPERATION ? wait_for_thread(here) : -1;
}

int count_kernel_start(CountContext *here)
{
    int result = start_kernel(here);
    if (result >= 0)
        return result;
    count_problem(here->step, here->code);
    if (here->faults != 0 || !leave_out_sass(here))
        return -1;
    if (configure(here) == 0)
        return start_kernel(here);
    if (here->code == INVALID_OPERATION)
        return wait_for_thread(here);
    count_problem(here->step, here->code);
    return -1;
}

void count_contexts_tend(void)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++) {
        CountContext *here = &contexts[i];
        if (!here->needs_thread)
            continue;
        prepare_once(here, IN_OUR_THREAD);
        if (count_context_is_ready(here) && !here->has_config && configure(here) != 0) {
            count_problem(here->step, here->code);
            count_context_give_up(here);
        }
        here->needs_thread = 0;
    }
}

int count_region_start(CountContext *here)
{
    if (set_config(here, USER_RANGE, USER_REPLAY) == 0 && start(here) == 0)
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
    /* Else somebody else's kernel, or a pass that is missing. */
    if (ranges != here->first_range + 1 || decode.dropped || !stop.all_passes)
        return NOT_CLEAN;
    TRY("evaluate", RANGE(evaluate, evaluate));
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
