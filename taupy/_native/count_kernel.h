/* A launch while kernels are counted: what it launches, with which shape, from where. */
#ifndef TAUPY_COUNT_KERNEL_H
#define TAUPY_COUNT_KERNEL_H

#include "cupti_records.h"
#include <stdint.h>

enum LaunchKind { NO_LAUNCH, LAUNCH, LAUNCH_BY_CONFIG, COOPERATIVE, GRAPH };

/* By the name of the function of the API, as cuptiGetCallbackName tells it. */
enum LaunchKind launch_kind(const char *function);

typedef struct LaunchShape {
    uint32_t grid[3], block[3];
    void *stream, *function; /* the driver's handle; of a runtime call NULL */
    int cooperative;
} LaunchShape;

LaunchShape launch_shape(enum LaunchKind kind, int domain, const void *parameters);

/* Does a kernel of this name wait for other GPUs' kernels? Run one by one they would for ever. */
int communicates(const char *kernel);

/* Launches that are alike: of the same kernel and shape, from the same call path. */
typedef struct Key {
    uint64_t hash, node;
    char *kernel;
    uint32_t grid[3], block[3];
    int device;
    uint64_t tried, counted; /* launches that were tried, and that went well */
    uint64_t passed_over;    /* and that could not be tried */
    struct Key *next;
} Key;

/* The key of such a launch, made if need be; NULL without memory. One caller at a time. */
Key *key_of(const char *kernel, uint64_t node, int device, const LaunchShape *shape);

/* A line of the key, with what is to follow; the caller frees it. */
char *key_text(const char *what, const Key *key);

/* Write how often each was launched. */
void keys_write(void);

#endif
