/* Counting whole regions (`taupy.region`): everything the GPU does in them. */
#ifndef TAUPY_COUNT_REGION_H
#define TAUPY_COUNT_REGION_H

#include "gpu_host.h"

/* From now on the engine reports where regions begin and end. `driver`: dlopen handle of
 * libcuda. */
void count_regions_begin(GpuHost *host, void *driver);
void count_regions_end(void);

#endif
