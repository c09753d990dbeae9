/* Nested NVTX push/pop ranges on threads without Python. GPU work that such a thread launches is
 * attributed to them: XLA's thread pools push a range per module, and one per operation in it. Any
 * thread may push, with or without the interpreter; no lock is taken. */
#ifndef TAUPY_NATIVE_RANGES_H
#define TAUPY_NATIVE_RANGES_H

#include "part.h"

#define NATIVE_RANGES_AT_MOST 4095

/* The calling thread is in this range until `native_range_pop`. Nonzero: too many distinct ranges,
 * so it remains in the outer one. */
int native_range_push(const char *name);
void native_range_pop(void);

/* The calling thread's innermost range: 1 to NATIVE_RANGES_AT_MOST; 0: none. */
uint32_t native_range(void);

/* Write new ranges into the part, as GPU_RANGE blocks. One thread at a time. */
void native_ranges_write(PartHeader *part);

#endif
