/* A stand-in for libcupti: the functions that taupy calls, over the fake driver.
 *
 * Records go into the client's buffers, which are handed back from a thread of the fake's
 * own when they are full, or from the flushing thread. Records are as long as those of the
 * version that FAKE_CUPTI names (1206 to 1305). */
#define _GNU_SOURCE
#include "fake_gpu.h"
#include "../../taupy/_native/cupti_records.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define ENABLED_AT_MOST 64

typedef void (*Callback)(void *, int, uint32_t, const void *);
typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);

static Callback callback;
static void *callback_user;
static Requested requested;
static Completed completed;
static uint8_t enabled[3][4096];
static int kinds[ENABLED_AT_MOST];
static uint8_t *buffer;
static size_t size, used, dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int unified_configured;

static struct {
    uint8_t *buffer;
    size_t size, used;
} full[1024];
static int full_count, under_way; /* under way: being handed back by the fake's thread */
static sem_t wake;
EXPORT int cuptiActivityFlushAll(uint32_t flag);
static int worker_runs, version = 1300, records;

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

static void *deliver(void *unused)
{
    (void)unused;
    for (;;) {
        sem_wait(&wake);
        pthread_mutex_lock(&lock);
        if (full_count == 0) {
            pthread_mutex_unlock(&lock);
            continue;
        }
        /* FAKE_DISORDER: the newest first. */
        int at = setting("FAKE_DISORDER", 0) ? full_count - 1 : 0;
        uint8_t *done = full[at].buffer;
        size_t done_size = full[at].size, done_used = full[at].used;
        memmove(&full[at], &full[at + 1], sizeof *full * (size_t)(--full_count - at));
        under_way++;
        pthread_mutex_unlock(&lock);
        completed(NULL, 0, done, done_size, done_used);
        pthread_mutex_lock(&lock);
        under_way--;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void api(int site, int domain, uint32_t id, const char *name, uint32_t correlation)
{
    CallbackData data = {.site = site, .function = name, .correlation = correlation};
    if (callback != NULL && enabled[domain][id])
        callback(callback_user, domain, id, &data);
}

static void record(const void *from, size_t length)
{
    int every = setting("FAKE_DROP_EVERY", 0);
    pthread_mutex_lock(&lock);
    if (requested == NULL || (every && ++records % every == 0)) {
        dropped++;
        pthread_mutex_unlock(&lock);
        return;
    }
    if (buffer != NULL && used + length > size) {
        if (full_count < 1024) {
            full[full_count].buffer = buffer;
            full[full_count].size = size;
            full[full_count++].used = used;
        }
        buffer = NULL;
        sem_post(&wake);
    }
    if (buffer == NULL) {
        size_t most;
        requested(&buffer, &size, &most);
        used = 0;
        size_t limit = (size_t)setting("FAKE_BUFFER", 1 << 20);
        size = size < limit ? size : limit;
    }
    if (buffer == NULL)
        dropped++;
    else {
        memcpy(buffer + used, from, length);
        used += length;
    }
    pthread_mutex_unlock(&lock);
}

static void context(int created, void *which)
{
    ResourceData data = {which};
    if (callback != NULL)
        callback(callback_user, DOMAIN_RESOURCE,
                 created ? RESOURCE_CONTEXT_CREATED : RESOURCE_CONTEXT_DESTROY, &data);
}

static int size_of(uint32_t kind) { return (int)record_size(kind, version); }
static int wanted(uint32_t kind) { return kind < ENABLED_AT_MOST && kinds[kind]; }

static FakeHooks hooks = {api, record, context, size_of, wanted};

EXPORT int cuptiGetVersion(uint32_t *number)
{
    version = setting("FAKE_CUPTI", 1300);
    *number = version >= 1300 ? (uint32_t)version * 100u + 1 : version == 1206 ? 24 : 26;
    return 0;
}

EXPORT int cuptiGetResultString(int result, const char **text)
{
    *text = result == 39   ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
            : result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                           : "CUPTI_ERROR_UNKNOWN";
    return 0;
}

EXPORT int cuptiSubscribe(void **subscriber, Callback function, void *user)
{
    int result = setting("FAKE_SUBSCRIBE", 0);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*set)(FakeHooks *) =
        driver != NULL ? (void (*)(FakeHooks *))dlsym(driver, "fake_set_hooks") : NULL;
    if (result != 0 || set == NULL)
        return result ? result : 999;
    callback = function;
    callback_user = user;
    *subscriber = &hooks;
    set(&hooks);
    return 0;
}

EXPORT int cuptiUnsubscribe(void *subscriber)
{
    (void)subscriber;
    callback = NULL;
    return 0;
}

EXPORT int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id)
{
    (void)subscriber;
    if (setting("FAKE_REFUSED_CALL", -1) == (int)id)
        return 1;
    if (domain < 3)
        enabled[domain][id] = (uint8_t)enable;
    return 0;
}

EXPORT int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
    static const struct {
        int domain;
        uint32_t id;
        const char *name;
    } names[] = {
        {1, 307, "cuLaunchKernel"},           {2, 211, "cudaLaunchKernel_v7000"},
        {2, 17, "cudaGetDevice_v3020"},       {2, 20, "cudaMalloc_v3020"},
        {2, 22, "cudaFree_v3020"},            {2, 41, "cudaMemcpyAsync_v3020"},
        {2, 51, "cudaMemsetAsync_v3020"},     {2, 131, "cudaStreamSynchronize_v3020"},
        {2, 216, "cudaMallocManaged_v6000"},  {2, 311, "cudaGraphLaunch_v10000"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].domain == domain && names[i].id == id) {
            *name = names[i].name;
            return 0;
        }
    *name = "INVALID";
    return id < 400 ? 0 : 1;
}

EXPORT int cuptiActivityRegisterCallbacks(Requested request, Completed complete)
{
    requested = request;
    completed = complete;
    if (!worker_runs) {
        pthread_t thread;
        worker_runs = 1;
        sem_init(&wake, 0, 0);
        pthread_create(&thread, NULL, deliver, NULL);
        pthread_detach(thread);
    }
    return 0;
}

static void take_request(uint8_t **memory, size_t *room, size_t *most)
{
    static uint8_t taken[65536];
    *memory = taken;
    *room = sizeof taken;
    *most = 0;
}

static void take_completed(void *where, uint32_t stream, uint8_t *memory, size_t room, size_t valid)
{
    (void)where, (void)stream, (void)memory, (void)room, (void)valid;
}

/* Another client (torch.profiler) registers callbacks of its own: all further records are its. */
EXPORT void fake_other_client(void)
{
    cuptiActivityFlushAll(1);
    requested = take_request;
    completed = take_completed;
}

EXPORT int cuptiActivityEnable(uint32_t kind)
{
    int result = setting("FAKE_ENABLE", 0);
    if (kind == RECORD_UNIFIED_MEMORY && !unified_configured)
        result = 15;
    if (result != 0)
        return result;
    if (kind < ENABLED_AT_MOST)
        kinds[kind] = 1;
    if (kind == RECORD_DEVICE)
        for (int i = 0; i < setting("FAKE_DEVICES", 1); i++) {
            union {
                DeviceRecord record;
                char room[512];
            } it = {0};
            it.record.kind = RECORD_DEVICE;
            it.record.id = (uint32_t)i;
            it.record.name = "Fake H100";
            it.record.major = 9;
            it.record.multiprocessors = 132;
            it.record.memory_bytes = 80ull << 30;
            it.record.warp_threads = 32;
            it.record.warps_per_multiprocessor = 64;
            it.record.uuid[15] = (uint8_t)(i + 1);
            record(&it, record_size(RECORD_DEVICE, version));
        }
    return 0;
}

EXPORT int cuptiActivityDisable(uint32_t kind)
{
    if (kind < ENABLED_AT_MOST)
        kinds[kind] = 0;
    return 0;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag)
{
    uint8_t *done;
    size_t done_size, done_used;
    (void)flag;
    if (setting("FAKE_FOREIGN", 0)) { /* what a client before this one had been asked for */
        uint8_t *foreign = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(foreign, 4096, PROT_NONE);
        completed(NULL, 0, foreign + 4096, 4096, 64);
    }
    if (setting("FAKE_FLUSH_HANGS", 0))
        for (;;)
            sem_wait(&wake);
    for (;;) {
        pthread_mutex_lock(&lock);
        if (full_count > 0) {
            done = full[0].buffer;
            done_size = full[0].size;
            done_used = full[0].used;
            memmove(&full[0], &full[1], sizeof *full * (size_t)--full_count);
        } else {
            done = buffer;
            done_size = size;
            done_used = used;
            buffer = NULL;
        }
        int others = under_way;
        pthread_mutex_unlock(&lock);
        if (done == NULL && others) {
            sched_yield();
            continue;
        }
        if (done == NULL)
            return 0;
        completed(NULL, 0, done, done_size, done_used);
    }
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, void **at)
{
    uint8_t *next = from;
    if (*at != NULL)
        next = (uint8_t *)*at + record_size(*(uint32_t *)*at, version);
    if ((size_t)(next - from) >= valid)
        return CUPTI_MAX_LIMIT_REACHED;
    *at = next;
    return 0;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *where, uint32_t stream, size_t *count)
{
    (void)where, (void)stream;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int cuptiActivityConfigureUnifiedMemoryCounter(void *configuration, uint32_t count)
{
    /* "The API should be called after CUDA driver initialization." */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*is_ready)(void) = (int (*)(void))dlsym(driver, "fake_ready");
    (void)configuration, (void)count;
    if (setting("FAKE_UNIFIED", 0))
        return setting("FAKE_UNIFIED", 0);
    unified_configured = is_ready();
    return unified_configured ? 0 : 15;
}
