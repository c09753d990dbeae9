/* A launch while kernels are counted: the kernel, its shape, and the call path. */
#ifndef TAUPY_COUNT_KERNEL_H
#define TAUPY_COUNT_KERNEL_H

#include "cupti_records.h"
#include <stdint.h>

enum LaunchKind { NO_LAUNCH, LAUNCH, LAUNCH_BY_CONFIG, COOPERATIVE, GRAPH };

/* By API function name, as returned by cuptiGetCallbackName. */
enum LaunchKind launch_kind(const char *function);

typedef struct LaunchShape {
    uint32_t grid[3], block[3];
    void *stream;
    int cooperative;
} LaunchShape;

LaunchShape launch_shape(enum LaunchKind kind, int domain, const void *parameters);

/* Whether a kernel of this name waits for kernels on other GPUs. Run one at a time, these would
 * wait forever. */
int communicates(const char *kernel);

/* A group of like launches: same kernel, shape and call path. */
typedef struct Key {
    uint64_t hash, node;
    char *kernel;
    uint32_t grid[3], block[3];
    int device;
    uint64_t tried, counted; /* launches attempted, and counted successfully */
    uint64_t passed_over;    /* launches that could not be attempted */
    struct Key *next;
} Key;

/* The key for such a launch, created if necessary; NULL if memory runs out. One caller at a
 * time. */
Key *key_of(const char *kernel, uint64_t node, int device, const LaunchShape *shape);

/* A line describing the key, ready for more to be appended; the caller frees it. */
char *key_text(const char *what, const Key *key);

/* Write the number of launches of each key. */
void keys_write(void);

#endif
