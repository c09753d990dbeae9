/* Memory that PyTorch's CUDA caching allocator holds, which no other process can see.
 *
 * At the end of a window (memory.h), each 2 ms at most and so rarely that it takes half a percent
 * of the time, the engine calls `torch._C._cuda_memoryStats`, which tells what the allocator has
 * noted: it resets nothing, waits for no GPU and begins no use of one. It is asked only once the
 * program itself has begun to use CUDA, and of the calling thread's device.
 *
 * The latest values stand in the part, where the watch finds them. The main thread compares them
 * with its last reading: growth is charged to the routine that was innermost all the time; if
 * others were entered meanwhile it is "between looks", at the innermost routine that has been open
 * all the time. Other threads read where the main thread does not come by, and charge nothing. */
#ifndef TAUPY_ALLOCATOR_H
#define TAUPY_ALLOCATOR_H

#include "listeners.h"

#define ALLOCATOR_DEVICES 16

typedef struct AllocatorRecord { /* in bytes; the reader is taupy/watch/part_threads.py */
    uint64_t allocated, reserved, allocated_peak, reserved_peak;
} AllocatorRecord;

extern Listener allocator_listener;

void allocator_start(void);

#endif
