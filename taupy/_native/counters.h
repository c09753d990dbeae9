/* Per-thread counters through perf_event_open: one group of events per thread, which all count at
 * the same time or not at all. No Python here.
 *
 * A metric is a weighted sum of events (flop on Intel: one event per vector width). A group is read
 * with rdpmc on its own thread where the kernel allows it, otherwise with read(). Every reading
 * checks for two signs of unreliable counts: events that did not count all the time (multiplexing),
 * and values that no program can reach (a broken virtual PMU).
 *
 * Groups are kept in private memory, never in the part: a forked child must be able to find and
 * close the descriptors it inherits while its parent continues. */
#ifndef TAUPY_COUNTERS_H
#define TAUPY_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#define COUNTER_EVENTS_AT_MOST 8
#define COUNTER_METRICS_AT_MOST 4
#define COUNTER_UNBELIEVABLE (1ull << 46)

enum CounterFault {
    COUNTER_MULTIPLEXED = 1,  /* time enabled and time running differ */
    COUNTER_UNREADABLE = 2,   /* its descriptor was closed, by the program for example */
    COUNTER_NONSENSE = 4,     /* an impossibly large value, or one that decreased */
};

typedef struct CounterEvent {
    uint32_t type, metric;
    uint64_t config, weight;
} CounterEvent;

typedef struct CounterGroup { /* never freed; reused by a later thread */
    atomic_int in_use;
    int by_rdpmc, faults;
    int tid; /* the thread being counted */
    int descriptors[COUNTER_EVENTS_AT_MOST];
    volatile struct perf_event_mmap_page *pages[COUNTER_EVENTS_AT_MOST];
    uint64_t running_ns; /* at the last read() */
    struct CounterGroup *next;
} CounterGroup;

extern CounterEvent counter_events[COUNTER_EVENTS_AT_MOST];
extern int counter_event_count;  /* 0: no counters */
extern int counter_metric_count;
extern int counter_rdpmc_wanted; /* as determined by the launcher */
extern CounterGroup *_Atomic counter_groups;

/* Move a descriptor to a high number, so that the program's own files get their usual ones. */
int counter_descriptor_moved(int low);

/* Let the table of descriptors grow as far as that. In a process with threads Linux waits for all
 * processors (RCU) before it grows: 5 to 28 ms, in the program's first layer. */
void counter_descriptors_begin(void);
/* `inherit`: include all threads it will start, and theirs; events are then read one by one, not as
 * a group. */
int counter_open_event(const CounterEvent *event, int tid, int leader, int inherit);
void counter_close(CounterGroup *group, int forked);
/* Start counting on thread `tid` (0: this one). Returns NULL, with errno set, on failure; `failed`,
 * if not NULL, is set to the index of the refused event. */
CounterGroup *counter_open(int tid, int *failed);
/* Read the event values with read(), on any thread. Returns -1 on failure. */
int counter_read_events(CounterGroup *group, uint64_t *values);
/* Read the event values; with rdpmc if this is the group's own thread and rdpmc is allowed. */
int counter_values(CounterGroup *group, int own_thread, uint64_t *values);
/* The metrics' values; zeros, and -1, if they cannot be read. */
int counter_metrics(CounterGroup *group, int own_thread, uint64_t *metrics);
/* In a forked child: drop the parent's groups. */
void counters_forget(void);
void counters_close(void);

#endif
