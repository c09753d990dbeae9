/* A stand-in for libcuda.so.1 that computes nothing: what is launched "runs" for as many
 * nanoseconds as it is told to, on streams that keep their order.
 *
 * Like NVIDIA's it loads the library that CUDA_INJECTION64_PATH names at the first cuInit,
 * and calls InitializeInjection in it. FAKE_* variables make it misbehave. */
#define _GNU_SOURCE
#include "fake_gpu.h"
#include "../../taupy/_native/cupti_records.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static FakeHooks *hooks;
static int initialised, ready;
static uint32_t correlations;
static uint64_t stream_end[8][64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread void *current;
static int contexts[8];
static int synchronized_count;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

EXPORT void fake_set_hooks(FakeHooks *from_cupti) { hooks = from_cupti; }

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    if (initialised)
        return 0;
    if (setting("FAKE_NO_DEVICE", 0))
        return 100;
    initialised = 1;
    const char *path = setting("FAKE_NO_INJECTION", 0) ? NULL : getenv("CUDA_INJECTION64_PATH");
    if (path != NULL) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*begin)(void) =
            library != NULL ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
        if (begin == NULL || begin() != 1)
            return 304;
    }
    ready = 1;
    return 0;
}

/* Is cuInit done? What a tool may ask before that is little. */
EXPORT int fake_ready(void) { return ready; }

EXPORT int cuDeviceGetCount(int *count)
{
    *count = initialised ? setting("FAKE_DEVICES", 1) : 0;
    return initialised ? 0 : 3;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = setting("FAKE_DRIVER", 13000);
    return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    current = context;
    return 0;
}
EXPORT int cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    return 0;
}

static void wait_until(uint64_t when)
{
    while (now_ns() < when) {
        struct timespec pause = {0, 20000};
        nanosleep(&pause, NULL);
    }
}

EXPORT int cuCtxSynchronize(void)
{
    uint64_t last = 0;
    for (int d = 0; d < 8; d++)
        for (int s = 0; s < 64; s++)
            last = stream_end[d][s] > last ? stream_end[d][s] : last;
    wait_until(last);
    __atomic_add_fetch(&synchronized_count, 1, __ATOMIC_RELAXED);
    return 0;
}
EXPORT int fake_synchronized(void) { return synchronized_count; }

static void put(void *record)
{
    uint32_t kind = *(uint32_t *)record;
    if (hooks != NULL && hooks->wanted(kind))
        hooks->record(record, (size_t)hooks->size_of(kind));
}

static __thread uint64_t entered[3];

static uint32_t enter(int domain, uint32_t id, const char *name)
{
    uint32_t correlation = __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED);
    if (hooks != NULL)
        hooks->api(0, domain, id, name, correlation);
    entered[domain] = now_ns();
    return correlation;
}

static void leave(int domain, uint32_t id, const char *name, uint32_t correlation)
{
    ApiRecord call = {.kind = domain == DOMAIN_DRIVER ? RECORD_DRIVER : RECORD_RUNTIME};
    call.callback_id = id;
    call.start = entered[domain];
    call.end = now_ns();
    call.correlation = correlation;
    put(&call);
    if (hooks != NULL)
        hooks->api(1, domain, id, name, correlation);
}

static void use(int device)
{
    if (!__atomic_exchange_n(&contexts[device], 1, __ATOMIC_RELAXED) && hooks != NULL)
        hooks->context(1, (void *)(uintptr_t)(0x1000 + device));
}

static void span(int device, int stream, uint64_t took, uint64_t *start, uint64_t *end)
{
    pthread_mutex_lock(&lock);
    uint64_t now = now_ns(), free_at = stream_end[device][stream];
    *start = free_at > now ? free_at : now;
    *end = stream_end[device][stream] = *start + took;
    pthread_mutex_unlock(&lock);
    if (took == 0) /* what CUPTI gives when it runs out of room for stamps */
        *start = *end = 0;
}

static void kernel(const char *name, int device, int stream, uint64_t took, uint32_t correlation,
                   int grid, int block, uint64_t node, uint32_t graph)
{
    union {
        KernelRecord record;
        char room[512];
    } it = {0};
    it.record.kind = RECORD_CONCURRENT_KERNEL;
    it.record.name = name;
    it.record.device = (uint32_t)device;
    it.record.context = (uint32_t)device + 1;
    it.record.stream = (uint32_t)stream;
    it.record.correlation = correlation;
    it.record.grid[0] = (uint32_t)grid;
    it.record.block[0] = (uint32_t)block;
    it.record.grid[1] = it.record.grid[2] = it.record.block[1] = it.record.block[2] = 1;
    it.record.registers = 32;
    it.record.static_shared = 1024;
    it.record.dynamic_shared = 2048;
    it.record.shared_executed = 65536;
    it.record.graph_node = node;
    it.record.graph = graph;
    span(device, stream, took, &it.record.start, &it.record.end);
    put(&it);
}

/* cudaLaunchKernel, which calls cuLaunchKernel inside with a correlation id of its own. */
EXPORT void fake_launch(const char *name, int device, int stream, uint64_t took, int grid, int block)
{
    use(device);
    uint32_t correlation = enter(DOMAIN_RUNTIME, 211, "cudaLaunchKernel");
    uint32_t inner = enter(DOMAIN_DRIVER, 307, "cuLaunchKernel");
    kernel(name, device, stream, took, correlation, grid, block, 0, 0);
    leave(DOMAIN_DRIVER, 307, "cuLaunchKernel", inner);
    leave(DOMAIN_RUNTIME, 211, "cudaLaunchKernel", correlation);
}

/* As Triton does. */
EXPORT void fake_driver_launch(const char *name, int device, int stream, uint64_t took)
{
    use(device);
    uint32_t correlation = enter(DOMAIN_DRIVER, 307, "cuLaunchKernel");
    kernel(name, device, stream, took, correlation, 1, 128, 0, 0);
    leave(DOMAIN_DRIVER, 307, "cuLaunchKernel", correlation);
}

/* A kernel whose launch no callback tells of. */
EXPORT void fake_silent_launch(const char *name, int device, int stream, uint64_t took)
{
    use(device);
    kernel(name, device, stream, took, __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED), 1,
           32, 0, 0);
}

EXPORT void fake_graph_launch(const char *name, int nodes, int device, int stream, uint64_t took)
{
    use(device);
    uint32_t correlation = enter(DOMAIN_RUNTIME, 311, "cudaGraphLaunch");
    for (int i = 0; i < nodes; i++)
        kernel(name, device, stream, took, correlation, 4, 64, (uint64_t)i + 1, 7);
    leave(DOMAIN_RUNTIME, 311, "cudaGraphLaunch", correlation);
}

EXPORT void fake_copy(int kind, uint64_t bytes, int device, int stream, uint64_t took)
{
    union {
        MemcpyRecord record;
        char room[512];
    } it = {0};
    use(device);
    uint32_t correlation = enter(DOMAIN_RUNTIME, 41, "cudaMemcpyAsync");
    it.record.kind = RECORD_MEMCPY;
    it.record.copy_kind = (uint8_t)kind;
    it.record.source_kind = kind == 1 ? 1 : 3;
    it.record.target_kind = kind == 2 ? 2 : 3;
    it.record.flags = 1;
    it.record.bytes = bytes;
    it.record.device = (uint32_t)device;
    it.record.context = (uint32_t)device + 1;
    it.record.stream = (uint32_t)stream;
    it.record.correlation = correlation;
    span(device, stream, took, &it.record.start, &it.record.end);
    put(&it);
    leave(DOMAIN_RUNTIME, 41, "cudaMemcpyAsync", correlation);
}

EXPORT void fake_memset(uint64_t bytes, int device, int stream, uint64_t took)
{
    union {
        MemsetRecord record;
        char room[512];
    } it = {0};
    use(device);
    uint32_t correlation = enter(DOMAIN_RUNTIME, 51, "cudaMemsetAsync");
    it.record.kind = RECORD_MEMSET;
    it.record.bytes = bytes;
    it.record.memory_kind = 3;
    it.record.flags = 1;
    it.record.device = (uint32_t)device;
    it.record.context = (uint32_t)device + 1;
    it.record.stream = (uint32_t)stream;
    it.record.correlation = correlation;
    span(device, stream, took, &it.record.start, &it.record.end);
    put(&it);
    leave(DOMAIN_RUNTIME, 51, "cudaMemsetAsync", correlation);
}

EXPORT void fake_alloc(int release, uint64_t bytes, int device)
{
    union {
        MemoryRecord record;
        char room[512];
    } it = {0};
    use(device);
    const char *name = release ? "cudaFree" : "cudaMalloc";
    uint32_t id = release ? 22 : 20, correlation = enter(DOMAIN_RUNTIME, id, name);
    it.record.kind = RECORD_MEMORY2;
    it.record.operation = release ? 2 : 1;
    it.record.memory_kind = 3;
    it.record.bytes = bytes;
    it.record.timestamp = now_ns();
    it.record.device = (uint32_t)device;
    it.record.context = (uint32_t)device + 1;
    it.record.correlation = correlation;
    put(&it);
    leave(DOMAIN_RUNTIME, id, name, correlation);
}

EXPORT void fake_managed(int device)
{
    use(device);
    uint32_t correlation = enter(DOMAIN_RUNTIME, 216, "cudaMallocManaged");
    leave(DOMAIN_RUNTIME, 216, "cudaMallocManaged", correlation);
}

EXPORT void fake_migrate(int counter, uint64_t value)
{
    union {
        UnifiedRecord record;
        char room[512];
    } it = {0};
    it.record.kind = RECORD_UNIFIED_MEMORY;
    it.record.counter = (uint32_t)counter;
    it.record.value = value;
    it.record.start = now_ns();
    put(&it);
}

EXPORT void fake_synchronize(int device, int stream)
{
    uint32_t correlation = enter(DOMAIN_RUNTIME, 131, "cudaStreamSynchronize");
    wait_until(stream_end[device][stream]);
    leave(DOMAIN_RUNTIME, 131, "cudaStreamSynchronize", correlation);
}

/* An idle call: one that nobody wants to hear of. */
EXPORT void fake_get_device(void)
{
    uint32_t correlation = enter(DOMAIN_RUNTIME, 17, "cudaGetDevice");
    leave(DOMAIN_RUNTIME, 17, "cudaGetDevice", correlation);
}

typedef struct Backward {
    const char *name;
    int count, device, stream;
    uint64_t took;
} Backward;

static void *backward_thread(void *data)
{
    Backward *backward = data;
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    for (int i = 0; i < backward->count; i++)
        fake_launch(backward->name, backward->device, backward->stream, backward->took, 2, 64);
    return NULL;
}

/* Launches from a thread that has no Python, while the caller waits: as autograd does. */
EXPORT void fake_launch_in_thread(const char *name, int count, int device, int stream, uint64_t took)
{
    Backward backward = {name, count, device, stream, took};
    pthread_t thread;
    if (pthread_create(&thread, NULL, backward_thread, &backward) == 0)
        pthread_join(thread, NULL);
}
