/* Operations that are told from shapes: what BLAS computes, noted where it was called.
 *
 * blas.c stands between the program and its BLAS and tells us; calls come without the GIL,
 * which is taken only for the first call of its kind at a place. Sums are user events
 * (flop_fp32, flop_fp64, bytes_dram) of the call path, in the part at once. */
#ifndef TAUPY_OPERATIONS_H
#define TAUPY_OPERATIONS_H

#include "listeners.h"

extern Listener operations_listener;

/* From now on what is loaded finds our BLAS first. -1, and dlerror(), if that cannot be. */
int operations_start(const char *library);
void operations_stop(void);

#endif
