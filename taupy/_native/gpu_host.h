/* What the engine and the GPU collector know of each other.
 *
 * The collector (cupti.c) is a library of its own, without Python, that the CUDA driver
 * itself loads when the program first calls cuInit. It finds this structure in the engine
 * that is loaded in the same process; in a process without one it does nothing. */
#ifndef TAUPY_GPU_HOST_H
#define TAUPY_GPU_HOST_H

#include <stdint.h>

#define GPU_HOST_VERSION 4
#define GPU_HOST_SYMBOL "taupy_gpu_host"

typedef struct GpuPlace {
    uint64_t host;   /* node under which this thread's calls of CUDA's API belong; 0: the
                        thread has no routines of its own */
    uint64_t launch; /* node that launched work belongs to; 0: nobody knows */
} GpuPlace;

/* Of a snapshot: the GPU's work is in it; it could not be had in time; or CUPTI is not asked for it
 * before the end, and only what it gave of itself is there. */
enum { GPU_COPIED = 0, GPU_LATE = -1, GPU_NOT_FLUSHED = 1 };

typedef struct GpuHost {
    uint32_t version;
    uint32_t enabled;           /* measure GPU work in this process, if there is any */
    const char *run_folder;     /* where the collector's part goes */
    const char *spill_prefix;   /* of the path where it goes if that has no room; may be NULL */
    char **libraries;           /* libcupti of wheels and toolkits, best first; may be NULL */
    const char *save_folder;    /* keep CUPTI's buffers as they come, for tests; else NULL */
    const char *modules_folder; /* keep modules that are loaded, up to so many bytes; or NULL */
    uint64_t modules_bytes;
    uint32_t trace;             /* keep single activities */
    uint32_t flush_ms;          /* at most so much is lost to a SIGKILL */
    uint32_t end_ms;            /* at most so long the program's end waits for its GPUs */
    GpuPlace (*place)(void);    /* of the calling thread; takes no lock, needs no GIL */
    uint64_t (*part_start)(void); /* start_ticks of the engine's part; 0: none yet */
    int (*range_push)(const char *); /* a phase begins here; not 0: it cannot */
    void (*range_pop)(void);
    uint64_t (*range_start)(const char *); /* of the process: anyone may end it; 0: not measured */
    void (*range_end)(uint64_t);
    void (*mark)(const char *, const double *payload); /* NULL: it has none */
    uint32_t tried;             /* set by the collector: it has begun, or cannot */
    /* Set by the collector when it has begun. */
    void (*end)(int last);      /* deliver what is under way; `last`: and nothing follows */
    void (*forked)(void);       /* in a forked child */
    int (*snapshot)(const char *path); /* what is complete goes into this file; GPU_COPIED ... */
    void (*region)(int begins); /* of the calling thread; may wait for the GPU; or NULL */
    void (*lend)(int begins);   /* the program's torch.profiler takes CUPTI's records from now
                                   on, or no more; or NULL */
} GpuHost;

/* The other side may be at work on another thread: for `enabled`, `tried`, and what the collector
 * sets. */
#define host_read(host, field) __atomic_load_n(&(host)->field, __ATOMIC_ACQUIRE)
#define host_write(host, field, value) __atomic_store_n(&(host)->field, (value), __ATOMIC_RELEASE)

#endif
