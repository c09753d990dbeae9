#include "gpu_trace.h"
#include "append.h"
#include <stdlib.h>

#define SLOTS_AT_MOST 256
#define TRACE_BLOCK 1024

int trace_begin(Trace *trace, uint64_t *lost)
{
    *trace = (Trace){.file = -1, .lost = lost};
    trace->slots = calloc(SLOTS_AT_MOST, sizeof *trace->slots);
    return trace->slots != NULL ? 0 : -1;
}

uint32_t trace_slot(Trace *trace, const GpuWork *key)
{
    uint32_t i = 0;
    for (; i < trace->slot_count; i++)
        if (trace->slots[i].context == key->context && trace->slots[i].stream == key->stream &&
            trace->slots[i].device == key->device)
            return i;
    if (i == SLOTS_AT_MOST)
        return SLOTS_AT_MOST - 1; /* shared: the reader goes by the row */
    trace->slots[i] = (TraceSlot){key->context, key->stream, key->device, 0, NULL};
    trace->slot_count++;
    return i;
}

static void slot_flush(Trace *trace, TraceSlot *slot)
{
    GpuTraceBlock head = {GPU_TRACE_MAGIC, (uint32_t)(slot - trace->slots), slot->count};
    if (slot->count == 0 || trace->file < 0)
        return;
    /* A partially written block ends what can be read of the file. */
    trace->is_full |= append_whole(trace->file, &head, sizeof head, slot->records,
                                   slot->count * sizeof *slot->records) != 0;
    if (trace->is_full)
        *trace->lost += slot->count;
    slot->count = 0;
}

void trace_flush(Trace *trace)
{
    for (uint32_t i = 0; i < trace->slot_count && trace->file >= 0; i++)
        slot_flush(trace, &trace->slots[i]);
}

void trace_add(Trace *trace, uint32_t where, GpuTraceRecord record)
{
    TraceSlot *slot = &trace->slots[where];
    if (slot->records == NULL &&
        (slot->records = malloc(TRACE_BLOCK * sizeof *slot->records)) == NULL) {
        ++*trace->lost;
        return;
    }
    slot->records[slot->count++] = record;
    if (slot->count == TRACE_BLOCK)
        slot_flush(trace, slot);
}
