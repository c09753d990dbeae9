/* The CPU time of a thread. */
#include "metrics.h"

static uint64_t cpu_time(Thread *thread, int own)
{
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
    if (!own && (thread_is_over(thread) || pthread_getcpuclockid(thread->pthread, &clock) != 0))
        return (uint64_t)thread->cpu_ns;
    return (uint64_t)clock_ns(clock);
}

const MetricSource metric_cpu_time = {"cpu_time", "ns", 1, cpu_time};
