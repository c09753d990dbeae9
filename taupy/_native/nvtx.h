/* NVTX ranges of the program's threads become phases, or user events.
 *
 * NVTX's header looks for NVTX_INJECTION64_PATH at the program's first range and calls
 * InitializeInjectionNvtx2 in the library named there, which is this one: no CUDA needed.
 * Pushed and popped ranges are phases; those of threads that do not hold the interpreter
 * (XLA's, NCCL's) only tell where work on a GPU comes from. Ranges that start here and end
 * there, and marks, are user events.
 * All is passed on to the engine; names of domains and categories are not told. */
#ifndef TAUPY_NVTX_H
#define TAUPY_NVTX_H

#include "gpu_host.h"
#include <stddef.h>

typedef void (*NvtxFunction)(void);

typedef struct NvtxCallbacks {
    size_t size;
    int (*function_table)(int module, NvtxFunction ***table, unsigned *size);
} NvtxCallbacks;

/* From now on ranges and marks are the engine's. */
void nvtx_take(const NvtxCallbacks *callbacks, const GpuHost *host);

#endif
