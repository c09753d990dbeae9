/* Hardware counters of kernels: the Range Profiler of CUPTI, without Python.
 *
 * This library stands in for the collector of kernels and copies (cupti.c) in a run of its own
 * mode: the driver loads it at the first cuInit. Of each kernel, by name, grid and launching
 * call path, the first N launches are counted: the profiler is started before the launch
 * and stopped after it, so that there is one range, and no doubt whose it is. The kernel is
 * run as often as its counters need passes, its memory saved and restored in between (kernel
 * replay). Kernels that cannot be run again or alone are left alone, and named.
 *
 * One launch at a time: while one is counted, other threads' launches wait. The result is
 * text, a line a launch, in the run folder.
 *
 * Or whole regions are counted (`taupy.region`), all that the GPU does in them: then nothing
 * is run again, so that only what one pass can count is counted. */
#define _GNU_SOURCE
#include "clock.h"
#include "cupti_library.h"
#include "cupti_range.h"
#include "cupti_records.h"
#include "gpu_host.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CONTEXTS_AT_MOST 64
#define METRICS_AT_MOST 256
#define FAULTS_AT_MOST 3
#define IDS_AT_MOST 4096

int clock_uses_tsc; /* of clock.h; not used here */

enum Interest { NO_LAUNCH, LAUNCH, LAUNCH_BY_CONFIG, COOPERATIVE, GRAPH };

typedef struct Context {
    void *context;
    int device, failed;
    int faults;  /* launches in a row that could not be counted */
    int reduced; /* what CUPTI counts by changed code is left out */
    const char *chip;
    uint8_t *availability;
    void *profiler, *host;
    uint8_t *config, *data;
    size_t config_bytes, data_bytes;
    const char **names;
    size_t count;
} Context;

typedef struct Key { /* of launches that are alike */
    uint64_t hash, node;
    char *kernel;
    uint32_t grid[3], block[3];
    int device;
    uint64_t seen, counted; /* launches that were tried, and that went well */
    uint64_t total;         /* and that could not be tried */
    struct Key *next;
} Key;

static Cupti cupti;
static RangeProfiler range;
static const GpuHost *host;
static void *subscriber;
static FILE *output;
static int began, closed = 1;
static unsigned launches_each = 3;
static uint8_t interest[3][IDS_AT_MOST];
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;
static Context contexts[CONTEXTS_AT_MOST];
static Key *keys[4096];
static __thread int depth;
static __thread int ours; /* we are calling CUPTI: what it launches is not the program's */
static __thread Context *chosen;   /* of a launch that is to be counted, from its beginning on */
static __thread Context *counting; /* and whose profiler is started */
static __thread Key *counted_key;
static int initialized;            /* cuptiProfilerInitialize was called */
/* A runtime call launches by a call of the driver: the profiler is started there, as NVIDIA's own
 * examples do, unless CUPTI turns out to tell nothing of such calls. */
static int driver_is_silent;
/* Where a launch's end is too early to stop the profiler, the next launch's beginning does. */
static int end_is_early;
static Context *pending;
static Key *pending_key;
static int by_region;          /* count regions, not kernels */
static Context *region_here;   /* of the region that is being counted */
static pthread_t region_thread;
static int region_depth;       /* regions open in that thread */
static int (*context_current)(void **), (*context_synchronize)(void);
static int (*context_device)(int *);
static int (*stream_capturing)(void *, int *);

/* ---------------------------------------------------------------- what is written */

static void say(const char *what, const char *name, const char *text)
{
    if (output != NULL) {
        fprintf(output, "%s\t%s\t", what, name);
        for (; *text; text++)
            fputc(*text == '\t' || *text == '\n' ? ' ' : *text, output);
        fputc('\n', output);
        fflush(output);
    }
}

static void failed(const char *step, int code)
{
    char text[512];
    const char *name = NULL;
    if (code != 0 && cupti.result_string != NULL)
        cupti.result_string(code, &name);
    snprintf(text, sizeof text, "%d\t%s", code, name != NULL ? name : "");
    if (output != NULL) {
        fprintf(output, "error\t%s\t%s\n", step, text);
        fflush(output);
    }
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9E3779B97F4A7C15ull;
}

static Key *key_of(const char *kernel, uint64_t node, int device, const uint32_t *grid,
                   const uint32_t *block)
{
    uint64_t hash = mixed(mixed(0, node), (uint64_t)device);
    for (const char *c = kernel; *c; c++)
        hash = mixed(hash, (unsigned char)*c);
    for (int i = 0; i < 3; i++)
        hash = mixed(mixed(hash, grid[i]), block[i]);
    hash ^= hash >> 29;
    Key **slot = &keys[hash % (sizeof keys / sizeof *keys)];
    for (Key *key = *slot; key != NULL; key = key->next)
        if (key->hash == hash && key->node == node && key->device == device &&
            memcmp(key->grid, grid, sizeof key->grid) == 0 &&
            memcmp(key->block, block, sizeof key->block) == 0 && strcmp(key->kernel, kernel) == 0)
            return key;
    Key *key = calloc(1, sizeof *key);
    if (key == NULL || (key->kernel = strdup(kernel)) == NULL) {
        free(key);
        return NULL;
    }
    key->hash = hash;
    key->node = node;
    key->device = device;
    memcpy(key->grid, grid, sizeof key->grid);
    memcpy(key->block, block, sizeof key->block);
    key->next = *slot;
    return *slot = key;
}

static void write_key(const char *what, const Key *key)
{
    fprintf(output, "%s\t%d\t%llx\t%u,%u,%u\t%u,%u,%u\t%s", what, key->device,
            (unsigned long long)key->node, key->grid[0], key->grid[1], key->grid[2], key->block[0],
            key->block[1], key->block[2], key->kernel);
}

/* ---------------------------------------------------------------- one context */

/* The metrics of a chip, from the launcher's file: a line "chip NAME METRIC METRIC ...". */
static const char **metrics_of(const char *chip, size_t *count)
{
    char path[4096], *line = NULL, *rest, *word;
    size_t room = 0;
    const char **names = calloc(METRICS_AT_MOST, sizeof *names);
    snprintf(path, sizeof path, "%s/gpu.counters", host->run_folder);
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

static int host_open(Context *here, const char *chip, const uint8_t *availability)
{
    PHostInitialize initialize = FILLED(PHostInitialize, host, .type = RANGE_PROFILER,
                                        .chip = chip, .availability = availability);
    int code = range.host_initialize(&initialize);
    here->host = initialize.host;
    return code;
}

static void host_close(Context *here)
{
    PProfiler old = FILLED(PProfiler, profiler, .profiler = here->host);
    range.host_deinitialize(&old);
    here->host = NULL;
}

static int host_add(Context *here, size_t first, size_t count)
{
    PAddMetrics add = FILLED(PAddMetrics, count, .host = here->host, .names = &here->names[first],
                             .count = count);
    return range.add_metrics(&add);
}

/* All metrics must be added by one call: what several calls add shares no pass, ten metrics
 * would take ten (CUPTI 13.0, measured). Where one is unknown all are refused as a wrong
 * argument; then each is tried alone, in an object of its own, so that it can be named. */
static int add_metrics(Context *here, const char *chip, const uint8_t *availability)
{
    size_t kept = 0;
    int code = host_open(here, chip, availability);
    if (code != 0 || (code = host_add(here, 0, here->count)) == 0)
        return code;
    for (size_t i = 0; i < here->count; i++) {
        host_close(here);
        if ((code = host_open(here, chip, availability)) != 0)
            return code;
        if (host_add(here, i, 1) == 0)
            here->names[kept++] = here->names[i];
        else
            say("missing", here->names[i], "");
    }
    here->count = kept;
    host_close(here);
    if ((code = host_open(here, chip, availability)) != 0)
        return code;
    return kept ? host_add(here, 0, kept) : 1;
}

#define TRY(step, call)                                                                            \
    if ((code = (call)) != 0) {                                                                    \
        failed(step, code);                                                                        \
        return -1;                                                                                 \
    }

/* What is to be counted becomes a configuration, and room for its results. */
static int context_configure(Context *here)
{
    int code;
    TRY("metrics", add_metrics(here, here->chip, here->availability));
    PImageSize size = FILLED(PImageSize, bytes, .host = here->host);
    TRY("configuration", range.image_size(&size));
    here->config_bytes = size.bytes;
    free(here->config);
    here->config = calloc(1, size.bytes);
    PImage image = FILLED(PImage, image, .host = here->host, .bytes = size.bytes,
                          .image = here->config);
    TRY("configuration", here->config == NULL ? 8 : range.image(&image));
    PPasses passes =
        FILLED(PPasses, passes, .bytes = here->config_bytes, .image = here->config);
    TRY("passes", range.passes(&passes));
    if (here->profiler == NULL) {
        PEnable enable = FILLED(PEnable, profiler, .context = here->context);
        TRY("enable", range.enable(&enable));
        here->profiler = enable.profiler;
    }
    PDataSize data = FILLED(PDataSize, bytes, .profiler = here->profiler, .names = here->names,
                            .count = here->count, .ranges = 8, .nodes = 8);
    TRY("counter data", range.data_size(&data));
    here->data_bytes = data.bytes;
    free(here->data);
    here->data = calloc(1, data.bytes);
    if (here->data == NULL)
        return -1;
    fprintf(output, "device\t%d\t%s\t%zu", here->device, here->chip, passes.passes);
    for (size_t i = 0; i < here->count; i++)
        fprintf(output, "\t%s", here->names[i]);
    fputc('\n', output);
    fflush(output);
    return 0;
}

/* Some counters are made by code that CUPTI puts into kernels, all others by the hardware. Where
 * the profiler does not start with the former, the latter are counted. Anything left? */
static int context_reduce(Context *here)
{
    size_t kept = 0;
    if (here->reduced || by_region)
        return 0;
    here->reduced = 1;
    for (size_t i = 0; i < here->count; i++)
        if (strstr(here->names[i], "__sass_") == NULL)
            here->names[kept++] = here->names[i];
    if (kept == 0 || kept == here->count)
        return 0;
    say("reduced", here->chip, "");
    here->count = kept;
    host_close(here);
    return context_configure(here) == 0;
}

static int context_prepare(Context *here)
{
    int code;
    PInitialize initialize = FILLED(PInitialize, reserved, .reserved = NULL);
    if (!initialized) /* not before the driver is ready, which it is not when it loads us */
        TRY("initialize", range.initialize(&initialize));
    initialized = 1;
    PChipName chip = FILLED(PChipName, name, .device = (size_t)here->device);
    PAvailability available = FILLED(PAvailability, image, .context = here->context);
    TRY("chip name", range.chip_name(&chip));
    PSupported supported = FILLED(PSupported, api, .device = here->device, .api = RANGE_PROFILER);
    if (range.supported(&supported) == 0 && supported.supported != 3) {
        char text[128];
        snprintf(text, sizeof text, "vgpu %d confidential %d cmp %d wsl %d sli %d",
                 supported.vgpu, supported.confidential, supported.cmp, supported.wsl,
                 supported.sli);
        say("unsupported", chip.name, text);
    }
    here->chip = strdup(chip.name);
    here->names = metrics_of(chip.name, &here->count);
    if (here->chip == NULL || here->names == NULL || here->count == 0) {
        say("no metrics", chip.name, "");
        return -1;
    }
    TRY("availability", range.availability(&available));
    available.image = here->availability = calloc(1, available.size_of_image);
    if (available.image == NULL)
        return -1;
    TRY("availability", range.availability(&available));
    return context_configure(here);
}

/* A launch went wrong: the next ones are tried, but not for ever. */
static void fault(Context *here)
{
    here->failed = ++here->faults >= FAULTS_AT_MOST;
}

#define GONE ((void *)-1)

static Context *context_of(void *which)
{
    if (which == NULL) /* a call that will make one */
        return NULL;
    for (int i = 0; i < CONTEXTS_AT_MOST; i++) {
        Context *here = &contexts[i];
        if (here->context == which)
            return here->failed ? NULL : here;
        if (here->context == NULL) {
            here->context = which;
            if (context_device == NULL || context_device(&here->device) != 0)
                here->device = 0;
            here->failed = context_prepare(here) != 0;
            return here->failed ? NULL : here;
        }
    }
    return NULL;
}

/* Its address may be another's soon. CUPTI may hold locks of its own: none of ours is taken. */
static void context_ends(const ResourceData *resource)
{
    for (int i = 0; i < CONTEXTS_AT_MOST; i++)
        if (__atomic_load_n(&contexts[i].context, __ATOMIC_ACQUIRE) == resource->context) {
            __atomic_store_n(&contexts[i].failed, 1, __ATOMIC_RELEASE);
            __atomic_store_n(&contexts[i].context, GONE, __ATOMIC_RELEASE);
        }
}

/* ---------------------------------------------------------------- one launch */

static int count_begin(Context *here, int what, int replay)
{
    int code;
    PDataInitialize data = FILLED(PDataInitialize, data, .profiler = here->profiler,
                                  .bytes = here->data_bytes, .data = here->data);
    PSetConfig config = FILLED(
        PSetConfig, target_level, .profiler = here->profiler, .config_bytes = here->config_bytes,
        .config = here->config, .data_bytes = here->data_bytes, .data = here->data,
        .range = what, .replay = replay, .ranges = 8, .levels = 1, .least_level = 1,
        .target_level = 1);
    PProfiler start = FILLED(PProfiler, profiler, .profiler = here->profiler);
    TRY("counter data", range.data_initialize(&data));
    TRY("set configuration", range.set_config(&config));
    TRY("start", range.start(&start));
    return 0;
}

enum { COUNTED = 0, NOTHING_YET = 1, NOT_STOPPED = 2 }; /* or -1 */

/* `region`: a place in the program instead of a kernel. `early`: there may be nothing yet. */
static int count_end(Context *here, Key *key, uint64_t region, int early)
{
    int code;
    double values[METRICS_AT_MOST];
    PStop stop = FILLED(PStop, all_passes, .profiler = here->profiler);
    PDecode decode = FILLED(PDecode, dropped, .profiler = here->profiler);
    PDataInfo info = FILLED(PDataInfo, ranges, .data = here->data, .bytes = here->data_bytes);
    PEvaluate evaluate =
        FILLED(PEvaluate, values, .host = here->host, .data = here->data,
               .bytes = here->data_bytes, .names = here->names, .count = here->count,
               .values = values);
    code = range.stop(&stop);
    if (code != 0 && early)
        return NOT_STOPPED;
    TRY("stop", code);
    TRY("decode", range.decode(&decode));
    TRY("counter data", range.data_info(&info));
    if (info.ranges == 0 && early)
        return NOTHING_YET;
    if (info.ranges != 1 || decode.dropped || !stop.all_passes) {
        if (key != NULL) /* somebody else's kernel, or a pass that is missing */
            write_key("doubtful", key);
        else
            fprintf(output, "region doubtful");
        fputc('\n', output);
        return 0;
    }
    TRY("evaluate", range.evaluate(&evaluate));
    if (key != NULL)
        write_key("count", key);
    else
        fprintf(output, "region\t%d\t%llx", here->device, (unsigned long long)region);
    for (size_t i = 0; i < here->count; i++)
        fprintf(output, "\t%.17g", values[i]);
    fputc('\n', output);
    fflush(output);
    if (key != NULL)
        key->counted++;
    here->faults = 0;
    return 0;
}

typedef struct LaunchShape {
    uint32_t grid[3], block[3];
    void *stream;
    int cooperative;
} LaunchShape;

/* cuLaunchKernel and cudaLaunchKernel begin alike: a pointer, then grid and block; those with
 * a configuration have it behind their first pointer, whose attributes are 72 bytes each. */
static LaunchShape shape_of(int kind, int domain, const uint8_t *parameters)
{
    LaunchShape shape = {{0}, {0}, NULL, 0};
    if (parameters == NULL)
        return shape;
    if (kind == LAUNCH_BY_CONFIG) {
        const uint8_t *config = *(const uint8_t *const *)parameters;
        if (config == NULL)
            return shape;
        memcpy(shape.grid, config, 12);
        memcpy(shape.block, config + 12, 12);
        shape.stream = *(void *const *)(config + 32);
        const uint8_t *attribute = *(const uint8_t *const *)(config + 40);
        for (uint32_t i = 0; attribute != NULL && i < *(const uint32_t *)(config + 48); i++)
            if (*(const uint32_t *)(attribute + 72 * i) == 2 /* cooperative */)
                shape.cooperative = *(const int *)(attribute + 72 * i + 8);
        return shape;
    }
    memcpy(shape.grid, parameters + 8, 12);
    memcpy(shape.block, parameters + 20, 12);
    shape.stream = *(void *const *)(parameters + (domain == DOMAIN_DRIVER ? 40 : 48));
    return shape;
}

/* Kernels of communication wait for each other: run one by one they would for ever. */
static int communicates(const char *kernel)
{
    return strstr(kernel, "nccl") != NULL || strstr(kernel, "nvshmem") != NULL;
}

static void refuse(const char *why, const char *kernel)
{
    static const uint32_t none[3];
    Key *key = key_of(kernel, 0, -1, none, none);
    if (key != NULL && key->seen++ == 0)
        say("refused", kernel, why);
}

static void start_counting(void)
{
    if (count_begin(chosen, AUTO_RANGE, KERNEL_REPLAY) == 0 ||
        (chosen->faults == 0 && context_reduce(chosen) &&
         count_begin(chosen, AUTO_RANGE, KERNEL_REPLAY) == 0)) {
        counting = chosen;
        return;
    }
    fault(chosen);
    chosen = NULL;
}

static void settle(void)
{
    Context *here = pending;
    pending = NULL;
    if (here != NULL && !here->failed && count_end(here, pending_key, 0, 0) != COUNTED)
        fault(here);
}

static void launch_begins(int kind, int domain, const CallbackData *call)
{
    const char *kernel = call->symbol != NULL ? call->symbol : "(a kernel without a name)";
    pthread_mutex_lock(&launching); /* until it ends */
    counting = chosen = NULL;
    settle();
    if (closed)
        return;
    if (kind == GRAPH || kind == COOPERATIVE) {
        refuse(kind == GRAPH ? "graph" : "cooperative", kind == GRAPH ? "CUDA graphs" : kernel);
        return;
    }
    LaunchShape shape = shape_of(kind, domain, call->parameters);
    int capturing = 0;
    if (shape.cooperative || communicates(kernel)) {
        refuse(shape.cooperative ? "cooperative" : "communication", kernel);
        return;
    }
    if (stream_capturing != NULL && (stream_capturing(shape.stream, &capturing) != 0 || capturing)) {
        refuse("graph", "CUDA graphs"); /* noted, not run */
        return;
    }
    Context *here = context_of(call->context);
    if (here == NULL)
        return;
    GpuPlace place = host->place();
    Key *key = key_of(kernel, place.launch, here->device, shape.grid, shape.block);
    if (key == NULL || key->seen++ >= launches_each)
        return;
    chosen = here;
    counted_key = key;
    if (domain == DOMAIN_DRIVER || driver_is_silent)
        start_counting();
}

static void launch_ends(void)
{
    Context *here = counting;
    if (here == NULL && chosen != NULL && !chosen->failed) {
        driver_is_silent = 1;
        counted_key->seen--; /* it would have been counted: another is */
        counted_key->total++;
    }
    if (here != NULL && end_is_early) {
        pending = here;
        pending_key = counted_key;
    } else if (here != NULL) {
        int found = count_end(here, counted_key, 0, 1);
        end_is_early = found == NOTHING_YET || found == NOT_STOPPED;
        if (found == NOT_STOPPED) {
            pending = here;
            pending_key = counted_key;
        } else if (found == NOTHING_YET) {
            counted_key->seen--;
            counted_key->total++;
        } else if (found != COUNTED)
            fault(here);
    }
    counting = chosen = NULL;
    pthread_mutex_unlock(&launching);
}

static void on_callback(void *user, int domain, uint32_t id, const void *data)
{
    (void)user;
    if (began != 1 || ours || id >= IDS_AT_MOST)
        return;
    if (domain == DOMAIN_RESOURCE && id == RESOURCE_CONTEXT_DESTROY)
        context_ends(data);
    if (by_region || (domain != DOMAIN_DRIVER && domain != DOMAIN_RUNTIME))
        return;
    int kind = interest[domain][id], saved = errno;
    if (kind == NO_LAUNCH)
        return;
    const CallbackData *call = data;
    ours = 1;
    if (call->site == 0) {
        if (depth++ == 0)
            launch_begins(kind, domain, call);
        else if (chosen != NULL && counting == NULL && !chosen->failed)
            start_counting(); /* the runtime calls the driver */
    } else if (depth != 0 && --depth == 0)
        launch_ends();
    ours = 0;
    errno = saved;
}

/* ---------------------------------------------------------------- one region */

static int region_begins(void)
{
    int code;
    void *context = NULL;
    if (context_current == NULL || context_current(&context) != 0 || context == NULL)
        return -1; /* nothing has been launched by this thread yet */
    Context *here = context_of(context);
    if (here == NULL)
        return -1;
    if (context_synchronize != NULL)
        context_synchronize(); /* what was launched before is not the region's */
    PPush push = FILLED(PPush, name, .profiler = here->profiler, .name = "region");
    if (count_begin(here, USER_RANGE, USER_REPLAY) != 0) {
        here->failed = 1;
        return -1;
    }
    TRY("push", range.push(&push));
    region_here = here;
    return 0;
}

static int region_ends(void)
{
    int code;
    Context *here = region_here;
    region_here = NULL;
    if (context_synchronize != NULL)
        context_synchronize();
    PProfiler pop = FILLED(PProfiler, profiler, .profiler = here->profiler);
    TRY("pop", range.pop(&pop));
    return count_end(here, NULL, host->place().launch, 0);
}

/* Of nested regions the outermost is counted, of those of several threads the first. */
static void region(int begins)
{
    if (began != 1 || closed)
        return;
    pthread_mutex_lock(&launching);
    if (region_depth == 0 && begins) {
        region_thread = pthread_self();
        region_depth = 1;
        region_begins();
    } else if (region_depth != 0 && pthread_equal(region_thread, pthread_self())) {
        region_depth += begins ? 1 : -1;
        if (region_depth == 0 && region_here != NULL && region_ends() != 0 && region_here != NULL)
            region_here->failed = 1;
    }
    pthread_mutex_unlock(&launching);
}

/* ---------------------------------------------------------------- begin and end */

static int interest_in(const char *name)
{
    const char *plain = name + strspn(name, "_");
    plain += strncmp(plain, "cuda", 4) == 0 ? 4 : 2;
    if (strncmp(plain, "GraphLaunch", 11) == 0)
        return GRAPH;
    if (strncmp(plain, "LaunchCooperative", 17) == 0)
        return COOPERATIVE;
    if (strncmp(plain, "LaunchKernelEx", 14) == 0)
        return LAUNCH_BY_CONFIG;
    return strncmp(plain, "LaunchKernel", 12) == 0 ? LAUNCH : NO_LAUNCH;
}

static int choose_callbacks(void)
{
    int code = 0;
    for (int domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++)
        for (uint32_t id = 1, missing = 0; id < IDS_AT_MOST && missing < 64; id++) {
            const char *name = NULL;
            if (cupti.callback_name(domain, id, &name) != 0 || name == NULL) {
                missing++;
                continue;
            }
            missing = 0;
            if ((interest[domain][id] = (uint8_t)interest_in(name)) == NO_LAUNCH)
                continue;
            if ((code = cupti.enable_callback(1, subscriber, domain, id)) != 0)
                return code;
        }
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_DESTROY);
    return code;
}

static void read_settings(void)
{
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/gpu.counters", host->run_folder);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "launches %u", &launches_each) != 1 && strncmp(line, "regions", 7) == 0)
            by_region = 1;
    if (file != NULL)
        fclose(file);
}

/* Stops counting, and writes how often each kernel was launched. */
static void end(int last)
{
    if (began != 1 || !last)
        return;
    pthread_mutex_lock(&launching);
    ours = 1;
    settle();
    ours = 0;
    closed = 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (Key *key = keys[i]; key != NULL; key = key->next) {
            write_key("seen", key);
            fprintf(output, "\t%llu\n", (unsigned long long)(key->seen + key->total));
        }
    fprintf(output, "ended\t\t\n");
    fflush(output);
    began = 2;
    pthread_mutex_unlock(&launching);
}

static void forked(void)
{
    began = -1; /* the file, the locks and the GPU are the parent's */
    if (host != NULL)
        ((GpuHost *)host)->region = NULL;
    output = NULL;
}

/* libcupti opens libnvperf_host.so by its bare name, and might find another version's. */
static void open_own_nvperf(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s", cupti.path);
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        strcpy(slash + 1, "libnvperf_host.so");
        dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
}

static void begin(GpuHost *asking)
{
    char text[8192], path[4200];
    int expected = 0, code;
    if (asking == NULL || asking->version != GPU_HOST_VERSION || !asking->enabled ||
        asking->run_folder == NULL ||
        !__atomic_compare_exchange_n(&began, &expected, 3, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    host = asking;
    asking->tried = 1;
    snprintf(path, sizeof path, "%s/%ld-%llx.gpucount", host->run_folder, (long)getpid(),
             (unsigned long long)host->part_start());
    if ((output = fopen(path, "wxe")) == NULL)
        return;
    if (cupti_open(&cupti, host->libraries, text, sizeof text) != 0) {
        say("open", "", text);
        return;
    }
    snprintf(text, sizeof text, "%u\t%d", cupti.version, cupti.driver);
    fprintf(output, "cupti\t%s\t%s\n", cupti.path, text);
    open_own_nvperf();
    const char *absent = range_functions(&range, cupti.handle);
    if (absent != NULL) {
        say("open", "", absent);
        return;
    }
    void *driver = open_mapped("libcuda.so");
    if (driver != NULL) {
        context_device = (int (*)(int *))dlsym(driver, "cuCtxGetDevice");
        context_current = (int (*)(void **))dlsym(driver, "cuCtxGetCurrent");
        context_synchronize = (int (*)(void))dlsym(driver, "cuCtxSynchronize");
        stream_capturing = (int (*)(void *, int *))dlsym(driver, "cuStreamIsCapturing");
    }
    read_settings();
    if ((code = cupti.subscribe(&subscriber, on_callback, NULL)) != 0)
        failed("subscribe", code);
    else if ((code = choose_callbacks()) != 0)
        failed("callbacks", code);
    else {
        began = 1;
        closed = 0;
        asking->end = end;
        asking->forked = forked;
        asking->region = by_region ? region : NULL;
    }
}

static int match_engine(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
    if (slash == NULL || strncmp(slash + 1, "engine.", 7) != 0 ||
        strstr(info->dlpi_name, "/_native/") == NULL || strlen(info->dlpi_name) >= 4096)
        return 0;
    strcpy(found, info->dlpi_name);
    return 1;
}

/* The driver calls this from the program's first cuInit: the program goes on whatever
 * happens here. */
EXPORT int InitializeInjection(void)
{
    char path[4096];
    int saved = errno;
    if (dl_iterate_phdr(match_engine, path)) {
        void *engine = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        begin(engine != NULL ? dlsym(engine, GPU_HOST_SYMBOL) : NULL);
    }
    errno = saved;
    return 1;
}

EXPORT void taupy_gpu_begin(GpuHost *asking)
{
    int saved = errno;
    begin(asking);
    errno = saved;
}
