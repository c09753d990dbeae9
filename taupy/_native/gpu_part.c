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
    uint64_t n = strlen(name), v = strlen(value);
    Block *block = part_block(part, GPU_NOTE, 0, 2 * sizeof(uint64_t) + n + v + 2);
    if (block == NULL)
        return -1;
    uint64_t *sizes = (uint64_t *)(block + 1);
    memcpy((char *)(sizes + 2), name, n);
    memcpy((char *)(sizes + 2) + n + 1, value, v);
    sizes[1] = v;
    sizes[0] = n;
    return 0;
}
