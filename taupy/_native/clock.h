/* One monotonic clock for the hot path.
 *
 * The time-stamp counter where the kernel itself uses it (clocksource tsc: constant,
 * synchronised over cores), else CLOCK_MONOTONIC in nanoseconds. A tick's length is
 * known only when the run is over: the part's header keeps pairs of (ticks,
 * nanoseconds) taken at the start and at the end. */
#ifndef TAUPY_CLOCK_H
#define TAUPY_CLOCK_H

#include <stdint.h>
#include <time.h>

extern int clock_uses_tsc;

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t clock_ticks(void)
{
    if (__builtin_expect(clock_uses_tsc, 1))
        return __rdtsc();
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}
#else
static inline uint64_t clock_ticks(void) { return (uint64_t)clock_ns(CLOCK_MONOTONIC); }
#endif

typedef struct ClockPair {
    uint64_t ticks;
    int64_t ns;
} ClockPair;

/* Decide for a clock; call once, before anything reads ticks. */
void clock_choose(void);

/* Ticks and CLOCK_MONOTONIC of the same moment: the tightest of a few readings, since
 * the scheduler may come between the two. */
ClockPair clock_pair(void);

/* CLOCK_REALTIME at a moment of CLOCK_MONOTONIC: ranks of one host are compared by it. */
int64_t clock_epoch(int64_t monotonic_ns);

#endif
