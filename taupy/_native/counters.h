/* Counters of a thread, by perf_event_open: one group of events a thread, all counting at
 * once or not at all. No Python here.
 *
 * A metric is a weighted sum of events (flop on Intel: one event a vector width). A group
 * is read by rdpmc in its own thread where the kernel allows it, else by read(). Two signs
 * that a count cannot be trusted are looked for at every reading: events that did not count
 * all the time (multiplexed), and values that no program reaches (a broken virtual PMU).
 *
 * Groups are kept in memory of the process's own, never in the part: a forked child must
 * find and close the descriptors that it inherits, while its parent goes on. */
#ifndef TAUPY_COUNTERS_H
#define TAUPY_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#define COUNTER_EVENTS_AT_MOST 8
#define COUNTER_METRICS_AT_MOST 4
#define COUNTER_UNBELIEVABLE (1ull << 46)

enum CounterFault {
    COUNTER_MULTIPLEXED = 1,  /* time enabled and time running differ */
    COUNTER_UNREADABLE = 2,   /* its descriptor was closed by the program, or worse */
    COUNTER_NONSENSE = 4,     /* a value that no program reaches, or that fell */
};

typedef struct CounterEvent {
    uint32_t type, metric;
    uint64_t config, weight;
} CounterEvent;

typedef struct CounterGroup { /* never freed, used again by a later thread */
    atomic_int in_use;
    int by_rdpmc, faults;
    int tid; /* the thread that it counts */
    int descriptors[COUNTER_EVENTS_AT_MOST];
    volatile struct perf_event_mmap_page *pages[COUNTER_EVENTS_AT_MOST];
    uint64_t running_ns; /* at the last read() */
    struct CounterGroup *next;
} CounterGroup;

extern CounterEvent counter_events[COUNTER_EVENTS_AT_MOST];
extern int counter_event_count;  /* 0: no counters */
extern int counter_metric_count;
extern int counter_rdpmc_wanted; /* as the launcher found out */
extern CounterGroup *_Atomic counter_groups;

/* `inherit`: with all threads that it will start, and theirs; read one by one, not as a group. */
int counter_open_event(const CounterEvent *event, int tid, int leader, int inherit);
void counter_close(CounterGroup *group, int forked);
/* Count in thread `tid` (0: this one) from now on. NULL, and errno, if that cannot be;
 * `failed`, if not NULL, gets the position of the event that was refused. */
CounterGroup *counter_open(int tid, int *failed);
/* The events' values by read(), from any thread. -1 if they cannot be read. */
int counter_read_events(CounterGroup *group, uint64_t *values);
/* The events' values; by rdpmc if this is the group's own thread and it may. */
int counter_values(CounterGroup *group, int own_thread, uint64_t *values);
/* The metrics' values, zeros where they cannot be read. */
void counter_metrics(CounterGroup *group, int own_thread, uint64_t *metrics);
/* In a forked child: the parent's groups are none of its business. */
void counters_forget(void);
void counters_close(void);

#endif
