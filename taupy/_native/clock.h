/* One monotonic clock for the hot path.
 *
 * The time-stamp counter if the kernel itself uses it (clocksource tsc: constant, synchronised
 * across cores), else CLOCK_MONOTONIC in nanoseconds. The length of a tick is known only at the end
 * of the run: the part's header keeps pairs of (ticks, nanoseconds) taken at the start and at the
 * end. */
#ifndef TAUPY_CLOCK_H
#define TAUPY_CLOCK_H

#include <stdint.h>
#include <time.h>

extern int clock_uses_tsc;

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec now = {0}; /* a filter may forbid the call */
    clock_gettime(id, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* `clock_fast_ticks` does not check which clock is in use; call it only if `clock_is_fast`. */
#if defined(__x86_64__)
static inline int clock_is_fast(void) { return clock_uses_tsc; }
static inline uint64_t clock_fast_ticks(void) { return __builtin_ia32_rdtsc(); }
static inline uint64_t clock_ticks(void)
{
    if (__builtin_expect(clock_uses_tsc, 1))
        return __builtin_ia32_rdtsc();
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}
#else
static inline int clock_is_fast(void) { return 1; }
static inline uint64_t clock_ticks(void) { return (uint64_t)clock_ns(CLOCK_MONOTONIC); }
static inline uint64_t clock_fast_ticks(void) { return clock_ticks(); }
#endif

typedef struct ClockPair {
    uint64_t ticks;
    int64_t ns;
} ClockPair;

/* As `clock_ns`, from the C library itself: a library that is loaded before it (libfaketime) may give
 * the program a clock that stands still or jumps. For the engine only. */
int64_t clock_true_ns(clockid_t id);

/* Choose a clock; call once, before any ticks are read. */
void clock_choose(void);

/* Ticks and CLOCK_MONOTONIC at the same moment: the tightest of a few readings, because the thread
 * may be preempted between the two. */
ClockPair clock_pair(void);

/* CLOCK_REALTIME at a given CLOCK_MONOTONIC time; used to compare ranks on one host. */
int64_t clock_epoch(int64_t monotonic_ns);

#endif
