/* CUPTI's data for a counted kernel, saved unchanged so that it can be evaluated again without a
 * GPU: for tests (TAUPY_GPU_SAVE). */
#ifndef TAUPY_COUNT_IMAGE_H
#define TAUPY_COUNT_IMAGE_H

#include "count_config.h"

/* For the first counted kernel of each context: PID-DEVICE.config, .available and .data are CUPTI's
 * images; PID-DEVICE.values has one line with CUPTI's version, the chip and the index of the range,
 * then one line per metric with its value. */
void count_image_keep(CountContext *here, const double *values);

#endif
