/* Opening and reading counter groups; see counters.h. */
#define _GNU_SOURCE
#include "counters.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

CounterEvent counter_events[COUNTER_EVENTS_AT_MOST];
int counter_event_count, counter_metric_count, counter_rdpmc_wanted;
CounterGroup *_Atomic counter_groups;

int counter_descriptor_moved(int low)
{
    struct rlimit limit;
    if (low < 0)
        return -1;
    int from = 512;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        from = limit.rlim_cur > 8192 ? 4096 : (int)(limit.rlim_cur / 2);
    int high = fcntl(low, F_DUPFD_CLOEXEC, from);
    if (high < 0)
        return low;
    close(low);
    return high;
}

void counter_descriptors_begin(void)
{
    int high = counter_descriptor_moved(open("/", O_PATH | O_CLOEXEC));
    if (high >= 0)
        close(high);
}

int counter_open_event(const CounterEvent *event, int tid, int leader, int inherit)
{
    struct perf_event_attr wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.type = event->type;
    wanted.config = event->config;
    wanted.exclude_kernel = 1;
    wanted.exclude_hv = 1;
    wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    if (inherit) {
        wanted.inherit = 1;
#ifdef PERF_ATTR_SIZE_VER7
        wanted.inherit_thread = 1; /* but not forked processes */
#else
        errno = EINVAL;
        return -1;
#endif
    } else {
        wanted.read_format |= PERF_FORMAT_GROUP;
        wanted.disabled = leader < 0; /* the leader starts them all at once */
    }
    if (wanted.type == PERF_TYPE_BREAKPOINT) { /* the config is its address: for tests */
        wanted.bp_addr = event->config;
        wanted.config = 0;
        wanted.bp_type = 4; /* HW_BREAKPOINT_X */
        wanted.bp_len = sizeof(long);
    }
    return counter_descriptor_moved(
        (int)syscall(SYS_perf_event_open, &wanted, tid, -1, leader, PERF_FLAG_FD_CLOEXEC));
}

void counter_close(CounterGroup *group, int forked)
{
    for (int i = 0; i < counter_event_count; i++) {
        /* A child does not get the mapped pages; their addresses may be in use for something
         * else. */
        if (group->pages[i] != NULL && !forked)
            munmap((void *)group->pages[i], (size_t)sysconf(_SC_PAGESIZE));
        group->pages[i] = NULL;
        if (group->descriptors[i] >= 0)
            close(group->descriptors[i]);
        group->descriptors[i] = -1;
    }
    atomic_store(&group->in_use, 0);
}

CounterGroup *counter_open(int tid, int *failed)
{
    CounterGroup *group;
    int none = 0;
    for (group = atomic_load(&counter_groups); group != NULL; group = group->next)
        if (none = 0, atomic_compare_exchange_strong(&group->in_use, &none, 1))
            break;
    if (group == NULL) {
        if ((group = calloc(1, sizeof *group)) == NULL)
            return NULL;
        atomic_store(&group->in_use, 1);
        group->next = atomic_load(&counter_groups);
        while (!atomic_compare_exchange_weak(&counter_groups, &group->next, group))
            ;
    }
    group->tid = tid ? tid : (int)syscall(SYS_gettid);
    group->faults = 0;
    group->by_rdpmc = 0;
    group->running_ns = 0;
    for (int i = 0; i < COUNTER_EVENTS_AT_MOST; i++) {
        group->descriptors[i] = -1;
        group->pages[i] = NULL;
    }
    for (int i = 0; i < counter_event_count; i++) {
        group->descriptors[i] =
            counter_open_event(&counter_events[i], tid, i ? group->descriptors[0] : -1, 0);
        if (group->descriptors[i] < 0) {
            int why = errno;
            if (failed != NULL)
                *failed = i;
            counter_close(group, 0);
            errno = why;
            return NULL;
        }
    }
#if defined(__x86_64__)
    if (tid == 0 && counter_rdpmc_wanted) {
        group->by_rdpmc = 1;
        for (int i = 0; i < counter_event_count && group->by_rdpmc; i++) {
            void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
                              group->descriptors[i], 0);
            if (page == MAP_FAILED)
                group->by_rdpmc = 0;
            else
                group->pages[i] = page;
        }
    }
#endif
    ioctl(group->descriptors[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
    for (int i = 0; i < counter_event_count && group->by_rdpmc; i++)
        group->by_rdpmc = group->pages[i]->cap_user_rdpmc && group->pages[i]->index != 0;
    return group;
}

int counter_read_events(CounterGroup *group, uint64_t *values)
{
    uint64_t data[3 + COUNTER_EVENTS_AT_MOST]; /* count, enabled, running, values */
    int saved = errno;
    ssize_t wanted = (3 + counter_event_count) * (ssize_t)sizeof *data;
    ssize_t n = read(group->descriptors[0], data, sizeof data);
    errno = saved;
    if (n != wanted || data[0] != (uint64_t)counter_event_count) {
        group->faults |= COUNTER_UNREADABLE;
        return -1;
    }
    if (data[1] != data[2])
        group->faults |= COUNTER_MULTIPLEXED;
    group->running_ns = data[2];
    memcpy(values, data + 3, (size_t)counter_event_count * sizeof *values);
    return 0;
}

#if defined(__x86_64__)
/* Read an event's value with rdpmc, on its own thread. Returns -1 if the event is not on a hardware
 * counter at the moment. */
static inline int counter_rdpmc(volatile struct perf_event_mmap_page *page, uint64_t *value)
{
    uint32_t before;
    do {
        before = page->lock;
        atomic_signal_fence(memory_order_seq_cst);
        uint32_t index = page->index;
        int64_t count = page->offset;
        if (index == 0)
            return -1;
        uint32_t low, high;
        __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
        unsigned unused_bits = 64 - page->pmc_width;
        count += (int64_t)(((uint64_t)high << 32 | low) << unused_bits) >> unused_bits;
        *value = (uint64_t)count;
        atomic_signal_fence(memory_order_seq_cst);
    } while (page->lock != before);
    return 0;
}
#else
static inline int counter_rdpmc(volatile struct perf_event_mmap_page *page, uint64_t *value)
{
    (void)page, (void)value;
    return -1;
}
#endif

int counter_values(CounterGroup *group, int own_thread, uint64_t *values)
{
    if (own_thread && group->by_rdpmc) {
        int i = 0;
        while (i < counter_event_count && counter_rdpmc(group->pages[i], &values[i]) == 0)
            i++;
        if (i == counter_event_count)
            return 0;
    }
    return counter_read_events(group, values);
}

int counter_metrics(CounterGroup *group, int own_thread, uint64_t *metrics)
{
    uint64_t values[COUNTER_EVENTS_AT_MOST];
    memset(metrics, 0, (size_t)counter_metric_count * sizeof *metrics);
    if (group == NULL || counter_values(group, own_thread, values) != 0)
        return -1;
    for (int i = 0; i < counter_event_count; i++)
        metrics[counter_events[i].metric] += counter_events[i].weight * values[i];
    return 0;
}

void counters_forget(void)
{
    for (CounterGroup *group = atomic_load(&counter_groups); group != NULL; group = group->next)
        if (atomic_load(&group->in_use))
            counter_close(group, 1);
}

void counters_close(void)
{
    for (CounterGroup *group = atomic_load(&counter_groups); group != NULL; group = group->next)
        if (atomic_load(&group->in_use))
            counter_close(group, 0);
}
