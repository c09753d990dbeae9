/* Sums of records: one row per launched item, call path and configuration.
 *
 * Used by one thread at a time: the worker, or a replay. Memory is bounded: with too many distinct
 * rows, configurations are folded first, then call paths; how often that happens is counted. */
#ifndef TAUPY_CUPTI_SUMS_H
#define TAUPY_CUPTI_SUMS_H

#include "gpu_names.h"
#include "gpu_trace.h"

typedef struct Sums {
    PartHeader *part;
    GpuCounters *counters;
    GpuLive *live;
    GpuWork **table; /* hash table, by the fields that identify them */
    uint32_t *numbers; /* parallel to `table`: the work's index in the part */
    uint64_t mask, count, limit;
    GpuWork *block;
    uint32_t block_left;
    KernelNames names;
    Trace trace;
    uint64_t tsc_start, realtime_start; /* the same moment; 0 in a replay */
} Sums;

/* The node that a launch belongs to; see calls_node. */
typedef uint64_t (*NodeOf)(uint32_t correlation, int *known);

/* `limit`: maximum number of rows. Nonzero if memory runs out. */
int sums_begin(Sums *sums, PartHeader *part, uint64_t limit);

/* From now on, time stamps may also be x86's time-stamp counter. */
void sums_begin_clock(Sums *sums);

/* Add one CUPTI record. */
void sums_add(Sums *sums, const void *record, NodeOf node_of);

#endif
