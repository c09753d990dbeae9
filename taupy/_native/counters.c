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

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static CounterEvent counter_events[COUNTER_EVENTS_AT_MOST];
static int counter_event_count;  /* 0: no counters */
static int counter_metric_count;
static int counter_rdpmc_wanted; /* as the launcher found out */
static CounterGroup *_Atomic counter_groups;

/* A high number, so that the program's own files get the numbers that they always get. */
static int counter_descriptor_moved(int low)
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

/* `inherit`: with all threads that it will start, and theirs; read one by one, not as a group. */
static int counter_open_event(const CounterEvent *event, int tid, int leader, int inherit)
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
        wanted.inherit_thread = 1; /* and not a forked process */
#else
        errno = EINVAL;
        return -1;
#endif
    } else {
        wanted.read_format |= PERF_FORMAT_GROUP;
        wanted.disabled = leader < 0; /* the leader starts them all at one moment */
    }
    if (wanted.type == PERF_TYPE_BREAKPOINT) { /* its address is the config: for tests */
        wanted.bp_addr = event->config;
        wanted.config = 0;
        wanted.bp_type = 4; /* HW_BREAKPOINT_X */
        wanted.bp_len = sizeof(long);
    }
    return counter_descriptor_moved(
        (int)syscall(SYS_perf_event_open, &wanted, tid, -1, leader, PERF_FLAG_FD_CLOEXEC));
}

static void counter_close(CounterGroup *group, int forked)
{
    for (int i = 0; i < counter_event_count; i++) {
        /* The kernel does not give a child the pages; their addresses may be another's. */
        if (group->pages[i] != NULL && !forked)
            munmap((void *)group->pages[i], (size_t)sysconf(_SC_PAGESIZE));
        group->pages[i] = NULL;
        if (group->descriptors[i] >= 0)
            close(group->descriptors[i]);
        group->descriptors[i] = -1;
    }
    atomic_store(&group->in_use, 0);
}

/* Count in thread `tid` (0: this one) from now on. NULL, and errno, if that cannot be;
 * `failed`, if not NULL, gets the position of the event that was refused. */
static CounterGroup *counter_open(int tid, int *failed)
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

/* The events' values by read(), from any thread. -1 if they cannot be read. */
static int counter_read_events(CounterGroup *group, uint64_t *values)
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
/* One event's value in its own thread; -1 if it is not on the processor's counters now. */
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

/* The events' values; by rdpmc if this is the group's own thread and it may. */
static int counter_values(CounterGroup *group, int own_thread, uint64_t *values)
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

/* The metrics' values, zeros where they cannot be read. */
static void counter_metrics(CounterGroup *group, int own_thread, uint64_t *metrics)
{
    uint64_t values[COUNTER_EVENTS_AT_MOST];
    memset(metrics, 0, (size_t)counter_metric_count * sizeof *metrics);
    if (group == NULL || counter_values(group, own_thread, values) != 0)
        return;
    for (int i = 0; i < counter_event_count; i++)
        metrics[counter_events[i].metric] += counter_events[i].weight * values[i];
}

/* In a forked child: the parent's groups are none of its business. */
static void counters_forget(void)
{
    for (CounterGroup *group = atomic_load(&counter_groups); group != NULL; group = group->next)
        if (atomic_load(&group->in_use))
            counter_close(group, 1);
}

static void counters_close(void)
{
    for (CounterGroup *group = atomic_load(&counter_groups); group != NULL; group = group->next)
        if (atomic_load(&group->in_use))
            counter_close(group, 0);
}

/* ------------------------------------------------------------------ known work
 *
 * Loops whose operations are known, to test counters with. All have ten instructions an
 * iteration, one of them a branch. */

enum KnownWork { WORK_NONE, WORK_SCALAR, WORK_FMA256, WORK_FMA512, WORK_LINES, WORK_PAGES };

#if defined(__x86_64__)
#define KNOWN_LOOP(count, one, ...)                                                                \
    __asm__ volatile("1:\n\t" one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7)              \
                     "decq %0\n\tjnz 1b"                                                           \
                     : "+r"(count)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",  \
                       "xmm7", "memory")
#define ONE_ADD(n) "addsd %%xmm" #n ", %%xmm" #n "\n\t"
#define ONE_FMA256(n) "vfmadd231pd %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n\t"
#define ONE_FMA512(n) "vfmadd231pd %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"

/* Operands are zeros: others would become denormal or infinite, and slow. */
static void known_scalar(uint64_t count)
{
    __asm__ volatile("xorps %%xmm0, %%xmm0\n\txorps %%xmm1, %%xmm1\n\txorps %%xmm2, %%xmm2\n\t"
                     "xorps %%xmm3, %%xmm3\n\txorps %%xmm4, %%xmm4\n\txorps %%xmm5, %%xmm5\n\t"
                     "xorps %%xmm6, %%xmm6\n\txorps %%xmm7, %%xmm7" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
    KNOWN_LOOP(count, ONE_ADD);
}

static void known_fma256(uint64_t count)
{
    __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    KNOWN_LOOP(count, ONE_FMA256);
    __asm__ volatile("vzeroupper");
}

static void known_fma512(uint64_t count)
{
    __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    KNOWN_LOOP(count, ONE_FMA512);
    __asm__ volatile("vzeroupper");
}

/* Lines of 64 bytes from memory: written and put out of all caches before. */
static void known_lines_prepare(char *memory, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        memory[i * 64] = (char)i;
        __asm__ volatile("clflush (%0)" ::"r"(memory + i * 64) : "memory");
    }
    __asm__ volatile("mfence" ::: "memory");
}

static int known_work_possible(enum KnownWork work)
{
    if (work == WORK_FMA256)
        return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    if (work == WORK_FMA512)
        return __builtin_cpu_supports("avx512f");
    return 1;
}
#else
static void known_scalar(uint64_t count) { (void)count; }
static void known_fma256(uint64_t count) { (void)count; }
static void known_fma512(uint64_t count) { (void)count; }
static void known_lines_prepare(char *memory, uint64_t count) { (void)memory, (void)count; }
static int known_work_possible(enum KnownWork work)
{
    return work == WORK_NONE || work == WORK_PAGES;
}
#endif

/* `memory`: for lines and pages. */
static void known_work(enum KnownWork work, uint64_t count, volatile char *memory)
{
    if (work == WORK_SCALAR)
        known_scalar(count);
    else if (work == WORK_FMA256)
        known_fma256(count);
    else if (work == WORK_FMA512)
        known_fma512(count);
    else if (work == WORK_LINES)
        for (uint64_t i = 0; i < count; i++)
            (void)memory[i * 64];
    else if (work == WORK_PAGES)
        for (uint64_t i = 0; i < count; i++)
            memory[i * 4096] = 1;
}

#endif
