/* What the parts of the GPU collector (cupti.c) have in common; set when it begins. */
#ifndef TAUPY_COLLECTOR_H
#define TAUPY_COLLECTOR_H

#include "cupti_calls.h"
#include "cupti_library.h"
#include "cupti_sums.h"
#include "gpu_host.h"

#define CRASHES_IN_FLUSH 130000 /* CUPTI of CUDA 13.0 before its update 1 */

typedef struct Collector {
    Cupti cupti;
    Sums sums;
    PartHeader *part;
    const GpuHost *host;
    void *subscriber;
    int began; /* 1: it measures; -1: in a fork's child; 2, 3: it cannot, a replay */
} Collector;

extern Collector collector;

/* A new part in `folder`, or in memory, and all that is summed up into it. Not 0: no memory. */
int collector_begin_sums(const char *folder);

/* Room in the part for so many calls of the API; NULL: there is none. */
CallTable *collector_call_table(uint64_t size);

/* A problem is noted: CUPTI's answer to `what`. */
void collector_note(const char *name, const char *what, int result);

/* It cannot begin, or go on. */
void collector_problem(const char *step, int code, const char *text);

/* CUPTI's word for an answer of its. */
const char *collector_result(int result);

#endif
