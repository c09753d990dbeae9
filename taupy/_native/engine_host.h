/* The engine in this process, from a GPU collector's point of view. */
#ifndef TAUPY_ENGINE_HOST_H
#define TAUPY_ENGINE_HOST_H

#include "gpu_host.h"

/* Its GpuHost, if the version matches and it wants to measure; else NULL. */
GpuHost *engine_host(void);

/* Keep this library loaded: CUPTI and NVTX hold pointers into it for the rest of the process. */
void engine_host_stay(void);

#endif
