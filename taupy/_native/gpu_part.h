/* The GPU part: the GPU work of one process, in a single memory-mapped file.
 *
 * The container is that of part.h (header, chunks, blocks) with a magic number of its own; nodes
 * are addresses in the engine's part of the same process. The reader is
 * taupy/collectors/gpu_layout.py: change both together, and GPU_PART_VERSION with them. */
#ifndef TAUPY_GPU_PART_H
#define TAUPY_GPU_PART_H

#include "part.h"

#include <stddef.h>

#define GPU_PART_MAGIC "TAUPYGPU"
#define GPU_PART_VERSION 2
#define GPU_THREADS_AT_MOST 1000
#define GPU_LIVE_AT_MOST 128

enum GpuBlockKind {
    GPU_COUNTERS = 16, /* GpuCounters, a single one */
    GPU_NAME = 17,     /* GpuText: a kernel's name */
    GPU_WORK = 18,     /* GpuWork[], unused entries at the end */
    GPU_CALLS = 19,    /* GpuCall[]: CUDA API calls by the host, a hash table */
    GPU_CALL_NAME = 20, /* GpuText: id = domain << 12 | callback id */
    GPU_THREADS = 21,  /* GpuThread[GPU_THREADS_AT_MOST]: threads without routines */
    GPU_DEVICE = 22,   /* GpuDevice */
    GPU_NOTE = 23,     /* like BLOCK_METADATA: a fact or a problem */
    GPU_LIVE = 24,     /* GpuLive[GPU_LIVE_AT_MOST]: memory in use */
    GPU_RANGE = 25,    /* GpuText: id = parent << 32 | number; see native_ranges.h */
    GPU_MODULE = 26,   /* GpuModule */
    GPU_RANGE_PLACE = 27, /* GpuText: id = number of an outermost range; its node, in hexadecimal */
    GPU_RANGE_SOURCE = 28, /* GpuText: id = number of a range; its source locations */
};

typedef struct GpuText {
    uint64_t id, size; /* followed by a NUL-terminated string */
} GpuText;

/* Sums over everything launched with one configuration from one call path. The first 80 bytes are
 * the key. Times are in nanoseconds; for memory and counters, these fields hold values. */
typedef struct GpuWork {
    uint64_t node; /* 0: launch not seen; number << 6 of a GPU_RANGE */
    uint32_t kind; /* CUpti_ActivityKind */
    uint32_t name; /* id of a GPU_NAME, or the kind of copy: see cupti_records.h */
    uint32_t device, context, stream, unused;
    uint32_t grid[3], block[3];
    uint32_t registers, static_shared, dynamic_shared, local, shared_executed, launch_type;
    /* the sums */
    uint64_t count, untimed, time, minimum, maximum, bytes;
    double squares;
    uint64_t first, last; /* nanoseconds since the epoch */
    uint32_t flags, slot; /* GPU_IN_GRAPH; slot: stream in the trace */
    uint64_t least_bytes, most_bytes;
    double bytes_squares;
    uint64_t unused_too;
} GpuWork;
#define GPU_WORK_KEY_BYTES 80
_Static_assert(sizeof(GpuWork) == 192, "GpuWork");
_Static_assert(offsetof(GpuWork, count) == GPU_WORK_KEY_BYTES, "GpuWork");
_Static_assert(offsetof(GpuWork, squares) == 128, "GpuWork");
_Static_assert(offsetof(GpuWork, flags) == 152, "GpuWork");
enum { GPU_IN_GRAPH = 1, GPU_FOLDED = 2 };

/* key = node >> 6 << 14 | domain << 12 | callback id; a thread without routines has its number
 * instead of the node. Written by the calling threads themselves. */
typedef struct GpuCall {
    uint64_t key, calls, ticks, unused;
} GpuCall;

typedef struct GpuThread {
    uint64_t native_id;
    char name[24];
} GpuThread;

typedef struct GpuDevice {
    uint64_t ordinal;
    uint32_t major, minor, multiprocessors, memcpy_engines;
    uint64_t memory_bytes, bandwidth_kib_s;
    uint32_t constant_bytes, l2_bytes, warp_threads, core_clock_khz;
    uint32_t warps_per_multiprocessor, blocks_per_multiprocessor;
    uint32_t shared_per_multiprocessor, registers_per_multiprocessor;
    uint32_t registers_per_block, shared_per_block, threads_per_block, ecc;
    uint8_t uuid[16];
    uint32_t mig, unused;
    char name[128];
} GpuDevice;
_Static_assert(offsetof(GpuDevice, uuid) == 88, "GpuDevice");
_Static_assert(sizeof(GpuDevice) == 240, "GpuDevice");

enum { LIVE_POOL_SIZE = 100, LIVE_POOL_USED = 101 };

typedef struct GpuLive {
    uint32_t used, device, kind, pool; /* kind: CUpti_ActivityMemoryKind, or one of the above */
    int64_t live, peak;                /* bytes */
} GpuLive;
_Static_assert(offsetof(GpuLive, live) == 16 && sizeof(GpuLive) == 32, "GpuLive");

typedef struct GpuModule { /* code that the program loaded onto a GPU */
    uint8_t hash[32]; /* SHA-256, with GPU_MODULE_HASHED */
    uint64_t size, loads;
    uint64_t loaded; /* first time; nanoseconds since the epoch */
    uint64_t flags;
} GpuModule;
_Static_assert(sizeof(GpuModule) == 64, "GpuModule");
enum { GPU_MODULE_HASHED = 1, GPU_MODULE_KEPT = 2 };

typedef struct GpuCounters {
    uint64_t state;           /* GpuState */
    uint64_t records, buffers;
    uint64_t launches;        /* calls that start work on a GPU, except refused ones */
    uint64_t kernels;         /* kernel records */
    uint64_t untimed;         /* records for which the GPU gave no times */
    uint64_t dropped;         /* as reported by CUPTI */
    uint64_t lost;            /* records whose launch was not seen */
    uint64_t unknown;         /* records of kinds we did not request */
    uint64_t refused;         /* buffers refused for lack of memory */
    uint64_t calls_lost;      /* API calls for which there was no room */
    uint64_t folded;          /* launches whose configuration or call path was merged */
    uint64_t flush_timed_out;
    uint64_t trace_lost;      /* activities that could not be written */
    uint64_t walk_errors;     /* buffers that CUPTI could not read completely */
    int64_t realtime_start, monotonic_start, realtime_end, monotonic_end;
    uint64_t told;            /* launches when the last buffer came: are buffers still ours? */
    uint64_t lent;            /* launches whose records torch.profiler took */
    uint64_t lendings;        /* number of times it took any */
    uint64_t expected;        /* launches of one kernel each, outside of captures and graphs */
    uint64_t arrived;         /* records of kernels outside of graphs */
    uint64_t converted;       /* records with another client's time stamps, now nanoseconds */
} GpuCounters;

enum GpuState { GPU_STARTING = 0, GPU_RUNNING = 1, GPU_FAILED = 2, GPU_ENDED = 3 };

/* The trace file: blocks, each of one stream. */
#define GPU_TRACE_MAGIC 0x45434152u
typedef struct GpuTraceBlock {
    uint32_t magic, slot;
    uint64_t count;
} GpuTraceBlock;

typedef struct GpuTraceRecord {
    uint64_t start, end, bytes, graph_node;
    uint32_t work, correlation; /* work: index of the GpuWork in the part */
} GpuTraceRecord;
_Static_assert(sizeof(GpuTraceRecord) == 40, "GpuTraceRecord");

/* Store a string, or a fact, in a block of its own; NULL, or nonzero: no room. */
Block *gpu_part_text(PartHeader *part, uint32_t kind, uint64_t id, const char *text);
int gpu_part_note(PartHeader *part, const char *name, const char *value);

#endif
