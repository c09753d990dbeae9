/* CUPTI's callbacks on the program's own threads, at the start and the end of each CUDA API call.
 * They take no lock, allocate nothing, and make no system call except once per thread.
 *
 * At the start, the call-path node is stored under the call's correlation id, by which records of
 * kernels and copies find it; at the end, the call's time is added to its row. */
#ifndef TAUPY_CUPTI_CALLS_H
#define TAUPY_CUPTI_CALLS_H

#include "gpu_host.h"
#include "gpu_part.h"

#define CORRELATIONS (1u << 21) /* calls whose node is known: the last two million */
#define FIRST_TABLE 1024
#define IDS_AT_MOST 4096

typedef struct CallTable {
    uint64_t mask;
    GpuCall *calls;
    uint64_t used; /* by callers, atomic */
} CallTable;

typedef struct Calls {
    const GpuHost *host;
    GpuCounters *counters;
    uint64_t *ring;
    CallTable *table; /* the newest; older ones are only kept in the part */
    GpuThread *threads;
    uint64_t thread_count;
    uint8_t interest[3][IDS_AT_MOST];
    void *contexts[64];
    void (*begin_worker)(void);         /* on the first context or call */
    void (*begin_unified_memory)(void); /* on the first allocation of managed memory */
    void (*context_ends)(void);         /* a context is about to be destroyed */
    int closed;                         /* callbacks do nothing; atomic */
    int worker_begun;                   /* the worker thread; atomic */
} Calls;

extern Calls calls;

/* Reserve the table of nodes by correlation id; untouched pages take no memory. NULL on failure. */
uint64_t *calls_ring(void);

/* CUPTI's callback for both API domains and for contexts. */
void calls_on_callback(void *user, int domain, uint32_t id, const void *data);

/* The node that a launch belongs to; 0: unknown. `known`: whether the launch was seen. */
uint64_t calls_node(uint32_t correlation, int *known);

/* The calling thread belongs to the collector: do not count its calls as the program's. */
void calls_be_ours(void);

#endif
