/* Feeds saved buffers, or hand-made records, through the same path as CUPTI's, without a GPU or a
 * driver: for tests, fixtures and benchmarks. */
#define _GNU_SOURCE
#include "collector.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_interest.h"
#include "cupti_records.h"
#include "cupti_worker.h"
#include <dlfcn.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int replay_version;

static int own_next_record(uint8_t *buffer, size_t valid, void **record)
{
    uint8_t *at = *record == NULL ? buffer : *record;
    if (*record != NULL) {
        size_t size = record_size(*(uint32_t *)at, replay_version);
        if (size == 0)
            return 21; /* CUPTI_ERROR_INVALID_KIND */
        at += size;
    }
    if ((size_t)(at - buffer) + sizeof(uint32_t) > valid)
        return CUPTI_MAX_LIMIT_REACHED;
    size_t size = record_size(*(uint32_t *)at, replay_version);
    if (size == 0 || (size_t)(at - buffer) + size > valid)
        return size == 0 ? 21 : CUPTI_MAX_LIMIT_REACHED;
    *record = at;
    return 0;
}

static uint64_t no_part(void) { return collector.part->start_ticks; }
static GpuPlace replay_place;
static GpuPlace place_of_replay(void) { return replay_place; }
static size_t nothing_dropped;
static int no_dropped(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    *count = nothing_dropped;
    return 0;
}

/* Start summing up into a part in `folder`. `library`: a libcupti whose decoder reads the records;
 * NULL: our own decoder, for records of CUDA version `cuda` (1206 for 12.6). */
EXPORT int taupy_gpu_replay_begin(const char *folder, const char *library, int cuda, int trace)
{
    static GpuHost replayed;
    if (collector.began != 0)
        return -1;
    collector.began = 3;
    replayed = (GpuHost){.version = GPU_HOST_VERSION, .enabled = 1, .run_folder = folder,
                         .trace = (uint32_t)trace, .place = place_of_replay,
                         .part_start = no_part};
    collector.host = calls.host = &replayed;
    collector.cupti.next_record = own_next_record;
    collector.cupti.dropped_records = no_dropped;
    replay_version = cuda;
    calls.worker_begun = 1; /* the caller sums up the records */
    if (library != NULL) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        *(void **)&collector.cupti.next_record =
            handle != NULL ? dlsym(handle, "cuptiActivityGetNextRecord") : NULL;
        if (collector.cupti.next_record == NULL)
            return -2;
    }
    worker_prepare();
    if (collector_begin_sums(folder) != 0)
        return -3;
    collector.sums.counters->state = GPU_RUNNING;
    __atomic_store_n(&calls.closed, 0, __ATOMIC_RELEASE);
    return 0;
}

/* API calls, each from start to end, at a given call path; correlation ids increase by one. */
EXPORT void taupy_gpu_replay_calls(int domain, uint32_t id, uint32_t correlation, uint32_t count,
                                   uint64_t at, uint64_t launch)
{
    CallbackData data = {0};
    replay_place = (GpuPlace){at, launch};
    calls.interest[domain][id] = CALL_OF_INTEREST | CALL_LAUNCHES;
    for (uint32_t i = 0; i < count; i++) {
        data.correlation = correlation + i;
        data.site = 0;
        calls_on_callback(NULL, domain, id, &data);
        data.site = 1;
        calls_on_callback(NULL, domain, id, &data);
    }
}

/* Process records from memory through a buffer, like CUPTI's; 0 if they do not fit. */
EXPORT size_t taupy_gpu_replay_records(const uint8_t *records, size_t size)
{
    uint8_t *buffer;
    size_t room, most;
    buffers_requested(&buffer, &room, &most);
    if (buffer == NULL || size > room)
        return 0;
    memcpy(buffer, records, size);
    buffers_completed(NULL, 0, buffer, room, size);
    buffers_drain();
    return size;
}

EXPORT void taupy_gpu_replay_end(void)
{
    worker_housekeeping();
    trace_flush(&collector.sums.trace);
    __atomic_store_n(&calls.closed, 1, __ATOMIC_RELEASE);
    collector.sums.counters->state = GPU_ENDED;
    collector.part->state = PART_ENDED;
    part_save(collector.part);
}
