/* Nested NVTX push/pop ranges of threads that do not hold the interpreter. GPU work that such a
 * thread launches is attributed to them, below the call path in which the outermost was pushed, if
 * the thread has one: XLA pushes a range per module, and one per operation in it, on threads of its
 * own or on that of the caller. No lock is taken. */
#ifndef TAUPY_NATIVE_RANGES_H
#define TAUPY_NATIVE_RANGES_H

#include "gpu_host.h"
#include "part.h"

#define NATIVE_RANGES_AT_MOST 4095

/* The calling thread is in this range until `native_range_pop`. `node`: its call path; 0: none.
 * `source`: its source locations, a string that stays; NULL: none are known.
 * Nonzero: too many distinct ranges, so it remains in the outer one. */
int native_range_push(const char *name, uint64_t node, const char *source);
void native_range_pop(void);

/* The calling thread's innermost range: 1 to NATIVE_RANGES_AT_MOST; 0: none. `place`: the thread's
 * place without ranges. A range from which the thread's routines have gone on, or returned, is
 * none; nor, where another thread lends its place, one that is not of an execution of XLA's. */
uint32_t native_range(const GpuPlace *place);

/* Write new ranges into the part, as GPU_RANGE blocks, and blocks with its place
 * and source. One thread at a time. */
void native_ranges_write(PartHeader *part);

#endif
