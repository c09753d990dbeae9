/* What happens in the program's own threads: CUPTI calls us at the beginning and the end of
 * each call of CUDA's API. No lock, no allocation, no system call but once a thread.
 *
 * At the beginning the call-path node is noted under the call's correlation id, by which
 * records of kernels and copies find it; at the end the call's time is added to its row. */
#ifndef TAUPY_CUPTI_CALLS_H
#define TAUPY_CUPTI_CALLS_H

#include "gpu_host.h"
#include "gpu_part.h"

#define CORRELATIONS (1u << 21) /* calls whose places are known: the last two million */
#define FIRST_TABLE 1024
#define IDS_AT_MOST 4096

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
    void (*begin_worker)(void);         /* with the first context or call */
    void (*begin_unified_memory)(void); /* with the first allocation of such memory */
    int closed;                         /* callbacks do nothing; atomically */
    int worker_begun;                   /* the thread that sums up; atomically */
} Calls;

extern Calls calls;

/* Room for places by correlation id, all of it unused memory yet; NULL: there is none. */
uint64_t *calls_ring(void);

/* CUPTI's callback for both domains of calls, and for contexts. */
void calls_on_callback(void *user, int domain, uint32_t id, const void *data);

/* The node that a launch belongs to, 0: nobody knows. `known`: was the launch seen? */
uint64_t calls_node(uint32_t correlation, int *known);

/* The calling thread is the collector's own: its calls are not the program's. */
void calls_be_ours(void);

#endif
