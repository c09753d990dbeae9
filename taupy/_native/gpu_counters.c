/* Hardware counters of kernels: CUPTI's Range Profiler, without Python.
 *
 * This library replaces the collector of kernels and copies (cupti.c) in a separate run mode: the
 * driver loads it at the first cuInit. For each kernel, by name, grid and launching call path, the
 * first N launches are counted: the profiler is started before the launch and stopped after it, so
 * there is exactly one range, which belongs to this launch. The kernel is rerun as many times as
 * its counters need passes, with its memory saved and restored in between (kernel replay). Kernels
 * that cannot be rerun or run alone are not counted but named. Only one launch is counted at a
 * time; other threads' launches wait for it. The result is text in the run folder, one line per
 * launch.
 *
 * Where CUPTI refuses to count at all (another tool holds the counters), the collector takes over
 * CUPTI's callbacks before the first launch runs: kernels are then timed, without counters.
 *
 * Alternatively, whole regions (`taupy.region`) are counted, including everything the GPU does in
 * them. Nothing is rerun then, so only counters that fit into one pass are available. */
#define _GNU_SOURCE
#include "captures.h"
#include "count_context.h"
#include "count_file.h"
#include "count_kernel.h"
#include "count_region.h"
#include "count_watch.h"
#include "cupti_library.h"
#include "cupti_records.h"
#include "engine_host.h"
#include "mapped.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define IDS_AT_MOST 4096
#define STATES_AT_MOST 8
#define TAKES_AT_MOST_MS 10000 /* until the collector has begun */
#define ALONE_AFTER_MS 20 /* a launch takes some microseconds */

int clock_uses_tsc; /* needed by clock.h; not used here */

static Cupti cupti;
static RangeProfiler range;
static const GpuHost *host;
static void *subscriber;
static int began, closed = 1;
static unsigned launches_each = 3;
static uint8_t interest[3][IDS_AT_MOST]; /* a LaunchKind, or CAPTURES */
#define CAPTURES 255

/* A launching API call from start to end; a driver call made by a runtime call is part of it. */
typedef struct Open {
    int depth, ours; /* ours: we are calling CUPTI, and what it launches is not the program's */
    int has_right;   /* may launch while others wait */
    int is_uncounted; /* is launching without that right */
    int is_undecided, is_refused; /* the driver has not seen it yet; it was refused */
    CountContext *counting; /* the context whose profiler is running */
    Key *key;
} Open;
static __thread Open open_call;

/* A runtime call launches through a driver call: the profiler is started there, as in NVIDIA's own
 * examples, unless CUPTI turns out not to report such driver calls. */
static int driver_speaks, driver_is_silent;
/* If the end of a launch is too early to stop the profiler, the start of the next launch does
 * it. */
static int end_is_early;
static CountContext *pending;
static Key *pending_key;

static unsigned launched; /* launches that have ended; atomic */
static int uncounted; /* launches under way that are not counted, whose kernels may run; atomic */

/* ---------------------------------------------------------------- one launch */

/* COUNTED, or another value of that enum; the key's line is written. */
static int end_kernel(CountContext *here, Key *key, int early)
{
    double values[METRICS_AT_MOST];
    int result = count_stop(here, early, values);
    char *text = key_text(result == COUNTED ? "count" : "doubtful", key);
    if (result == COUNTED) {
        count_write_values(text, here, values);
        key->counted++;
    } else if (result == NOT_CLEAN && text != NULL)
        count_file_line("%s", text);
    free(text);
    return result == NOT_CLEAN ? COUNTED : result; /* this one is finished */
}

static void refuse(const char *why, const char *kernel)
{
    static const LaunchShape none;
    Key *key = key_of(kernel, 0, -1, &none);
    if (key != NULL && key->tried++ == 0)
        count_file_line("refused\t%s\t%s", kernel, why);
}

/* Whether the kernel was seen waiting for others. */
static int is_refused(const char *kernel)
{
    static const LaunchShape none;
    Key *key = key_of(kernel, 0, -1, &none);
    return key != NULL && key->tried > 0;
}

/* Stop the profiler and discard what it counted. */
static void discard(CountContext *here)
{
    double values[METRICS_AT_MOST];
    if (count_stop(here, 1, values) != NOT_STOPPED)
        return;
    pending = here;
    pending_key = NULL;
}

static void settle(void)
{
    CountContext *here = pending;
    pending = NULL;
    if (here == NULL || !count_context_is_ready(here))
        return;
    if (pending_key == NULL)
        discard(here);
    else if (end_kernel(here, pending_key, 0) != COUNTED)
        count_context_fault(here);
}

/* The key of a launch that may be counted, else NULL. */
static Key *countable(enum LaunchKind kind, int domain, const CallbackData *call,
                      CountContext **where)
{
    if (closed)
        return NULL;
    LaunchShape shape = launch_shape(kind == GRAPH ? NO_LAUNCH : kind, domain,
                                     kind == GRAPH ? NULL : call->parameters);
    /* For a library's kernel handle, the runtime's callback has no name, but the driver's has. */
    const char *kernel = call->symbol != NULL ? call->symbol : "(a kernel without a name)";
    if (kind == GRAPH || captures_under_way()) {
        refuse("graph", "CUDA graphs"); /* of a captured one: recorded in the graph, not run */
        return NULL;
    }
    if (kind == COOPERATIVE || shape.cooperative || communicates(kernel)) {
        refuse(communicates(kernel) ? "communication" : "cooperative", kernel);
        return NULL;
    }
    if (is_refused(kernel) || (*where = count_context(call->context)) == NULL)
        return NULL;
    return key_of(kernel, host->place().launch, (*where)->device, &shape);
}

/* Whether no uncounted launch is under way. Those of other threads end soon, unless they block: new
 * ones need the right to launch, which the caller has. */
static int is_alone(void)
{
    for (int i = 0; __atomic_load_n(&uncounted, __ATOMIC_ACQUIRE) != 0; i++) {
        if (i == ALONE_AFTER_MS * 10)
            return 0;
        usleep(100);
    }
    return 1;
}

static void decide(enum LaunchKind kind, int domain, const CallbackData *call)
{
    CountContext *here = NULL;
    Key *key = countable(kind, domain, call, &here);
    if (key == NULL)
        return;
    int started = key->tried < launches_each && count_context_is_ready(here) &&
                          is_alone()
                      ? count_kernel_start(here)
                      : 1;
    if (started > 0) {
        key->passed_over++;
        return;
    }
    key->tried++;
    if (started < 0) {
        count_context_fault(here);
        return;
    }
    open_call.counting = here;
    open_call.key = key;
    count_watch_begins(key->kernel);
}

/* A launch that is not counted holds up no other one, however long it blocks. */
static void let_go(Open *open)
{
    open->is_uncounted = 1;
    __atomic_add_fetch(&uncounted, 1, __ATOMIC_RELEASE);
    open->has_right = 0;
    count_give();
}

static void launch_begins(enum LaunchKind kind, int domain, const CallbackData *call)
{
    Open *open = &open_call;
    int is_final = domain == DOMAIN_DRIVER || driver_is_silent;
    open->counting = NULL;
    open->has_right = open->is_refused = open->is_undecided = open->is_uncounted = 0;
    if (!is_final && driver_speaks) {
        open->is_undecided = 1; /* the driver's call will decide */
        return;
    }
    open->has_right = count_take(); /* held until the launch ends, if it is counted */
    if (!open->has_right)
        return;
    settle();
    if (is_final)
        decide(kind, domain, call);
    else
        open->is_undecided = 1;
    if (is_final && open->counting == NULL)
        let_go(open);
}

/* The driver's call, made by the runtime's. */
static void driver_begins(enum LaunchKind kind, int domain, const CallbackData *call)
{
    Open *open = &open_call;
    open->is_undecided = 0;
    if (!open->has_right && !(open->has_right = count_take()))
        return;
    settle();
    driver_speaks = 1;
    decide(kind, domain, call);
    if (open->counting == NULL)
        let_go(open);
}

/* This launch could not be counted: count a later one instead. */
static void pass_over(Key *key)
{
    key->tried--;
    key->passed_over++;
}

static void end_counting(CountContext *here, Key *key, int refused)
{
    if (count_watch_ends()) { /* other threads' kernels have run meanwhile */
        discard(here);
        refuse("communication", key->kernel);
        pass_over(key);
        return;
    }
    if (refused) { /* no kernel was run */
        discard(here);
        key->tried--;
        return;
    }
    if (end_is_early) {
        pending = here;
        pending_key = key;
        return;
    }
    int result = end_kernel(here, key, 1);
    end_is_early = result == NOTHING_YET || result == NOT_STOPPED;
    if (result == NOT_STOPPED) {
        pending = here;
        pending_key = key;
    } else if (result == NOTHING_YET)
        pass_over(key);
    else if (result != COUNTED)
        count_context_fault(here);
}

static void launch_ends(enum LaunchKind kind, int domain, const CallbackData *call)
{
    Open *open = &open_call;
    if (open->is_uncounted)
        __atomic_sub_fetch(&uncounted, 1, __ATOMIC_RELEASE);
    if (!open->has_right)
        return;
    if (open->counting != NULL)
        end_counting(open->counting, open->key, open->is_refused);
    else if (open->is_undecided && !open->is_refused && !driver_speaks) {
        CountContext *here = NULL;
        driver_is_silent = 1;
        Key *key = countable(kind, domain, call, &here);
        if (key != NULL)
            key->passed_over++;
    }
    open->counting = NULL;
    count_give();
}

static void launch_call(enum LaunchKind kind, int domain, const CallbackData *call)
{
    Open *open = &open_call;
    if (call->site == 0) {
        if (open->depth++ == 0)
            launch_begins(kind, domain, call);
        else if (open->is_undecided && domain == DOMAIN_DRIVER)
            driver_begins(kind, domain, call);
        return;
    }
    if (open->depth == 0)
        return;
    open->is_refused |= call->result != NULL && *(const int *)call->result != 0;
    if (--open->depth == 0) {
        __atomic_add_fetch(&launched, 1, __ATOMIC_RELAXED);
        launch_ends(kind, domain, call);
    }
}

static void capture_call(const CallbackData *call)
{
    if (call->site != 0)
        captures_hear(call->function, call->parameters,
                      call->result != NULL ? *(const int *)call->result : 0);
}

/* CUPTI's own errors, which no function returns. Called on any thread, possibly under any lock. */
static void note_state(uint32_t id, const StateData *state)
{
    static int noted;
    if (id == STATE_FATAL)
        __atomic_store_n(&counting_setup.has_given_up, 1, __ATOMIC_RELEASE);
    if (__atomic_fetch_add(&noted, 1, __ATOMIC_RELAXED) >= STATES_AT_MOST)
        return;
    char where[64];
    snprintf(where, sizeof where, "%s\t%d", state_name(id), state->result);
    count_file_text("state", where, state->message != NULL ? state->message : "");
}

/* ---------------------------------------------------------------- without counters */

static int may_time; /* kernels may be timed instead */
static int is_refused_all; /* nothing has been counted, and CUPTI refuses to; atomic */
static CollectorCallback *taken; /* by the collector: its callback; atomic */
static int is_over; /* it has, or cannot; atomic */

static int refused(void)
{
    if (!may_time || counting_setup.has_counted)
        return 0;
    __atomic_store_n(&is_refused_all, 1, __ATOMIC_RELEASE);
    return 1;
}

/* The collector's function, from the library beside this one. */
static CollectorTakes *collector_takes(void)
{
    static const char own[] = "/gpu_counters.";
    char path[4200];
    Dl_info here;
    if (dladdr((void *)collector_takes, &here) == 0)
        return NULL;
    const char *at = strstr(here.dli_fname, own);
    if (at == NULL || (size_t)snprintf(path, sizeof path, "%.*s/cupti.%s",
                                       (int)(at - here.dli_fname), here.dli_fname,
                                       at + sizeof own - 1) >= sizeof path)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? (CollectorTakes *)dlsym(library, COLLECTOR_TAKES) : NULL;
}

static void hand_over(void)
{
    static int is_tried;
    if (__atomic_exchange_n(&is_tried, 1, __ATOMIC_ACQ_REL)) { /* no launch is to be lost */
        for (int i = 0; i < TAKES_AT_MOST_MS && !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); i++)
            usleep(1000);
        return;
    }
    CollectorTakes *takes = collector_takes();
    closed = 1;
    count_regions_end();
    ((GpuHost *)host)->region = NULL;
    count_contexts_leave();
    CollectorCallback *callback = takes != NULL ? takes((GpuHost *)host, subscriber) : NULL;
    if (callback == NULL)
        count_file_line("no times");
    else if (launched == 0)
        count_file_line("times");
    else
        count_file_line("times later\t%u", launched);
    count_file_line("ended\t\t");
    __atomic_store_n(&taken, callback, __ATOMIC_RELEASE);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
}

static void on_callback(void *user, int domain, uint32_t id, const void *data)
{
    CollectorCallback *other = __atomic_load_n(&taken, __ATOMIC_ACQUIRE);
    if (other != NULL) {
        other(user, domain, id, data);
        return;
    }
    if (domain == DOMAIN_STATE && began > 0) /* also during startup */
        note_state(id, data);
    if (began != 1 || id >= IDS_AT_MOST || open_call.ours)
        return;
    int saved = errno;
    open_call.ours = 1;
    if (domain == DOMAIN_RESOURCE && id == RESOURCE_CONTEXT_CREATED)
        count_context_created(((const ResourceData *)data)->context);
    else if (domain == DOMAIN_RESOURCE && id == RESOURCE_CONTEXT_DESTROY)
        count_context_gone(((const ResourceData *)data)->context);
    else if ((domain == DOMAIN_DRIVER || domain == DOMAIN_RUNTIME) &&
             interest[domain][id] == CAPTURES)
        capture_call(data);
    else if (!counting_setup.by_region && (domain == DOMAIN_DRIVER || domain == DOMAIN_RUNTIME) &&
             interest[domain][id] != NO_LAUNCH)
        launch_call(interest[domain][id], domain, data);
    if (__builtin_expect(__atomic_load_n(&is_refused_all, __ATOMIC_ACQUIRE), 0))
        hand_over();
    open_call.ours = 0;
    errno = saved;
    other = __atomic_load_n(&taken, __ATOMIC_ACQUIRE);
    if (other != NULL) /* this very launch is its first */
        other(user, domain, id, data);
}

/* ---------------------------------------------------------------- begin and end */

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
            interest[domain][id] = captures_by(name) ? CAPTURES : (uint8_t)launch_kind(name);
            if (interest[domain][id] == NO_LAUNCH)
                continue;
            if ((code = cupti.enable_callback(1, subscriber, domain, id)) != 0)
                return code;
        }
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_DESTROY);
    for (uint32_t id = STATE_FATAL; id <= STATE_WARNING; id++)
        cupti.enable_callback(1, subscriber, DOMAIN_STATE, id);
    return code;
}

static void read_settings(void)
{
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/gpu.counters", host->run_folder);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "launches %u", &launches_each) != 1 && strncmp(line, "regions", 7) == 0)
            counting_setup.by_region = 1;
        else if (strncmp(line, "times", 5) == 0)
            may_time = 1;
    if (file != NULL)
        fclose(file);
}

/* Stop counting, and write how often each kernel was launched. */
static void end(int last)
{
    if (began != 1 || !last)
        return;
    int has_right = count_take();
    open_call.ours = 1;
    if (has_right)
        settle();
    open_call.ours = 0;
    closed = 1;
    count_regions_end();
    keys_write();
    if (count_unwatched() != 0)
        count_file_line("unwatched\t%llu", (unsigned long long)count_unwatched());
    count_file_line("ended\t\t");
    began = 2;
    if (has_right)
        count_give();
}

static void forked(void)
{
    began = -1; /* the file, locks and GPU belong to the parent */
    if (host != NULL)
        ((GpuHost *)host)->region = NULL;
    count_file_forget();
}

/* libcupti opens libnvperf_host.so by its bare name, and might find a different version: load the
 * matching one first. */
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
    if (asking == NULL || asking->version != GPU_HOST_VERSION || !host_read(asking, enabled) ||
        asking->run_folder == NULL ||
        !__atomic_compare_exchange_n(&began, &expected, 3, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    host = asking;
    host_write(asking, tried, 1);
    snprintf(path, sizeof path, "%s/%ld-%llx.gpucount", host->run_folder, (long)getpid(),
             (unsigned long long)host->part_start());
    if (count_file_open(path) != 0)
        return;
    counting_setup = (Counting){.cupti = &cupti, .range = &range, .run_folder = host->run_folder,
                                .save_folder = host->save_folder, .refused = refused};
    if (cupti_open(&cupti, host->libraries, text, sizeof text) != 0) {
        count_file_text("open", "", text);
        return;
    }
    count_file_line("cupti\t%s\t%u\t%d", cupti.path, cupti.version, cupti.driver);
    open_own_nvperf();
    const char *absent = range_functions(&range, cupti.handle);
    if (absent != NULL) {
        count_file_text("open", "", absent);
        return;
    }
    read_settings();
    count_watch_setup(host->end_ms, count_contexts_tend);
    if ((code = cupti.subscribe(&subscriber, on_callback, NULL)) != 0)
        count_problem("subscribe", code);
    else if ((code = choose_callbacks()) != 0)
        count_problem("callbacks", code);
    else {
        began = 1;
        closed = 0;
        host_write(asking, forked, forked);
        host_write(asking, end, end);
        if (counting_setup.by_region)
            count_regions_begin(asking, open_mapped("libcuda.so"));
    }
}

/* The driver calls this from the program's first cuInit: the program continues in any case. */
EXPORT int InitializeInjection(void)
{
    int saved = errno;
    begin(engine_host());
    errno = saved;
    return 1;
}

EXPORT void taupy_gpu_begin(GpuHost *asking)
{
    int saved = errno;
    begin(asking);
    errno = saved;
}
