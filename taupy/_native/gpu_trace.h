/* The file of individual activities: blocks, each of one stream, written when full. */
#ifndef TAUPY_GPU_TRACE_H
#define TAUPY_GPU_TRACE_H

#include "gpu_part.h"

typedef struct TraceSlot {
    uint32_t context, stream, device, count;
    GpuTraceRecord *records;
} TraceSlot;

typedef struct Trace {
    int file; /* descriptor; -1: individual activities are not kept */
    int is_full; /* later activities are lost */
    uint64_t *lost; /* counter to increment */
    TraceSlot *slots;
    uint32_t slot_count;
} Trace;

/* Nonzero if memory runs out. */
int trace_begin(Trace *trace, uint64_t *lost);

/* The slot for this device, context and stream. */
uint32_t trace_slot(Trace *trace, const GpuWork *key);
void trace_add(Trace *trace, uint32_t slot, GpuTraceRecord record);
void trace_flush(Trace *trace);

#endif
