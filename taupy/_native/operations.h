/* Operations of BLAS calls, derived from their shapes and recorded at their call paths.
 *
 * blas.c sits between the program and its BLAS and reports to us. Calls come without the GIL, which
 * is taken only for the first call of its kind at a place. Sums are user events (flop_fp32,
 * flop_fp64, bytes_dram) of the call path, written to the part at once. */
#ifndef TAUPY_OPERATIONS_H
#define TAUPY_OPERATIONS_H

#include "listeners.h"

extern Listener operations_listener;

/* Make libraries loaded from now on find our BLAS first. Returns -1, with dlerror() set, on
 * failure. */
int operations_start(const char *library);
void operations_stop(void);

#endif
