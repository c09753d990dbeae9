#include "native_ranges.h"
#include "gpu_part.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8192 /* a power of two, twice the number of ranges */
#define NAME_BYTES 1023
#define SOURCE_BYTES 4095
#define EXECUTION "program_id=" /* in the name of a range of XLA's: it runs a program */

typedef struct Range {
    struct Range *parent; /* NULL: outermost */
    uint64_t hash;
    uint64_t node; /* in which the outermost one was pushed; 0: none */
    const char *source; /* NULL: unknown */
    uint32_t number;
    uint32_t is_execution; /* it, or one around it */
    char name[];
} Range;

static Range *slots[SLOTS];                          /* by parent and name; atomic */
static Range *by_number[NATIVE_RANGES_AT_MOST + 1]; /* atomic; NULL: lost a race, or pending */
static uint32_t count;                               /* numbers assigned so far, atomic */
static __thread Range *innermost __attribute__((tls_model("initial-exec")));

static uint64_t hash_of(const Range *parent, uint64_t node, const char *name, size_t size)
{
    uint64_t hash = 14695981039346656037ull ^ (uint64_t)parent ^ node;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * 1099511628211ull;
    return hash ^ hash >> 32;
}

static int is(const Range *range, const Range *parent, uint64_t node, uint64_t hash,
              const char *name, size_t size)
{
    return range->hash == hash && range->parent == parent && range->node == node &&
           strncmp(range->name, name, size) == 0 && range->name[size] == 0;
}

static Range *range_new(Range *parent, uint64_t node, uint64_t hash, const char *name, size_t size,
                        const char *source)
{
    uint32_t number = __atomic_load_n(&count, __ATOMIC_RELAXED);
    if (number >= NATIVE_RANGES_AT_MOST ||
        (number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED)) > NATIVE_RANGES_AT_MOST)
        return NULL;
    Range *range = malloc(sizeof *range + size + 1);
    if (range == NULL)
        return NULL;
    *range = (Range){parent, hash, node, source, number, 0};
    memcpy(range->name, name, size);
    range->name[size] = 0;
    range->is_execution = (parent != NULL && parent->is_execution) ||
                          strstr(range->name, EXECUTION) != NULL;
    return range;
}

/* The range of this name within another; NULL if there is no room for it. */
static Range *range_in(Range *parent, uint64_t node, const char *name, const char *source)
{
    size_t size = strnlen(name, NAME_BYTES);
    uint64_t hash = hash_of(parent, node, name, size);
    Range *made = NULL;
    for (uint64_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        Range *range = __atomic_load_n(&slots[i], __ATOMIC_ACQUIRE);
        if (range == NULL && made == NULL &&
            (made = range_new(parent, node, hash, name, size, source)) == NULL)
            return NULL;
        if (range == NULL && __atomic_compare_exchange_n(&slots[i], &range, made, 0,
                                                         __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&by_number[made->number], made, __ATOMIC_RELEASE);
            return made;
        }
        if (is(range, parent, node, hash, name, size)) {
            free(made); /* another thread was first */
            return range;
        }
    }
}

int native_range_push(const char *name, uint64_t node, const char *source)
{
    Range *range = range_in(innermost, innermost != NULL ? innermost->node : node, name, source);
    if (range == NULL)
        return -1;
    innermost = range;
    return 0;
}

void native_range_pop(void)
{
    if (innermost != NULL)
        innermost = innermost->parent;
}

uint32_t native_range(const GpuPlace *place)
{
    if (innermost == NULL || (innermost->node != 0 && innermost->node != place->host))
        return 0;
    if (innermost->node == 0 && place->launch != 0 && !innermost->is_execution)
        return 0;
    return innermost->number;
}

void native_ranges_write(PartHeader *part)
{
    static const PartHeader *written_to;
    static uint8_t written[NATIVE_RANGES_AT_MOST + 1];
    uint32_t most = __atomic_load_n(&count, __ATOMIC_RELAXED);
    if (written_to != part)
        memset(written, 0, sizeof written);
    written_to = part;
    for (uint32_t number = 1; number <= most && number <= NATIVE_RANGES_AT_MOST; number++) {
        Range *range = __atomic_load_n(&by_number[number], __ATOMIC_ACQUIRE);
        if (range == NULL || written[number])
            continue;
        uint64_t parent = range->parent != NULL ? range->parent->number : 0;
        char node[24];
        snprintf(node, sizeof node, "%llx", (unsigned long long)range->node);
        char source[SOURCE_BYTES + 1];
        snprintf(source, sizeof source, "%s", range->source != NULL ? range->source : "");
        if ((parent != 0 || range->node == 0 ||
             gpu_part_text(part, GPU_RANGE_PLACE, number, node) != NULL) &&
            (source[0] == 0 || gpu_part_text(part, GPU_RANGE_SOURCE, number, source) != NULL))
            written[number] =
                gpu_part_text(part, GPU_RANGE, parent << 32 | number, range->name) != NULL;
    }
}
