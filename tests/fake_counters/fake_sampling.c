/* The PM Sampling half of a stand-in for libcupti; tests/fake_gpu plays the rest.
 *
 * Samples follow each other from the start on, at the interval asked for (a cycle is a
 * nanosecond). In sample n (from 0), metric number i (from 1) is 10 * i + n % 2; where its name
 * ends in .sum it is 1000 * i; sample 0 is far off, as NVIDIA says. FAKE_PM makes it misbehave: enable=CODE, config=CODE, start=CODE,
 * decode=CODE (that function answers so), most=N (N metrics fit into a pass), full (the
 * hardware's buffer is full once, ten samples are lost), clock (stamps count from 0), context
 * (a context is needed), time=27 (a number of nanoseconds is refused), slow (the first answer
 * takes half a second), fast (a thousand samples for each one asked for). FAKE_CHIPS: chips of the devices. Metrics with "sass", "nvl" or
 * "_op_global_" in their names are unknown. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../../taupy/_native/cupti_range.h"

typedef struct { HEAD; void *object; size_t config_bytes; const uint8_t *config; size_t buffer_bytes; uint64_t interval; int trigger, append; } SSetConfig;
typedef struct { HEAD; size_t device; void *object; } SEnable;
typedef struct { HEAD; void *object; } SObject;
typedef struct { HEAD; void *object; const char **names; size_t count; uint32_t samples; size_t bytes; } SDataSize;
typedef struct { HEAD; void *object; size_t bytes; uint8_t *data; } SDataInitialize;
typedef struct { HEAD; void *object; uint8_t *data; size_t bytes; int reason; uint8_t overflow; } SDecode;
typedef struct { HEAD; const uint8_t *data; size_t bytes, total, populated, completed; } SDataInfo;
typedef struct { HEAD; void *object; const uint8_t *data; size_t bytes, index; uint64_t start, end; } SSampleInfo;

typedef struct { uint64_t magic, capacity, count, first, began, interval; } Image;
#define MAGIC 0x5A4D504Cull

typedef struct {
    int enabled, runs, lost;
    uint64_t interval, began, next;
    const uint8_t *config;
} Device;
static Device devices[8];
static size_t host_metrics[64];
static int hosts;

static int asked(const char *what)
{
    const char *list = getenv("FAKE_PM"), *at = list != NULL ? strstr(list, what) : NULL;
    return at == NULL ? 0 : at[strlen(what)] == '=' ? atoi(at + strlen(what) + 1) : 1;
}

static uint64_t now(void)
{
    struct timespec it;
    clock_gettime(asked("clock") ? CLOCK_MONOTONIC : CLOCK_REALTIME, &it);
    return (uint64_t)it.tv_sec * 1000000000u + (uint64_t)it.tv_nsec;
}

#define SIZED(p, type, last)                                                                       \
    if ((p)->size != offsetof(type, last) + sizeof((p)->last))                                     \
        return 1

int cuptiProfilerInitialize(PInitialize *p) { SIZED(p, PInitialize, reserved); return 0; }
int cuptiDeviceGetChipName(PChipName *p)
{
    static char names[8][16];
    const char *chips = getenv("FAKE_CHIPS");
    SIZED(p, PChipName, name);
    for (size_t i = 0; chips != NULL && i < p->device; i++)
        chips = strchr(chips, ',') != NULL ? strchr(chips, ',') + 1 : NULL;
    if (p->device > 7 || (p->device > 0 && chips == NULL))
        return 1;
    snprintf(names[p->device], sizeof *names, "%.*s", chips ? (int)strcspn(chips, ",") : 5,
             chips != NULL ? chips : "GH100");
    return p->name = names[p->device], 0;
}
int cuptiProfilerHostGetSupportedChips(void *p) { return (void)p, 0; }
int cuptiProfilerHostInitialize(PHostInitialize *p)
{
    SIZED(p, PHostInitialize, host);
    if (strncmp(p->chip, "GV", 2) == 0)
        return 27;
    host_metrics[++hosts % 64] = 0;
    return p->host = (void *)(uintptr_t)(hosts % 64 + 64), p->type != 1;
}
int cuptiProfilerHostDeinitialize(PProfiler *p) { SIZED(p, PProfiler, profiler); return 0; }
int cuptiProfilerHostConfigAddMetrics(PAddMetrics *p)
{
    SIZED(p, PAddMetrics, count);
    for (size_t i = 0; i < p->count; i++)
        if (strstr(p->names[i], "sass") != NULL || strstr(p->names[i], "nvl") != NULL ||
            strstr(p->names[i], "_op_global_") != NULL)
            return 1;
    host_metrics[(uintptr_t)p->host - 64] += p->count;
    return 0;
}
int cuptiProfilerHostGetConfigImageSize(PImageSize *p) { SIZED(p, PImageSize, bytes); return p->bytes = 16, 0; }
int cuptiProfilerHostGetConfigImage(PImage *p)
{
    SIZED(p, PImage, image);
    return memcpy(p->image, &host_metrics[(uintptr_t)p->host - 64], sizeof(size_t)), 0;
}
int cuptiProfilerHostGetNumOfPasses(PPasses *p)
{
    size_t metrics;
    SIZED(p, PPasses, passes);
    memcpy(&metrics, p->image, sizeof metrics);
    size_t most = asked("most") ? (size_t)asked("most") : 1000;
    return p->passes = (metrics + most - 1) / most, 0;
}

int cuptiPmSamplingEnable(SEnable *p)
{
    SIZED(p, SEnable, object);
    int (*contexts)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "fake_contexts");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (contexts == NULL && driver != NULL)
        contexts = (int (*)(void))dlsym(driver, "fake_contexts");
    if (asked("context") && (contexts == NULL || contexts() == 0))
        return 3;
    if (asked("slow"))
        usleep(500000);
    if (asked("enable") || p->device > 7 || devices[p->device].enabled++)
        return asked("enable") ? asked("enable") : 7;
    return p->object = &devices[p->device], 0;
}
int cuptiPmSamplingSetConfig(SSetConfig *p)
{
    SIZED(p, SSetConfig, append);
    Device *it = p->object;
    it->interval = asked("fast") ? p->interval / 1000 : p->interval;
    it->config = p->config;
    if (p->trigger == 1 && asked("time"))
        return asked("time");
    return p->config_bytes != 16 || p->buffer_bytes < 1 << 20 ? 1 : asked("config");
}
int cuptiPmSamplingStart(SObject *p)
{
    SIZED(p, SObject, object);
    Device *it = p->object;
    if (it->runs)
        return 7;
    if (!it->began)
        it->began = it->next = now();
    it->runs = 1;
    return asked("start");
}
int cuptiPmSamplingStop(SObject *p)
{
    SIZED(p, SObject, object);
    Device *it = p->object;
    return it->runs ? (it->runs = 0) : 7;
}
int cuptiPmSamplingDisable(SObject *p)
{
    SIZED(p, SObject, object);
    ((Device *)p->object)->enabled = 0;
    return 0;
}
int cuptiPmSamplingGetCounterDataSize(SDataSize *p)
{
    SIZED(p, SDataSize, bytes);
    return p->bytes = sizeof(Image) + p->samples, p->count == 0 || p->names[0] == NULL;
}
int cuptiPmSamplingCounterDataImageInitialize(SDataInitialize *p)
{
    SIZED(p, SDataInitialize, data);
    *(Image *)p->data = (Image){MAGIC, p->bytes - sizeof(Image), 0, 0, 0, 0};
    return 0;
}
int cuptiPmSamplingDecodeData(SDecode *p)
{
    SIZED(p, SDecode, overflow);
    Device *it = p->object;
    Image *image = (Image *)p->data;
    size_t metrics;
    memcpy(&metrics, it->config, sizeof metrics); /* it must still be there */
    if (image->magic != MAGIC || image->count != 0 || metrics == 0 || metrics > 256)
        return 1;
    if (asked("decode"))
        return asked("decode");
    *image = (Image){MAGIC, image->capacity, 0, (it->next - it->began) / it->interval, it->began,
                     it->interval};
    while (image->count < image->capacity && it->next + it->interval <= now()) {
        it->next += it->interval;
        image->count++;
    }
    p->reason = image->count == image->capacity ? 1 : 2;
    p->overflow = 0;
    if (asked("full") && !it->lost && image->count > 0) {
        it->lost = 1;
        it->next += 10 * it->interval;
        return 8;
    }
    return 0;
}
int cuptiPmSamplingGetCounterDataInfo(SDataInfo *p)
{
    SIZED(p, SDataInfo, completed);
    const Image *image = (const Image *)p->data;
    p->total = image->capacity;
    p->populated = p->completed = image->count;
    return image->magic != MAGIC;
}
int cuptiPmSamplingCounterDataGetSampleInfo(SSampleInfo *p)
{
    SIZED(p, SSampleInfo, end);
    const Image *image = (const Image *)p->data;
    p->start = image->began + (image->first + p->index) * image->interval;
    p->end = p->start + image->interval;
    return p->index >= image->count;
}
int cuptiProfilerHostEvaluateToGpuValues(PEvaluate *p)
{
    SIZED(p, PEvaluate, values);
    const Image *image = (const Image *)p->data;
    for (size_t i = 0; i < p->count && image->first + p->range == 0; i++)
        p->values[i] = 1e15;
    for (size_t i = 0; i < p->count && image->first + p->range != 0; i++) {
        size_t length = strlen(p->names[i]);
        int sum = length > 4 && strcmp(p->names[i] + length - 4, ".sum") == 0;
        p->values[i] = sum ? 1000.0 * (double)(i + 1)
                           : 10.0 * (double)(i + 1) + (double)((image->first + p->range) % 2);
    }
    return image->magic != MAGIC || p->range >= image->count;
}
