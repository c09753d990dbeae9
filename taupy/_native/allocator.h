/* Memory held by PyTorch's CUDA caching allocator, which is invisible to other processes.
 *
 * At the end of a window (memory.h), at most every 2 ms and rarely enough to stay below half a
 * percent of the time, the engine calls `torch._C._cuda_memoryStats`, which returns the allocator's
 * own statistics: it resets nothing, waits for no GPU and does not initialise one. It is called
 * only once the program itself has started using CUDA, and for the calling thread's device.
 *
 * The latest values are in the part, where the watch finds them. The main thread compares them with
 * its previous reading: growth is charged to the routine that was innermost throughout; if others
 * were entered meanwhile, it is recorded as "between looks", at the innermost routine that was open
 * throughout. Other threads read the statistics only if the main thread has not done so for a
 * while; growth they find is not charged to a routine. */
#ifndef TAUPY_ALLOCATOR_H
#define TAUPY_ALLOCATOR_H

#include "listeners.h"

#define ALLOCATOR_DEVICES 16

typedef struct AllocatorRecord { /* in bytes; read by taupy/watch/part_threads.py */
    uint64_t allocated, reserved, allocated_peak, reserved_peak;
} AllocatorRecord;

extern Listener allocator_listener;

void allocator_start(void);

#endif
