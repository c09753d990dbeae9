/* The played CUPTI's records: they go into the client's buffers, which are handed back from a thread
 * of its own when they are full, or from the flushing thread. They are as long as those of the version
 * that is played. FAKE_BUFFER: bytes used of each buffer; FAKE_DISORDER: the newest first;
 * FAKE_DROP_EVERY=N, FAKE_DROP_SILENTLY; FAKE_ENABLE=CODE; FAKE_FLUSH_HANGS; FAKE_FOREIGN: a buffer of somebody else;
 * FAKE_UNIFIED=CODE. As with NVIDIA's, a flush in a forked child never ends. */
#include "played_cupti.h"
#include <atomic>
#include <mutex>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>

#define KINDS 256

struct Buffer {
    uint8_t *memory;
    size_t size, used;
};

static CUpti_BuffersCallbackRequestFunc requested;
static CUpti_BuffersCallbackCompleteFunc completed;
static int kinds[KINDS];
static Buffer filling, full[1024];
static int full_count, under_way; /* under way: being handed back by the thread of the fake's */
static size_t dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wake;
static int worker_runs, records, unified_configured;
static std::atomic<int> flushes, registrations;
static pid_t owner;

static size_t size_of(uint32_t kind)
{
    static const struct {
        int version;
        uint32_t kind;
        size_t size;
    } sizes[] = {
#include "records.h" /* made from layouts.json */
    };
    for (auto &known : sizes)
        if (known.version == version() && known.kind == kind)
            return known.size;
    return 0;
}

int is_wanted(CUpti_ActivityKind kind) { return kind < KINDS && kinds[kind]; }

void finalize_activities()
{
    requested = NULL;
    memset(kinds, 0, sizeof kinds);
}

static void hand_back(Buffer done) { completed(NULL, 0, done.memory, done.size, done.used); }

static Buffer take_full(int at)
{
    Buffer taken = full[at];
    memmove(&full[at], &full[at + 1], sizeof *full * (size_t)(--full_count - at));
    return taken;
}

static void *deliver(void *)
{
    for (;;) {
        sem_wait(&wake);
        pthread_mutex_lock(&lock);
        if (full_count > 0) {
            Buffer done = take_full(setting("FAKE_DISORDER", 0) ? full_count - 1 : 0);
            under_way++;
            pthread_mutex_unlock(&lock);
            hand_back(done);
            pthread_mutex_lock(&lock);
            under_way--;
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void append(const void *from, size_t size)
{
    /* As long as this version's, whichever structure was compiled in: records only grow at the end. */
    size_t length = size_of(*(const uint32_t *)from);
    int every = setting("FAKE_DROP_EVERY", 0);
    if (every && ++records % every == 0) {
        dropped += !setting("FAKE_DROP_SILENTLY", 0);
        return;
    }
    if (filling.memory != NULL && filling.used + length > filling.size) {
        if (full_count < 1024)
            full[full_count++] = filling;
        filling = {};
        sem_post(&wake);
    }
    if (filling.memory == NULL) {
        size_t most, limit = (size_t)setting("FAKE_BUFFER", 1 << 20);
        requested(&filling.memory, &filling.size, &most);
        filling.size = filling.size < limit ? filling.size : limit;
        filling.used = 0;
    }
    if (filling.memory == NULL) {
        dropped++;
        return;
    }
    memset(filling.memory + filling.used, 0, length);
    memcpy(filling.memory + filling.used, from, size < length ? size : length);
    filling.used += length;
}

static uint32_t context_in(const CUpti_Activity *record)
{
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return ((const CUpti_ActivityKernel9 *)record)->contextId;
    case CUPTI_ACTIVITY_KIND_MEMCPY: return ((const CUpti_ActivityMemcpy5 *)record)->contextId;
    case CUPTI_ACTIVITY_KIND_MEMSET: return ((const CUpti_ActivityMemset4 *)record)->contextId;
    default: return 0;
    }
}

static void forget_in(Buffer &buffer, uint32_t context)
{
    size_t kept = 0, size;
    for (size_t at = 0; at < buffer.used; at += size) {
        auto record = (CUpti_Activity *)(buffer.memory + at);
        size = size_of(record->kind);
        if (context_in(record) == context)
            continue;
        memmove(buffer.memory + kept, record, size);
        kept += size;
    }
    buffer.used = kept;
}

void forget_records(uint32_t context)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < full_count; i++)
        forget_in(full[i], context);
    forget_in(filling, context);
    pthread_mutex_unlock(&lock);
}

/* Another client's clock, once set, is every client's and cannot be taken back; the played GPU's
 * stamps are moved to it by a line through two of its readings. */
static CUpti_TimestampCallbackFunc other_clock;
static double ticks_per_ns;

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function)
{
    if (function == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint64_t before = now_ns(), ticks = function();
    usleep(50000);
    ticks_per_ns = (double)(function() - ticks) / (double)(now_ns() - before);
    other_clock = function;
    return CUPTI_SUCCESS;
}

static uint64_t by_other_clock(uint64_t stamp)
{
    return other_clock() - (uint64_t)((double)((int64_t)(now_ns() - stamp)) * ticks_per_ns);
}

void record(const void *from, size_t size)
{
    CUpti_ActivityKernel9 kernel;
    if (other_clock != NULL && *(const uint32_t *)from == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        kernel = *(const CUpti_ActivityKernel9 *)from;
        kernel.start = by_other_clock(kernel.start);
        kernel.end = by_other_clock(kernel.end);
        from = &kernel;
    }
    pthread_mutex_lock(&lock);
    if (requested != NULL)
        append(from, size);
    pthread_mutex_unlock(&lock);
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    requested = request;
    completed = complete;
    registrations++;
    if (!worker_runs) {
        pthread_t thread;
        worker_runs = 1;
        owner = getpid();
        sem_init(&wake, 0, 0);
        pthread_create(&thread, NULL, deliver, NULL);
        pthread_detach(thread);
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    int result = setting("FAKE_ENABLE", 0);
    if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER && !unified_configured)
        result = CUPTI_ERROR_NOT_INITIALIZED;
    if (result != 0 || kind >= KINDS)
        return result ? (CUptiResult)result : CUPTI_ERROR_INVALID_KIND;
    kinds[kind] = 1;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
        for (int i = 0; i < setting("FAKE_DEVICES", 1); i++) {
            CUpti_ActivityDevice4 device = {};
            device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
            device.id = (uint32_t)i;
            device.name = device_name();
            device.computeCapabilityMajor = 9;
            device.numMultiprocessors = 132;
            device.globalMemorySize = 80ull << 30;
            device.numThreadsPerWarp = 32;
            device.maxWarpsPerMultiprocessor = 64;
            device.uuid.bytes[15] = (char)(i + 1);
            record(&device, sizeof device);
        }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    if (kind >= KINDS)
        return CUPTI_ERROR_INVALID_KIND;
    kinds[kind] = 0;
    return CUPTI_SUCCESS;
}

static void flush_foreign()
{
    /* What a client before this one had been asked for: it must not be read. */
    auto foreign = (uint8_t *)mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(foreign, 4096, PROT_NONE);
    completed(NULL, 0, foreign + 4096, 4096, 64);
}

CUptiResult cuptiActivityFlushAll(uint32_t)
{
    flushes++;
    if (completed == NULL)
        return CUPTI_SUCCESS;
    if (setting("FAKE_FOREIGN", 0))
        flush_foreign();
    while (setting("FAKE_FLUSH_HANGS", 0) || getpid() != owner)
        pause();
    for (;;) {
        Buffer done = {};
        pthread_mutex_lock(&lock);
        if (full_count > 0)
            done = take_full(0);
        else {
            done = filling;
            filling = {};
        }
        int others = under_way;
        pthread_mutex_unlock(&lock);
        if (done.memory == NULL && others) {
            sched_yield();
            continue;
        }
        if (done.memory == NULL)
            return CUPTI_SUCCESS;
        hand_back(done);
    }
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t valid, CUpti_Activity **at)
{
    uint8_t *next = from;
    if (*at != NULL)
        next = (uint8_t *)*at + size_of(*(uint32_t *)*at);
    if ((size_t)(next - from) >= valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    if (size_of(*(uint32_t *)next) == 0)
        return CUPTI_ERROR_INVALID_KIND;
    *at = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *count)
{
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *,
                                                       uint32_t)
{
    if (setting("FAKE_UNIFIED", 0))
        return (CUptiResult)setting("FAKE_UNIFIED", 0);
    /* "The API should be called after CUDA driver initialization." */
    unified_configured = driver_is_ready();
    return unified_configured ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_INITIALIZED;
}

FOR_PROGRAMS int fake_flushes(void) { return flushes; }
FOR_PROGRAMS int fake_registrations(void) { return registrations; }

/* ---------------------------------------------------------------- another client */

static CUpti_ActivityKind others[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

/* Full buffers come from the thread of the fake's while a flush hands back the last one. */
static std::mutex of_the_other;
static uint8_t *given[64];
static int elsewhere; /* records that it got */

static void CUPTIAPI request_elsewhere(uint8_t **memory, size_t *size, size_t *most)
{
    std::lock_guard<std::mutex> held(of_the_other);
    *most = 0;
    *size = 65536;
    for (auto &slot : given)
        if (slot == NULL) {
            *memory = slot = (uint8_t *)malloc(*size);
            return;
        }
    *memory = NULL;
}

/* As Kineto's it drops a buffer that it has not given: what is in it is lost. */
static void CUPTIAPI complete_elsewhere(CUcontext, uint32_t, uint8_t *memory, size_t, size_t valid)
{
    std::lock_guard<std::mutex> held(of_the_other);
    CUpti_Activity *at = NULL;
    for (auto &slot : given)
        if (slot == memory) {
            while (cuptiActivityGetNextRecord(memory, valid, &at) == CUPTI_SUCCESS)
                elsewhere++;
            free(slot);
            slot = NULL;
            return;
        }
    fprintf(stderr, "bufferCompleted called with unknown buffer\n");
}

/* torch.profiler begins, as Kineto's does since 2026: it does not subscribe, but registers
 * callbacks: what CUPTI has not handed over yet, and all further records, are its. */
FOR_PROGRAMS void fake_other_client(void)
{
    cuptiActivityRegisterCallbacks(request_elsewhere, complete_elsewhere);
    for (auto kind : others)
        cuptiActivityEnable(kind);
}

/* As Kineto's does since 2024: it gives CUPTI its own clock. */
static uint64_t CUPTIAPI time_stamp_counter() { return __builtin_ia32_rdtsc(); }

FOR_PROGRAMS void fake_other_clock(void) { cuptiActivityRegisterTimestampCallback(time_stamp_counter); }

/* It ends: it disables the kinds that it had enabled, then takes what is there. How many records it
 * got. */
FOR_PROGRAMS int fake_other_client_ends(void)
{
    for (auto kind : others)
        cuptiActivityDisable(kind);
    cuptiActivityFlushAll(1);
    return elsewhere;
}
