/* What happens in the program's own threads: CUPTI calls us at the beginning and the end of
 * each call of CUDA's API. No lock, no allocation, no system call but once a thread.
 *
 * At the beginning the call-path node is noted under the call's correlation id, by which
 * records of kernels and copies find it; at the end the call's time is added to its row. */
#ifndef TAUPY_CUPTI_CALLS_H
#define TAUPY_CUPTI_CALLS_H

#include "clock.h"
#include "cupti_records.h"
#include "gpu_host.h"
#include "gpu_part.h"
#include "native_ranges.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Correlation id -> node, for the last two million calls: 16 MiB of addresses, of which
 * only what is used becomes memory. A word: node >> 6 | high bits of the id << 42 | valid. */
#define RING_BITS 21
#define RING_VALID (1ull << 63)
#define RING_HIGH_BITS (32 - RING_BITS)
#define NODE_BITS 42

#define FIRST_TABLE 1024
#define PROBES 64
#define IDS_AT_MOST 4096

enum { CALL_OF_INTEREST = 1, CALL_LAUNCHES = 2, CALL_MANAGED = 4, CALL_LOADS = 8 };

typedef struct CallTable {
    uint64_t mask;
    GpuCall *calls;
    uint64_t used; /* by callers, atomically */
} CallTable;

typedef struct Calls {
    const GpuHost *host;
    GpuCounters *counters;
    uint64_t *ring;
    CallTable *table; /* the newest; older ones only rest in the part */
    GpuThread *threads;
    uint64_t thread_count;
    uint8_t interest[3][IDS_AT_MOST];
    void *contexts[64];
} Calls;

typedef struct OpenCall {
    uint64_t start, place; /* place: what stands in GpuCall.key for the node */
    uint32_t depth;
    uint32_t thread; /* number of a thread without routines, 0: none yet */
    uint32_t ours;   /* the collector's own thread */
} OpenCall;

static Calls calls;
static volatile int calls_closed = 1; /* callbacks do nothing */
static int worker_begun; /* the thread that sums up */
static void begin_worker(void);
static void begin_unified_memory(void);
static __thread OpenCall open_call __attribute__((tls_model("initial-exec")));

static inline void ring_put(uint64_t *ring, uint32_t correlation, uint64_t node)
{
    uint64_t word = RING_VALID | (uint64_t)(correlation >> RING_BITS) << NODE_BITS | node >> 6;
    __atomic_store_n(&ring[correlation & ((1u << RING_BITS) - 1)], word, __ATOMIC_RELEASE);
}

static uint64_t ring_get(uint32_t correlation, int *known)
{
    uint64_t word = __atomic_load_n(&calls.ring[correlation & ((1u << RING_BITS) - 1)],
                                    __ATOMIC_ACQUIRE);
    uint64_t high = word >> NODE_BITS & ((1u << RING_HIGH_BITS) - 1);
    *known = (word & RING_VALID) && high == correlation >> RING_BITS;
    return *known ? (word & ((1ull << NODE_BITS) - 1)) << 6 : 0;
}

static uint64_t thread_place(OpenCall *open)
{
    if (open->thread == 0) {
        int saved = errno;
        uint64_t number = __atomic_add_fetch(&calls.thread_count, 1, __ATOMIC_RELAXED);
        if (number >= GPU_THREADS_AT_MOST)
            number = GPU_THREADS_AT_MOST - 1; /* they share the last one */
        GpuThread *thread = &calls.threads[number];
        prctl(PR_GET_NAME, thread->name);
        thread->native_id = (uint64_t)syscall(SYS_gettid);
        open->thread = (uint32_t)number;
        errno = saved;
    }
    return open->thread;
}

static void call_add(uint64_t key, uint64_t ticks)
{
    CallTable *table = __atomic_load_n(&calls.table, __ATOMIC_ACQUIRE);
    uint64_t i = (key * 0x9E3779B97F4A7C15ull >> 20) & table->mask;
    for (int probe = 0; probe < PROBES; probe++, i = (i + 1) & table->mask) {
        GpuCall *call = &table->calls[i];
        uint64_t there = __atomic_load_n(&call->key, __ATOMIC_RELAXED);
        if (there == 0 && __atomic_compare_exchange_n(&call->key, &there, key, 0, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
            __atomic_add_fetch(&table->used, 1, __ATOMIC_RELAXED);
            there = key;
        }
        if (there == key) {
            __atomic_add_fetch(&call->calls, 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&call->ticks, ticks, __ATOMIC_RELAXED);
            return;
        }
    }
    __atomic_add_fetch(&calls.counters->calls_lost, 1, __ATOMIC_RELAXED);
}

static void context_event(uint32_t id, const ResourceData *resource)
{
    void *from = id == RESOURCE_CONTEXT_CREATED ? NULL : resource->context;
    void *to = id == RESOURCE_CONTEXT_CREATED ? resource->context : NULL;
    for (size_t i = 0; i < sizeof calls.contexts / sizeof *calls.contexts; i++) {
        void *expected = from;
        if (__atomic_compare_exchange_n(&calls.contexts[i], &expected, to, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return;
    }
}

/* Where the calling thread is; what it launches belongs there. */
static GpuPlace place_of_call(void)
{
    GpuPlace place = calls.host->place();
    if (place.launch == 0)
        place.launch = (uint64_t)native_range() << 6;
    return place;
}

static void on_callback(void *user, int domain, uint32_t id, const void *data)
{
    (void)user;
    OpenCall *open = &open_call;
    if (calls_closed || open->ours)
        return;
    if (__builtin_expect(!__atomic_load_n(&worker_begun, __ATOMIC_RELAXED), 0))
        begin_worker();
    if (domain == DOMAIN_RESOURCE) {
        if (id == RESOURCE_CONTEXT_CREATED || id == RESOURCE_CONTEXT_DESTROY)
            context_event(id, data);
        return;
    }
    if ((domain != DOMAIN_DRIVER && domain != DOMAIN_RUNTIME) || id >= IDS_AT_MOST)
        return;
    const CallbackData *call = data;
    if (calls.interest[domain][id] & CALL_LOADS) { /* of no interest but for what it may copy */
        if (call->site == 0)
            ring_put(calls.ring, call->correlation, place_of_call().launch);
        return;
    }
    if (call->site == 0) {
        GpuPlace place = place_of_call();
        ring_put(calls.ring, call->correlation, place.launch);
        if (calls.interest[domain][id] & CALL_MANAGED) {
            open->ours = 1; /* what CUPTI calls for it */
            begin_unified_memory();
            open->ours = 0;
        }
        if (open->depth++ == 0) { /* else the runtime calls the driver */
            if (calls.interest[domain][id] & CALL_LAUNCHES)
                __atomic_add_fetch(&calls.counters->launches, 1, __ATOMIC_RELAXED);
            open->place = place.host != 0 ? place.host >> 6 : thread_place(open);
            open->start = clock_ticks();
        }
    } else if (open->depth != 0 && --open->depth == 0) {
        uint64_t took = clock_ticks() - open->start;
        call_add(open->place << 14 | (uint64_t)domain << 12 | id, took);
    }
}

/* Calls that only ask: often, brief, and of no interest. */
static const char *const idle_calls[] = {
    "GetLastError", "PeekAtLastError", "GetDevice", "SetDevice", "PushCallConfiguration",
    "PopCallConfiguration", "GetAttribute", "DeviceGet", "StreamIsCapturing", "GetCaptureInfo",
    "StreamQuery", "EventQuery", "FuncGet", "FuncSet", "Occupancy", "CtxGetCurrent",
    "CtxSetCurrent", "CtxPushCurrent", "CtxPopCurrent", "CtxGetDevice", "CtxGetApiVersion",
    "GetErrorString", "GetErrorName", "DriverGetVersion", "RuntimeGetVersion", "GetProcAddress",
    "GetExportTable", "PointerGet", "StreamGet", "KernelGet", "KernelSet", "LibraryGet",
    "ModuleGet", "GetDriverEntryPoint", "GraphNodeGet", "MemGetInfo", "DeviceCanAccess",
    "GetStreamPriorityRange", "RegisterFatBinary", "RegisterFunction", "RegisterVar",
    "UnregisterFatBinary", "ThreadExchangeStreamCaptureMode", "StreamBeginCapture", "DevicePrimaryCtxGet",
    "TensorMapEncode", "CtxGetId", "GetFuncBySymbol", "GetSymbol", "GetTexture", "InitModule",
};
/* Of the driver, which runtime calls go through, only what a program calls itself. */
static const char *const driver_calls[] = {
    "cuLaunch", "cuMemcpy", "cuMemset", "cuGraph", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc",
    "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemPrefetch", "cuStreamSynchronize", "cuStreamWait", "cuCtxSynchronize",
    "cuEventSynchronize", "cuEventRecord", "cuModuleLoad", "cuLibraryLoad", "cuModuleUnload",
    "cuCtxCreate", "cuCtxDestroy", "cuDevicePrimaryCtxRetain", "cuStreamCreate",
    "cuStreamDestroy", "cuLink",
};
/* Of the calls that only ask, those that load a module where it has not been loaded yet, and copy its
 * data to the GPU: only their places are noted. */
static const char *const loading_calls[] = {
    "FuncGetAttribute", "FuncSetAttribute", "FuncSetCacheConfig", "OccupancyMaxActive",
    "OccupancyMaxPotential", "OccupancyAvailable", "GetFuncBySymbol", "GetSymbol", "ModuleGetFunction",
    "ModuleGetGlobal", "LibraryGetKernel", "LibraryGetGlobal", "KernelGetFunction", "FuncLoad",
    "InitModule",
};
static const char *const launching_calls[] = {
    "Launch", "Memcpy", "Memset", "MemPrefetch",
};

static int contains(const char *name, const char *const *words, size_t count, int at_start)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(name, words[i]);
        if (found != NULL && (!at_start || found == name))
            return 1;
    }
    return 0;
}

static int interest_in(int domain, const char *name)
{
#define WORDS(words) words, sizeof words / sizeof *words
    const char *plain = name + strspn(name, "_");
    if (strncmp(plain, domain == DOMAIN_RUNTIME ? "cuda" : "cu", domain == DOMAIN_RUNTIME ? 4 : 2) ||
        (domain == DOMAIN_DRIVER && !contains(name, WORDS(driver_calls), 1) &&
         !contains(name, WORDS(loading_calls), 0)))
        return 0;
    if (contains(name, WORDS(idle_calls), 0) || contains(name, WORDS(loading_calls), 0))
        return contains(name, WORDS(loading_calls), 0) ? CALL_LOADS : 0;
    int launches = contains(name, WORDS(launching_calls), 0) &&
                   strstr(name, "LaunchHostFunc") == NULL && strstr(name, "Node") == NULL;
    return CALL_OF_INTEREST | (launches ? CALL_LAUNCHES : 0) |
           (strstr(name, "llocManaged") != NULL ? CALL_MANAGED : 0);
#undef WORDS
}

#endif
