/* State shared by the GPU collector's files (cupti.c); set when it starts. */
#ifndef TAUPY_COLLECTOR_H
#define TAUPY_COLLECTOR_H

#include "cupti_calls.h"
#include "cupti_library.h"
#include "cupti_sums.h"
#include "gpu_host.h"

#define CRASHES_IN_FLUSH 130000 /* CUPTI of CUDA 13.0 before Update 1 */

typedef struct Collector {
    Cupti cupti;
    Sums sums;
    PartHeader *part;
    const GpuHost *host;
    void *subscriber;
    int began; /* 1: measuring; -1: forked child; 2: cannot measure; 3: a replay */
} Collector;

extern Collector collector;

/* Create a part in `folder`, or in memory, and the structures that are summed up into it. Nonzero
 * if memory runs out. */
int collector_begin_sums(const char *folder);

/* Allocate a table for `size` API calls in the part; NULL if there is no room. */
CallTable *collector_call_table(uint64_t size);

/* Note a problem: CUPTI's result for `what`. */
void collector_note(const char *name, const char *what, int result);

/* The collector cannot start or continue. */
void collector_problem(const char *step, int code, const char *text);

/* CUPTI's name for one of its result codes. */
const char *collector_result(int result);

#endif
