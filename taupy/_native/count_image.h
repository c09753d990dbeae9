/* What CUPTI gave of a counted kernel, kept as it is, so that it can be evaluated again without a GPU:
 * for tests (TAUPY_GPU_SAVE). */
#ifndef TAUPY_COUNT_IMAGE_H
#define TAUPY_COUNT_IMAGE_H

#include "count_config.h"

/* Of each context's first counted kernel: PID-DEVICE.config, .available and .data, CUPTI's images, and
 * PID-DEVICE.values: a line of CUPTI's version, the chip and the number of the range, then one of each
 * metric and its value. */
void count_image_keep(CountContext *here, const double *values);

#endif
