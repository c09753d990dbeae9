#define _GNU_SOURCE
#include "cupti_calls.h"
#include "captures.h"
#include "clock.h"
#include "cupti_interest.h"
#include "cupti_records.h"
#include "native_ranges.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Correlation id -> node, for the last two million calls: 16 MiB of addresses, of which only the
 * pages used take memory. Layout of a word: node >> 6 | high bits of the id << 42 | valid. */
#define RING_BITS 21
#define RING_VALID (1ull << 63)
#define RING_HIGH_BITS (32 - RING_BITS)
#define NODE_BITS 42

#define PROBES 64

typedef struct OpenCall {
    uint64_t start, place; /* place: the node as encoded in GpuCall.key */
    uint32_t depth;
    uint32_t thread; /* number of a thread without routines; 0: none yet */
    uint8_t ours;    /* the collector's own thread */
    uint8_t is_expected; /* a kernel's record is to follow */
} OpenCall;

Calls calls = {.closed = 1};
static __thread OpenCall open_call __attribute__((tls_model("initial-exec")));

static inline void ring_put(uint64_t *ring, uint32_t correlation, uint64_t node)
{
    uint64_t word = RING_VALID | (uint64_t)(correlation >> RING_BITS) << NODE_BITS | node >> 6;
    __atomic_store_n(&ring[correlation & (CORRELATIONS - 1)], word, __ATOMIC_RELEASE);
}

uint64_t calls_node(uint32_t correlation, int *known)
{
    uint64_t word = __atomic_load_n(&calls.ring[correlation & (CORRELATIONS - 1)],
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
            number = GPU_THREADS_AT_MOST - 1; /* all further threads share the last one */
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

/* Call path of the calling thread; its launches belong there. */
static GpuPlace place_of_call(void)
{
    GpuPlace place = calls.host->place();
    uint32_t range = native_range(&place);
    if (range != 0)
        place.launch = (uint64_t)range << 6;
    return place;
}

void calls_on_callback(void *user, int domain, uint32_t id, const void *data)
{
    (void)user;
    OpenCall *open = &open_call;
    if (__atomic_load_n(&calls.closed, __ATOMIC_RELAXED) || open->ours)
        return;
    if (__builtin_expect(!__atomic_load_n(&calls.worker_begun, __ATOMIC_RELAXED), 0))
        calls.begin_worker();
    if (domain == DOMAIN_RESOURCE) {
        if (id == RESOURCE_CONTEXT_DESTROY && calls.context_ends != NULL) {
            open->ours = 1;
            calls.context_ends();
            open->ours = 0;
        }
        if (id == RESOURCE_CONTEXT_CREATED || id == RESOURCE_CONTEXT_DESTROY)
            context_event(id, data);
        return;
    }
    if ((domain != DOMAIN_DRIVER && domain != DOMAIN_RUNTIME) || id >= IDS_AT_MOST)
        return;
    const CallbackData *call = data;
    if (call->site != 0 && calls.interest[domain][id] & CALL_CAPTURES)
        captures_hear(call->function, call->parameters,
                      call->result != NULL ? *(const int *)call->result : 0);
    if (calls.interest[domain][id] == CALL_CAPTURES)
        return;
    if (calls.interest[domain][id] & CALL_LOADS) { /* only copies that it causes matter */
        if (call->site == 0)
            ring_put(calls.ring, call->correlation, place_of_call().launch);
        return;
    }
    if (call->site == 0) {
        GpuPlace place = place_of_call();
        ring_put(calls.ring, call->correlation, place.launch);
        if (calls.interest[domain][id] & CALL_MANAGED) {
            open->ours = 1; /* covers what CUPTI calls on its behalf */
            calls.begin_unified_memory();
            open->ours = 0;
        }
        if (open->depth++ == 0) { /* else the runtime is calling the driver */
            if (calls.interest[domain][id] & CALL_LAUNCHES)
                __atomic_add_fetch(&calls.counters->launches, 1, __ATOMIC_RELAXED);
            open->is_expected = calls.interest[domain][id] & CALL_KERNEL && !captures_under_way();
            if (open->is_expected)
                __atomic_add_fetch(&calls.counters->expected, 1, __ATOMIC_RELAXED);
            open->place = place.host != 0 ? place.host >> 6 : thread_place(open);
            open->start = clock_ticks();
        }
    } else if (open->depth != 0 && --open->depth == 0) {
        uint64_t took = clock_ticks() - open->start;
        call_add(open->place << 14 | (uint64_t)domain << 12 | id, took);
        int is_refused = call->result != NULL && *(const int *)call->result != 0;
        if (is_refused && calls.interest[domain][id] & CALL_LAUNCHES) { /* no record will follow */
            __atomic_sub_fetch(&calls.counters->launches, 1, __ATOMIC_RELAXED);
            if (open->is_expected)
                __atomic_sub_fetch(&calls.counters->expected, 1, __ATOMIC_RELAXED);
        }
    }
}

uint64_t *calls_ring(void)
{
    void *ring = mmap(NULL, 8ull << RING_BITS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ring != MAP_FAILED ? ring : NULL;
}

void calls_be_ours(void)
{
    open_call.ours = 1;
    prctl(PR_SET_NAME, "taupy-gpu");
}
