/* What the parts of the played CUPTI know of each other. */
#pragma once
#include "played.h"

int version(); /* of CUDA: 1300 for 13.0 */

/* Is this the size of a structure in this version of CUPTI? NVIDIA's know older ones, too (tried with
 * the host functions of 13.1); whether that goes for all of them nobody can tell without a GPU. */
int is_known_size(const char *structure, size_t size);
#define SIZED(structure, p)                                                                        \
    if (!is_known_size(#structure, (p)->structSize) || is_finalized(#structure))                   \
        return CUPTI_ERROR_INVALID_PARAMETER

int is_finalized(const char *structure); /* then nothing may be called */

void *driver();
int driver_is_ready();

/* Where the calling thread is called back. */
enum Place { ELSEWHERE, LAUNCH_BEGINS, LAUNCH_ENDS, CONTEXT_BEGINS };
extern thread_local Place place;

int is_wanted(CUpti_ActivityKind kind);
void record(const void *record, size_t size);
void finalize_activities();
void forget_records(uint32_t context); /* what was not handed back of a context that is gone */

int is_counted(CUcontext context);
void counted(const Kernel *kernel);
void ranges_arrive(); /* a call has ended */
void forget_ranges(CUcontext context);

/* What a configuration holds. */
struct Config {
    uint64_t magic, type, metrics, calls, has_sass, has_availability, lacks;
};
#define CONFIG_MAGIC 0x434F4E464947ull

/* What a range's data image holds; a sampling's is another. */
struct RangeData {
    uint64_t magic, ranges, works[512];
};
#define RANGES_MAGIC 0x52414E474553ull
int is_range_data(const uint8_t *image, size_t size);
CUptiResult evaluate_range(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p);
