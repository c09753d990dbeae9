#include "cupti_sums.h"
#include "clock.h"
#include "cupti_records.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK_BLOCK 64

int sums_begin(Sums *sums, PartHeader *part, uint64_t limit)
{
    memset(sums, 0, sizeof *sums);
    sums->part = part;
    sums->limit = limit;
    sums->mask = 1023;
    sums->table = calloc(sums->mask + 1, sizeof *sums->table);
    sums->numbers = calloc(sums->mask + 1, sizeof *sums->numbers);
    Block *counters = part_block(part, GPU_COUNTERS, 0, sizeof(GpuCounters));
    Block *live = part_block(part, GPU_LIVE, 0, GPU_LIVE_AT_MOST * sizeof(GpuLive));
    if (!sums->table || !sums->numbers || counters == NULL || live == NULL)
        return -1;
    sums->counters = (GpuCounters *)(counters + 1);
    sums->live = (GpuLive *)(live + 1);
    if (kernel_names_begin(&sums->names, part) != 0)
        return -1;
    return trace_begin(&sums->trace, &sums->counters->trace_lost);
}

/* ---------------------------------------------------------------- rows */

static inline uint64_t work_hash(const GpuWork *key)
{
    uint64_t words[GPU_WORK_KEY_BYTES / 8], one = 0, other = 0;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i += 2) { /* two independent chains */
        one = (one ^ words[i]) * 0x9E3779B97F4A7C15ull;
        other = (other ^ words[i + 1]) * 0xC2B2AE3D27D4EB4Full;
        one ^= one >> 32;
        other ^= other >> 29;
    }
    return one ^ other ^ other >> 32;
}

static int work_grow(Sums *sums)
{
    uint64_t mask = sums->mask * 2 + 1;
    GpuWork **table = calloc(mask + 1, sizeof *table);
    uint32_t *numbers = calloc(mask + 1, sizeof *numbers);
    if (table == NULL || numbers == NULL) {
        free(table);
        free(numbers);
        return -1;
    }
    for (uint64_t k = 0; k <= sums->mask; k++)
        if (sums->table[k] != NULL) {
            uint64_t j = work_hash(sums->table[k]) & mask;
            while (table[j] != NULL)
                j = (j + 1) & mask;
            table[j] = sums->table[k];
            numbers[j] = sums->numbers[k];
        }
    free(sums->table);
    free(sums->numbers);
    sums->table = table;
    sums->numbers = numbers;
    sums->mask = mask;
    return 0;
}

static GpuWork *work_new(Sums *sums, const GpuWork *key, uint64_t at)
{
    if (sums->block_left == 0) {
        Block *block = part_block(sums->part, GPU_WORK, 0, WORK_BLOCK * sizeof(GpuWork));
        if (block == NULL)
            return NULL;
        sums->block = (GpuWork *)(block + 1);
        sums->block_left = WORK_BLOCK;
    }
    GpuWork *work = sums->block++;
    sums->block_left--;
    memcpy(work, key, GPU_WORK_KEY_BYTES);
    work->minimum = UINT64_MAX;
    work->slot = trace_slot(&sums->trace, key);
    sums->table[at] = work;
    sums->numbers[at] = (uint32_t)sums->count++;
    return work;
}

/* The row for `key`; `number` is set to its index in the part. NULL if memory runs out. */
static GpuWork *work_of(Sums *sums, GpuWork *key, uint32_t *number)
{
    for (int folded = 0;; folded++) {
        uint64_t i = work_hash(key) & sums->mask;
        for (; sums->table[i] != NULL; i = (i + 1) & sums->mask)
            if (memcmp(sums->table[i], key, GPU_WORK_KEY_BYTES) == 0) {
                *number = sums->numbers[i];
                sums->counters->folded += folded > 0;
                return sums->table[i];
            }
        /* The first half of the rows distinguishes configurations, the second half only call paths;
         * a completely folded key always gets a row. */
        if (sums->count < sums->limit / 2 || (folded && sums->count < sums->limit) || folded > 1) {
            if (sums->count * 2 > sums->mask) {
                if (work_grow(sums) != 0)
                    return NULL;
                for (i = work_hash(key) & sums->mask; sums->table[i] != NULL;
                     i = (i + 1) & sums->mask)
                    ;
            }
            GpuWork *work = work_new(sums, key, i);
            if (work != NULL) {
                *number = sums->numbers[i];
                work->flags |= folded ? GPU_FOLDED : 0;
            }
            sums->counters->folded += folded > 0;
            return work;
        }
        if (folded == 0)
            memset((char *)key + offsetof(GpuWork, grid), 0,
                   GPU_WORK_KEY_BYTES - offsetof(GpuWork, grid));
        else
            key->node = 0;
    }
}

/* ---------------------------------------------------------------- time stamps */

#define NOT_BEFORE 1000000000000000000ull /* ns since the epoch: 2001 */

static uint64_t tsc(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

void sums_begin_clock(Sums *sums)
{
    sums->tsc_start = tsc();
    sums->realtime_start = (uint64_t)clock_ns(CLOCK_REALTIME);
}

/* Nanoseconds since the epoch. torch.profiler gives CUPTI a clock of its own, for all clients and
 * for good: the time-stamp counter. 0: neither of the two. */
static uint64_t epoch_ns(const Sums *sums, uint64_t stamp)
{
    if (stamp >= NOT_BEFORE || stamp == 0 || sums->tsc_start == 0)
        return stamp;
    uint64_t now = tsc();
    if (stamp < sums->tsc_start || stamp > now)
        return 0;
    uint64_t realtime = (uint64_t)clock_ns(CLOCK_REALTIME) - sums->realtime_start;
    double share = (double)(stamp - sums->tsc_start) / (double)(now - sums->tsc_start);
    return sums->realtime_start + (uint64_t)(share * (double)realtime);
}

/* ---------------------------------------------------------------- reading records */

typedef struct Span {
    uint64_t start, end, bytes, graph_node;
    uint32_t correlation;
} Span;

static void add_time(Sums *sums, GpuWork *key, Span span, uint32_t flags)
{
    uint32_t number;
    GpuWork *work = work_of(sums, key, &number);
    if (work == NULL) {
        sums->counters->lost++;
        return;
    }
    if (work->count++ == 0 || span.bytes < work->least_bytes)
        work->least_bytes = span.bytes;
    if (span.bytes > work->most_bytes)
        work->most_bytes = span.bytes;
    work->bytes += span.bytes;
    work->bytes_squares += (double)span.bytes * (double)span.bytes;
    work->flags |= flags;
    uint64_t started = epoch_ns(sums, span.start);
    sums->counters->converted += started != span.start;
    span.start = started;
    span.end = epoch_ns(sums, span.end);
    if (span.start == 0 || span.end < span.start) { /* the GPU had no room for its timestamps */
        work->untimed++;
        sums->counters->untimed++;
        return;
    }
    uint64_t took = span.end - span.start;
    work->time += took;
    work->squares += (double)took * (double)took;
    if (took < work->minimum)
        work->minimum = took;
    if (took > work->maximum)
        work->maximum = took;
    if (work->first == 0 || span.start < work->first)
        work->first = span.start;
    if (span.end > work->last)
        work->last = span.end;
    if (sums->trace.file >= 0)
        trace_add(&sums->trace, work->slot, (GpuTraceRecord){span.start, span.end, span.bytes,
                                                     span.graph_node, number, span.correlation});
}

/* A value that is not a time: bytes of an allocation, page faults. */
static void add_value(Sums *sums, GpuWork *key, uint64_t value, uint64_t when)
{
    uint32_t number;
    GpuWork *work = work_of(sums, key, &number);
    if (work == NULL)
        return;
    work->count++;
    work->time += value;
    work->squares += (double)value * (double)value;
    if (value < work->minimum)
        work->minimum = value;
    if (value > work->maximum)
        work->maximum = value;
    if (work->first == 0)
        work->first = when;
    work->last = when;
}

static void add_live(Sums *sums, uint32_t device, uint32_t kind, uint32_t pool, int64_t change,
                     int64_t absolute)
{
    for (int i = 0; i < GPU_LIVE_AT_MOST; i++) {
        GpuLive *live = &sums->live[i];
        if (live->used && (live->device != device || live->kind != kind || live->pool != pool))
            continue;
        live->device = device;
        live->kind = kind;
        live->pool = pool;
        live->used = 1;
        live->live = absolute >= 0 ? absolute : live->live + change;
        if (live->live > live->peak)
            live->peak = live->live;
        return;
    }
}

static void add_device(Sums *sums, const DeviceRecord *record)
{
    Block *block = part_block(sums->part, GPU_DEVICE, 0, sizeof(GpuDevice));
    if (block == NULL)
        return;
    GpuDevice *device = (GpuDevice *)(block + 1);
    device->ordinal = record->id;
    device->major = record->major;
    device->minor = record->minor;
    device->multiprocessors = record->multiprocessors;
    device->memcpy_engines = record->memcpy_engines;
    device->memory_bytes = record->memory_bytes;
    device->bandwidth_kib_s = record->bandwidth_kib_s;
    device->constant_bytes = record->constant_bytes;
    device->l2_bytes = record->l2_bytes;
    device->warp_threads = record->warp_threads;
    device->core_clock_khz = record->core_clock_khz;
    device->warps_per_multiprocessor = record->warps_per_multiprocessor;
    device->blocks_per_multiprocessor = record->blocks_per_multiprocessor;
    device->shared_per_multiprocessor = record->shared_per_multiprocessor;
    device->registers_per_multiprocessor = record->registers_per_multiprocessor;
    device->registers_per_block = record->registers_per_block;
    device->shared_per_block = record->shared_per_block;
    device->threads_per_block = record->threads_per_block;
    device->ecc = record->ecc;
    device->mig = record->mig;
    memcpy(device->uuid, record->uuid, sizeof device->uuid);
    if (record->name != NULL)
        snprintf(device->name, sizeof device->name, "%s", record->name);
}

typedef struct Launched {
    uint32_t device, context, stream, graph;
    Span span;
} Launched;

/* What the records of kernels, copies and memsets have in common. */
#define LAUNCHED(record, bytes)                                                                   \
    (Launched){(record)->device, (record)->context, (record)->stream, (record)->graph,            \
               {(record)->start, (record)->end, bytes, (record)->graph_node, (record)->correlation}}

static uint32_t copy_name(uint8_t copy_kind, uint8_t source_kind, uint8_t target_kind,
                          uint8_t flags)
{
    return copy_kind | source_kind << 8 | target_kind << 16 | (flags & 1u) << 24;
}

static void add_launched(Sums *sums, GpuWork *key, Launched launched, NodeOf node_of)
{
    int known = 1;
    key->node = node_of(launched.span.correlation, &known);
    key->device = launched.device;
    key->context = launched.context;
    key->stream = launched.stream;
    sums->counters->lost += !known;
    add_time(sums, key, launched.span, launched.graph ? GPU_IN_GRAPH : 0);
}

void sums_add(Sums *sums, const void *record, NodeOf node_of)
{
    GpuWork key = {0};
    int known = 1;
    key.kind = *(const uint32_t *)record;
    sums->counters->records++;
    switch (key.kind) {
    case RECORD_KERNEL:
    case RECORD_CONCURRENT_KERNEL: {
        const KernelRecord *kernel = record;
        key.kind = RECORD_CONCURRENT_KERNEL;
        key.name = kernel_name(&sums->names, kernel->name);
        memcpy(key.grid, kernel->grid, sizeof key.grid);
        memcpy(key.block, kernel->block, sizeof key.block);
        key.registers = kernel->registers;
        key.static_shared = kernel->static_shared;
        key.dynamic_shared = kernel->dynamic_shared;
        key.local = kernel->local;
        key.shared_executed = kernel->shared_executed;
        key.launch_type = kernel->launch_type;
        sums->counters->kernels++;
        sums->counters->arrived += kernel->graph == 0;
        add_launched(sums, &key, LAUNCHED(kernel, 0), node_of);
        break;
    }
    case RECORD_MEMCPY: {
        const MemcpyRecord *copy = record;
        key.name = copy_name(copy->copy_kind, copy->source_kind, copy->target_kind, copy->flags);
        add_launched(sums, &key, LAUNCHED(copy, copy->bytes), node_of);
        break;
    }
    case RECORD_MEMCPY2: {
        const PeerCopyRecord *copy = record;
        key.name = copy_name(copy->copy_kind, copy->source_kind, copy->target_kind, copy->flags);
        key.unused = copy->source_device << 16 | (copy->target_device & 0xffff);
        add_launched(sums, &key, LAUNCHED(copy, copy->bytes), node_of);
        break;
    }
    case RECORD_MEMSET: {
        const MemsetRecord *set = record;
        key.name = (uint32_t)set->memory_kind << 8 | (set->flags & 1u) << 24;
        add_launched(sums, &key, LAUNCHED(set, set->bytes), node_of);
        break;
    }
    case RECORD_DRIVER:
    case RECORD_RUNTIME: { /* requested only with a trace: callbacks sum the calls */
        const ApiRecord *call = record;
        key.node = node_of(call->correlation, &known);
        key.name = call->callback_id;
        if (known && key.node != 0)
            add_time(sums, &key, (Span){call->start, call->end, 0, 0, call->correlation}, 0);
        break;
    }
    case RECORD_SYNCHRONIZATION: {
        const SynchronizationRecord *wait = record;
        key.node = node_of(wait->correlation, &known);
        key.name = wait->type;
        key.context = wait->context;
        key.stream = wait->stream;
        add_time(sums, &key, (Span){wait->start, wait->end, 0, 0, wait->correlation}, 0);
        break;
    }
    case RECORD_MEMORY2: {
        const MemoryRecord *memory = record;
        key.node = node_of(memory->correlation, &known);
        key.name = memory->memory_kind | memory->operation << 8 | (memory->pool_type & 0xff) << 16;
        key.device = memory->device;
        add_value(sums, &key, memory->bytes, epoch_ns(sums, memory->timestamp));
        add_live(sums, memory->device, memory->memory_kind, 0,
                 memory->operation == 1 ? (int64_t)memory->bytes : -(int64_t)memory->bytes, -1);
        break;
    }
    case RECORD_MEMORY_POOL: {
        const PoolRecord *pool = record;
        uint32_t number = (uint32_t)(pool->address >> 8) | 1;
        add_live(sums, pool->device, LIVE_POOL_SIZE, number, 0, (int64_t)pool->size);
        add_live(sums, pool->device, LIVE_POOL_USED, number, 0, (int64_t)pool->utilized);
        break;
    }
    case RECORD_UNIFIED_MEMORY: {
        const UnifiedRecord *moved = record;
        key.name = moved->counter;
        key.device = moved->source;
        key.context = moved->target;
        add_value(sums, &key, moved->value, epoch_ns(sums, moved->start));
        break;
    }
    case RECORD_DEVICE:
        add_device(sums, record);
        break;
    case RECORD_CONTEXT:
    case RECORD_STREAM:
    case RECORD_OVERHEAD:
    case RECORD_EXTERNAL:
        break;
    default:
        sums->counters->unknown++;
    }
}
