/* The engine in this process, as a GPU collector finds it. */
#ifndef TAUPY_ENGINE_HOST_H
#define TAUPY_ENGINE_HOST_H

#include "gpu_host.h"

/* Its side of the measurement, if it is of our version and wants any; else NULL. */
GpuHost *engine_host(void);

/* CUPTI and NVTX hold pointers into this library for the rest of the process. */
void engine_host_stay(void);

#endif
