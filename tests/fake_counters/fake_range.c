/* A stand-in for libcupti.so.13 with a Range Profiler: metric number i (from 1) of a kernel
 * of `work` is work * i; gpu__time_duration.sum is 1000 * work. FAKE_RANGE makes it misbehave:
 * enable=CODE, start=CODE, initialize=CODE, host=CODE (that function answers so), twice (two ranges),
 * unknown (it does not know one of the metrics), silent (it tells nothing of calls of the driver that
 * the runtime makes), late (a range is there after its launch has ended), busy (nor can the profiler
 * be stopped before), no sass (nor does it start with metrics of that name), now and then (every other
 * start fails). Like NVIDIA's it is not to be initialized while the driver is not. Each call that adds metrics
 * takes a pass, besides the first; with "one pass" all metrics take one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../taupy/_native/cupti_range.h"
#include "../../taupy/_native/cupti_records.h"

static void (*callback)(void *, int, uint32_t, const void *);
static uint8_t enabled[4][4096];
static const char *names[256];
static size_t name_count, add_calls;
static void *profiled; /* context that is being counted */
static uint64_t works[16];
static size_t ranges;
static const uint8_t *configured;
static int user_range, pushed, in_runtime, ending;
static unsigned starts;
static size_t late; /* ranges that are not there yet */

static int asked(const char *what)
{
    const char *list = getenv("FAKE_RANGE"), *at = list != NULL ? strstr(list, what) : NULL;
    return at == NULL ? 0 : at[strlen(what)] == '=' ? atoi(at + strlen(what) + 1) : 1;
}

static void on_call(int site, int domain, uint32_t id, const char *kernel, const void *parameters,
                    void *context)
{
    CallbackData data = {.site = site, .symbol = kernel, .parameters = parameters, .context = context};
    in_runtime = domain == 2 ? site == 0 : in_runtime;
    if (domain == 1 && in_runtime && asked("silent"))
        return;
    ending = site == 1;
    if (callback != NULL && enabled[domain][id])
        callback(NULL, domain, id, &data);
    ending = 0;
    if (site == 1 && !(domain == 1 && in_runtime)) {
        ranges += late;
        late = 0;
    }
}

void fake_context_ends(void *context)
{
    struct { void *context; } data = {context};
    if (callback != NULL && enabled[3][2])
        callback(NULL, 3, 2, &data);
}

static void on_kernel(void *context, const char *kernel, uint64_t work)
{
    (void)kernel;
    if (user_range) {
        if (context == profiled && ranges == 1 && pushed)
            works[0] += work;
        return;
    }
    if (context == profiled && ranges + late < 16) {
        works[ranges + late] = work;
        *(asked("late") ? &late : &ranges) += 1;
    }
    if (context == profiled && asked("twice") && ranges < 16)
        works[ranges++] = work;
}

int cuptiGetVersion(uint32_t *version) { return *version = 130000, 0; }
int cuptiGetResultString(int code, const char **text)
{
    return *text = code == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR", 0;
}
int cuptiSubscribe(void **subscriber, void (*function)(void *, int, uint32_t, const void *), void *user)
{
    (void)user;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*connect)(void *, void *) = (void (*)(void *, void *))dlsym(driver, "fake_connect");
    connect((void *)on_call, (void *)on_kernel);
    callback = function;
    return *subscriber = (void *)1, asked("subscribe");
}
int cuptiUnsubscribe(void *subscriber) { return (void)subscriber, 0; }
int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id)
{
    (void)subscriber;
    return enabled[domain][id] = (uint8_t)enable, 0;
}
int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
    static const struct { int domain; uint32_t id; const char *name; } calls[] = {
        {1, 307, "cuLaunchKernel"}, {1, 652, "cuLaunchKernelEx"}, {1, 477, "cuLaunchCooperativeKernel"},
        {1, 514, "cuGraphLaunch"}, {2, 211, "cudaLaunchKernel_v7000"}, {2, 20, "cudaMalloc_v3020"},
    };
    *name = id < 700 ? "cuOther" : NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].domain == domain && calls[i].id == id)
            *name = calls[i].name;
    return *name == NULL;
}
/* Not used by counting, but asked for. */
int cuptiActivityRegisterCallbacks(void *a, void *b) { return (void)a, (void)b, 0; }
int cuptiActivityEnable(uint32_t kind) { return (void)kind, 0; }
int cuptiActivityDisable(uint32_t kind) { return (void)kind, 0; }
int cuptiActivityFlushAll(uint32_t flag) { return (void)flag, 0; }
int cuptiActivityGetNextRecord(uint8_t *a, size_t b, void **c) { return (void)a, (void)b, (void)c, 12; }
int cuptiActivityGetNumDroppedRecords(void *a, uint32_t b, size_t *c) { return (void)a, (void)b, *c = 0, 0; }

#define SIZED(p, type, last)                                                                       \
    if ((p)->size != offsetof(type, last) + sizeof((p)->last))                                     \
        return 1

int cuptiProfilerInitialize(PInitialize *p)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*is_ready)(void) = (int (*)(void))dlsym(driver, "fake_ready");
    SIZED(p, PInitialize, reserved);
    return is_ready() ? asked("initialize") : 15;
}
int cuptiDeviceGetChipName(PChipName *p) { SIZED(p, PChipName, name); return p->name = p->device ? "GH100" : "GA100", p->device > 1; }
int cuptiProfilerDeviceSupported(PSupported *p) { SIZED(p, PSupported, api); return p->supported = 3, 0; }
int cuptiProfilerGetCounterAvailability(PAvailability *p)
{
    SIZED(p, PAvailability, image);
    if (p->image != NULL)
        memset(p->image, 7, p->size_of_image);
    return p->size_of_image = 32, 0;
}
int cuptiProfilerHostInitialize(PHostInitialize *p)
{
    SIZED(p, PHostInitialize, host);
    name_count = add_calls = 0;
    if (asked("host"))
        return asked("host");
    return p->host = (void *)2, p->availability != NULL && p->availability[0] != 7;
}
int cuptiProfilerHostDeinitialize(PProfiler *p) { SIZED(p, PProfiler, profiler); return p->profiler != (void *)2; }
int cuptiProfilerHostGetSupportedChips(void *p) { return (void)p, 0; }
int cuptiProfilerHostConfigAddMetrics(PAddMetrics *p)
{
    SIZED(p, PAddMetrics, count);
    add_calls++;
    for (size_t i = 0; i < p->count; i++) {
        /* The launcher's questions are answered, the program's are not. */
        if (asked("unknown") && callback != NULL && strstr(p->names[i], "_op_global_ld") != NULL)
            return 1;
        names[name_count++] = p->names[i];
    }
    return 0;
}
int cuptiProfilerHostGetConfigImageSize(PImageSize *p) { SIZED(p, PImageSize, bytes); return p->bytes = 16, 0; }
int cuptiProfilerHostGetConfigImage(PImage *p) { SIZED(p, PImage, image); return memset(p->image, 9, p->bytes), 0; }
int cuptiProfilerHostGetNumOfPasses(PPasses *p) { SIZED(p, PPasses, passes); return p->passes = asked("one pass") ? 1 : 1 + add_calls, p->image[0] != 9; }
int cuptiRangeProfilerEnable(PEnable *p)
{
    static unsigned made;
    SIZED(p, PEnable, profiler);
    fprintf(stderr, "enabled %u\n", ++made);
    return p->profiler = p->context, asked("enable");
}
int cuptiRangeProfilerDisable(PProfiler *p) { SIZED(p, PProfiler, profiler); return 0; }
int cuptiRangeProfilerGetCounterDataSize(PDataSize *p) { SIZED(p, PDataSize, bytes); return p->bytes = 64, p->count == 0; }
int cuptiRangeProfilerCounterDataImageInitialize(PDataInitialize *p)
{
    SIZED(p, PDataInitialize, data);
    return memset(p->data, 5, p->bytes), 0;
}
int cuptiRangeProfilerSetConfig(PSetConfig *p)
{
    SIZED(p, PSetConfig, target_level);
    configured = p->data;
    user_range = p->range == USER_RANGE;
    return (user_range ? p->replay != USER_REPLAY : p->replay != KERNEL_REPLAY) || p->config[0] != 9 ||
           p->data[0] != 5;
}
int cuptiRangeProfilerStart(PProfiler *p)
{
    SIZED(p, PProfiler, profiler);
    if (profiled != NULL)
        return 7;
    for (size_t i = 0; i < name_count; i++)
        if (asked("no sass") && strstr(names[i], "__sass_") != NULL)
            return 27;
    if (asked("now and then") && ++starts % 2)
        return 999;
    ranges = late = 0;
    profiled = p->profiler;
    return asked("start");
}
int cuptiRangeProfilerPushRange(PPush *p)
{
    SIZED(p, PPush, name);
    works[0] = 0;
    ranges = pushed = 1;
    return strcmp(p->name, "region") != 0;
}
int cuptiRangeProfilerPopRange(PProfiler *p) { SIZED(p, PProfiler, profiler); return pushed = 0; }
int cuptiRangeProfilerStop(PStop *p)
{
    SIZED(p, PStop, all_passes);
    if (ending && asked("busy"))
        return 7;
    if (profiled != p->profiler)
        return 2;
    profiled = NULL;
    return p->all_passes = 1, 0;
}
int cuptiRangeProfilerDecodeData(PDecode *p) { SIZED(p, PDecode, dropped); return p->dropped = 0, 0; }
int cuptiRangeProfilerGetCounterDataInfo(PDataInfo *p) { SIZED(p, PDataInfo, ranges); return p->ranges = ranges, p->data != configured; }
int cuptiProfilerHostEvaluateToGpuValues(PEvaluate *p)
{
    SIZED(p, PEvaluate, values);
    for (size_t i = 0; i < p->count; i++)
        p->values[i] = strcmp(p->names[i], "gpu__time_duration.sum") == 0
                           ? 1000.0 * (double)works[p->range]
                           : (double)(works[p->range] * (i + 1));
    return 0;
}
