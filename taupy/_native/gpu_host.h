/* Interface between the engine and the GPU collector.
 *
 * The collector (cupti.c) is a separate library without Python, loaded by the CUDA driver itself
 * when the program first calls cuInit. It finds this structure in the engine loaded in the same
 * process; in a process without one it does nothing. */
#ifndef TAUPY_GPU_HOST_H
#define TAUPY_GPU_HOST_H

#include <stdint.h>

#define GPU_HOST_VERSION 4
#define GPU_HOST_SYMBOL "taupy_gpu_host"

typedef struct GpuPlace {
    uint64_t host;   /* node for this thread's CUDA API calls; 0: it has no routines of its own */
    uint64_t launch; /* node that launched work belongs to; 0: unknown */
} GpuPlace;

/* Result of a snapshot: it contains the GPU's work; the work was not available in time; or CUPTI is
 * not flushed before the end, so the snapshot has only records that it delivered unasked. */
enum { GPU_COPIED = 0, GPU_LATE = -1, GPU_NOT_FLUSHED = 1 };

typedef struct GpuHost {
    uint32_t version;
    uint32_t enabled;           /* measure GPU work in this process, if any */
    const char *run_folder;     /* where the collector writes its part */
    const char *spill_prefix;   /* path prefix of the fallback if that has no room; may be NULL */
    char **libraries;           /* libcupti of wheels and toolkits, best first; may be NULL */
    const char *save_folder;    /* save CUPTI's buffers as they arrive, for tests; else NULL */
    const char *modules_folder; /* save loaded modules, up to a byte limit; or NULL */
    uint64_t modules_bytes;
    uint32_t trace;             /* keep individual activities */
    uint32_t flush_ms;          /* at most this much is lost to a SIGKILL */
    uint32_t end_ms;            /* longest wait for the GPUs at program exit */
    GpuPlace (*place)(void);    /* of the calling thread; takes no lock, needs no GIL */
    uint64_t (*part_start)(void); /* start_ticks of the engine's part; 0: none yet */
    int (*range_push)(const char *); /* a phase begins here; nonzero: it cannot */
    void (*range_pop)(void);
    uint64_t (*range_start)(const char *); /* process-wide: any thread may end it; 0: unmeasured */
    void (*range_end)(uint64_t);
    void (*mark)(const char *, const double *payload); /* payload NULL: none */
    uint32_t tried;             /* set by the collector: it has started, or cannot */
    /* Set by the collector once it has started. */
    void (*end)(int last);      /* deliver pending work; `last`: nothing will follow */
    void (*forked)(void);       /* in a forked child */
    int (*snapshot)(const char *path); /* write completed work to this file; GPU_COPIED ... */
    void (*region)(int begins); /* for the calling thread; may wait for the GPU; or NULL */
    void (*lend)(int begins);   /* torch.profiler takes or returns CUPTI's records; or NULL */
} GpuHost;

/* CUPTI's callback, of the collector. */
typedef void CollectorCallback(void *user, int domain, uint32_t id, const void *data);
#define COLLECTOR_TAKES "taupy_gpu_take"
typedef CollectorCallback *CollectorTakes(GpuHost *host, void *subscriber);

/* For fields the other side may access on another thread: `enabled`, `tried`, and those the
 * collector sets. */
#define host_read(host, field) __atomic_load_n(&(host)->field, __ATOMIC_ACQUIRE)
#define host_write(host, field, value) __atomic_store_n(&(host)->field, (value), __ATOMIC_RELEASE)

#endif
