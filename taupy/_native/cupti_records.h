/* CUPTI's activity records and callback data, to the extent they are read here.
 *
 * From CUDA 12.3 to 13.5, records only grew at their ends, so these prefixes fit all versions.
 * CUPTI itself handles record sizes (cuptiActivityGetNextRecord); the table at the end is for
 * replaying saved buffers where there is no CUPTI. */
#ifndef TAUPY_CUPTI_RECORDS_H
#define TAUPY_CUPTI_RECORDS_H

#include <stddef.h>
#include <stdint.h>

enum RecordKind {
    RECORD_MEMCPY = 1,
    RECORD_MEMSET = 2,
    RECORD_KERNEL = 3,
    RECORD_DRIVER = 4,
    RECORD_RUNTIME = 5,
    RECORD_DEVICE = 8,
    RECORD_CONTEXT = 9,
    RECORD_CONCURRENT_KERNEL = 10,
    RECORD_OVERHEAD = 17,
    RECORD_MEMCPY2 = 22, /* between devices */
    RECORD_UNIFIED_MEMORY = 25,
    RECORD_STREAM = 37,
    RECORD_SYNCHRONIZATION = 38,
    RECORD_EXTERNAL = 39,
    RECORD_MEMORY2 = 49,
    RECORD_MEMORY_POOL = 50,
};

typedef struct KernelRecord { /* CUpti_ActivityKernel9 and later */
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t global_cache_requested, global_cache_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    uint32_t grid[3], block[3];
    uint32_t static_shared, dynamic_shared;
    uint32_t local, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
    uint32_t shared_limit_config, graph;
} KernelRecord;
_Static_assert(offsetof(KernelRecord, correlation) == 92, "kernel");
_Static_assert(offsetof(KernelRecord, name) == 104, "kernel");
_Static_assert(offsetof(KernelRecord, graph) == 156, "kernel");

typedef struct MemcpyRecord { /* CUpti_ActivityMemcpy5 and later */
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags; /* flags & 1: asynchronous */
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint32_t runtime_correlation, padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} MemcpyRecord;
_Static_assert(offsetof(MemcpyRecord, correlation) == 44, "memcpy");
_Static_assert(offsetof(MemcpyRecord, graph_node) == 64, "memcpy");

typedef struct PeerCopyRecord { /* CUpti_ActivityMemcpyPtoP4 */
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t source_device, source_context, target_device, target_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} PeerCopyRecord;
_Static_assert(offsetof(PeerCopyRecord, correlation) == 60, "peer copy");
_Static_assert(offsetof(PeerCopyRecord, graph_node) == 72, "peer copy");

typedef struct MemsetRecord { /* CUpti_ActivityMemset4 and later */
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} MemsetRecord;
_Static_assert(offsetof(MemsetRecord, correlation) == 44, "memset");
_Static_assert(offsetof(MemsetRecord, graph_node) == 64, "memset");

typedef struct ApiRecord { /* CUpti_ActivityAPI */
    uint32_t kind, callback_id;
    uint64_t start, end;
    uint32_t process, thread, correlation, result;
} ApiRecord;
_Static_assert(offsetof(ApiRecord, correlation) == 32, "api");

typedef struct SynchronizationRecord { /* CUpti_ActivitySynchronization and later */
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
} SynchronizationRecord;
_Static_assert(offsetof(SynchronizationRecord, correlation) == 24, "synchronization");

typedef struct MemoryRecord { /* CUpti_ActivityMemory3 and later */
    uint32_t kind, operation, memory_kind, correlation; /* operation: 1 allocate, 2 release */
    uint64_t address, bytes, timestamp, pc;
    uint32_t process, device, context, stream;
    const char *name;
    uint32_t is_async, padding;
    uint32_t pool_type, pool_padding; /* 0: no pool */
    uint64_t pool_address;
} MemoryRecord;
_Static_assert(offsetof(MemoryRecord, device) == 52, "memory");
_Static_assert(offsetof(MemoryRecord, pool_type) == 80, "memory");

typedef struct PoolRecord { /* CUpti_ActivityMemoryPool2 and later */
    uint32_t kind, operation, pool_type, correlation, process, device;
    uint64_t minimum_bytes;
    uint64_t address, size, threshold, timestamp, utilized;
} PoolRecord;
_Static_assert(offsetof(PoolRecord, utilized) == 64, "pool");

typedef struct UnifiedRecord { /* CUpti_ActivityUnifiedMemoryCounter2 and later */
    uint32_t kind, counter;
    uint64_t value, start, end, address;
    uint32_t source, target, stream, process;
} UnifiedRecord;
_Static_assert(offsetof(UnifiedRecord, source) == 40, "unified memory");

typedef struct UnifiedConfig { /* CUpti_ActivityUnifiedMemoryCounterConfig */
    uint32_t scope, counter, device, enable;
} UnifiedConfig;
enum { ALL_DEVICES = 2 }; /* a scope: all devices of the process */

typedef struct DeviceRecord { /* CUpti_ActivityDevice4 and later */
    uint32_t kind, flags;
    uint64_t bandwidth_kib_s, memory_bytes;
    uint32_t constant_bytes, l2_bytes, warp_threads, core_clock_khz;
    uint32_t memcpy_engines, multiprocessors, max_ipc;
    uint32_t warps_per_multiprocessor, blocks_per_multiprocessor;
    uint32_t shared_per_multiprocessor, registers_per_multiprocessor;
    uint32_t registers_per_block, shared_per_block, threads_per_block;
    uint32_t block_dimensions[3], grid_dimensions[3];
    uint32_t major, minor, id, ecc;
    uint8_t uuid[16];
    const char *name;
    uint8_t visible, mig;
} DeviceRecord;
_Static_assert(offsetof(DeviceRecord, major) == 104, "device");
_Static_assert(offsetof(DeviceRecord, name) == 136, "device");

typedef struct CallbackData { /* CUpti_CallbackData */
    int site; /* 0: start of the call, 1: end */
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation;
} CallbackData;
_Static_assert(offsetof(CallbackData, correlation) == 64, "callback data");

typedef struct ResourceData { /* CUpti_ResourceData */
    void *context;
} ResourceData;

typedef struct StateData { /* CUpti_StateData */
    int result;
    const char *message; /* or NULL */
} StateData;

enum { DOMAIN_DRIVER = 1, DOMAIN_RUNTIME = 2, DOMAIN_RESOURCE = 3, DOMAIN_STATE = 6 };
enum { STATE_FATAL = 1, STATE_ERROR = 2, STATE_WARNING = 3 }; /* FATAL: CUPTI has given up */
enum { RESOURCE_CONTEXT_CREATED = 1, RESOURCE_CONTEXT_DESTROY = 2 };
enum { CUPTI_MAX_LIMIT_REACHED = 12 };

static inline const char *state_name(uint32_t id)
{
    return id == STATE_FATAL ? "fatal error" : id == STATE_ERROR ? "error" : "warning";
}

/* Size in bytes of a record by CUDA version (1206 for 12.6); 0: no such kind. Later versions are
 * treated as the newest one known. Source: NVIDIA's headers of 12.6 to 13.5. */
static inline size_t record_size(uint32_t kind, int cuda)
{
    switch (kind) {
    case RECORD_KERNEL:
    case RECORD_CONCURRENT_KERNEL:
        return cuda < 1300 ? 208 : cuda < 1301 ? 216 : cuda < 1303 ? 224 : cuda < 1304 ? 232 : 248;
    case RECORD_MEMCPY:
        return cuda < 1208 ? 88 : cuda < 1304 ? 96 : 112;
    case RECORD_MEMCPY2:
        return 96;
    case RECORD_MEMSET:
        return cuda < 1304 ? 88 : 104;
    case RECORD_DRIVER:
    case RECORD_RUNTIME:
        return 40;
    case RECORD_DEVICE:
        return cuda < 1302 ? 184 : 192;
    case RECORD_CONTEXT:
        return cuda < 1301 ? 32 : 40;
    case RECORD_OVERHEAD:
        return 56;
    case RECORD_STREAM:
    case RECORD_EXTERNAL:
        return 24;
    case RECORD_SYNCHRONIZATION:
        return cuda < 1208 ? 40 : 56;
    case RECORD_MEMORY2:
        return 128;
    case RECORD_MEMORY_POOL:
        return cuda < 1300 ? 72 : 80;
    case RECORD_UNIFIED_MEMORY:
        return cuda < 1208 ? 64 : 104;
    default:
        return 0;
    }
}

/* CUDA version for a cuptiGetVersion result; 0 if unknown. */
static inline int cuda_version_of(uint32_t cupti)
{
    if (cupti >= 130000)
        return (int)(cupti / 10000 * 100 + cupti / 100 % 100);
    switch (cupti) { /* numbered consecutively before CUDA 13 */
    case 18: return 1200;
    case 21: return 1203;
    case 22: return 1204;
    case 23: return 1205;
    case 24: return 1206;
    case 26: return 1208;
    case 27: return 1209;
    case 28: return 1209;
    default: return cupti > 28 && cupti < 100 ? 1209 : 0;
    }
}

#endif
