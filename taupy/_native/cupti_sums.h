/* Records summed up: one row for what was launched, from where, with which configuration.
 *
 * Used by one thread at a time, the worker (or a replay). Memory is bounded: when there
 * are too many distinct rows, configurations are folded first, then call paths; how often
 * is counted. */
#ifndef TAUPY_CUPTI_SUMS_H
#define TAUPY_CUPTI_SUMS_H

#include "gpu_names.h"
#include "gpu_trace.h"

typedef struct Sums {
    PartHeader *part;
    GpuCounters *counters;
    GpuLive *live;
    GpuWork **table; /* hash of what they are */
    uint32_t *numbers; /* of the same places: how-many-th of the part */
    uint64_t mask, count, limit;
    GpuWork *block;
    uint32_t block_left;
    KernelNames names;
    Trace trace;
} Sums;

/* The node that a launch belongs to: see calls_node. */
typedef uint64_t (*NodeOf)(uint32_t correlation, int *known);

/* `limit`: rows. Not 0: there is no memory. */
int sums_begin(Sums *sums, PartHeader *part, uint64_t limit);

/* One record of CUPTI's. */
void sums_add(Sums *sums, const void *record, NodeOf node_of);

#endif
