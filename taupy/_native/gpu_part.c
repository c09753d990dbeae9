#include "gpu_part.h"
#include <string.h>

Block *gpu_part_text(PartHeader *part, uint32_t kind, uint64_t id, const char *text)
{
    uint64_t size = strlen(text);
    Block *block = part_block(part, kind, 0, sizeof(GpuText) + size + 1);
    if (block != NULL) {
        GpuText *record = (GpuText *)(block + 1);
        memcpy(record + 1, text, size);
        record->size = size;
        record->id = id;
    }
    return block;
}

int gpu_part_note(PartHeader *part, const char *name, const char *value)
{
    return part_pair(part, GPU_NOTE, name, value, strlen(value));
}
