/* Pushed NVTX ranges of threads without Python, nested: where the work belongs that such a thread
 * launches. XLA's pools push one for each module and one for each operation in it.
 *
 * Any thread pushes, with or without the interpreter; no lock is taken. */
#ifndef TAUPY_NATIVE_RANGES_H
#define TAUPY_NATIVE_RANGES_H

#include "part.h"

#define NATIVE_RANGES_AT_MOST 4095

/* The calling thread is in this range now, until `native_range_pop`. Not 0: there are too many
 * distinct ones, and it stays in the outer one. */
int native_range_push(const char *name);
void native_range_pop(void);

/* The calling thread's innermost range: 1 to NATIVE_RANGES_AT_MOST; 0: it is in none. */
uint32_t native_range(void);

/* Those that are new go into the part, as GPU_RANGE blocks. By one thread at a time. */
void native_ranges_write(PartHeader *part);

#endif
