/* NVTX ranges of the program's threads become phases or user events.
 *
 * The NVTX header checks NVTX_INJECTION64_PATH at the program's first range and calls
 * InitializeInjectionNvtx2 in the library named there, which is this one: no CUDA needed. Push/pop
 * ranges are phases; on threads that do not hold the interpreter (XLA's, NCCL's) they only serve to
 * attribute GPU work. Start/end ranges and marks are user events. Everything is passed on to the
 * engine; names of domains and categories are dropped. */
#ifndef TAUPY_NVTX_H
#define TAUPY_NVTX_H

#include "gpu_host.h"
#include <stddef.h>

typedef void (*NvtxFunction)(void);

typedef struct NvtxCallbacks {
    size_t size;
    int (*function_table)(int module, NvtxFunction ***table, unsigned *size);
} NvtxCallbacks;

/* From now on, pass ranges and marks to the engine. */
void nvtx_take(const NvtxCallbacks *callbacks, const GpuHost *host);

#endif
