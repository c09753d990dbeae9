/* The file of single activities: blocks of one stream each, written when they are full. */
#ifndef TAUPY_GPU_TRACE_H
#define TAUPY_GPU_TRACE_H

#include "gpu_part.h"

typedef struct TraceSlot {
    uint32_t context, stream, device, count;
    GpuTraceRecord *records;
} TraceSlot;

typedef struct Trace {
    int file; /* descriptor; -1: no single activities are kept */
    int is_full; /* what comes now is lost */
    uint64_t *lost; /* is added to */
    TraceSlot *slots;
    uint32_t slot_count;
} Trace;

/* Not 0: there is no memory. */
int trace_begin(Trace *trace, uint64_t *lost);

/* Which slot is of the device, context and stream. */
uint32_t trace_slot(Trace *trace, const GpuWork *key);
void trace_add(Trace *trace, uint32_t slot, GpuTraceRecord record);
void trace_flush(Trace *trace);

#endif
