/* Finding native threads and reading their counters; see natives.h. */
#define _GNU_SOURCE
#include "guard.h"
#include "natives.h"
#include "counters.h"
#include "metrics.h"
#include "process.h"
#include "thread.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Native {
    int tid;
    CounterGroup *group;   /* NULL: ended, or could not be opened */
    Thread *row;           /* NULL: nothing counted yet */
    uint64_t running_ns;   /* CPU time covered by its counters */
    uint64_t before[COUNTER_METRICS_AT_MOST];
    int seen;              /* during the current scan */
    struct Native *next;
} Native;

static Native *natives;
static uint64_t natives_nlink; /* link count of the task directory at the last look */
static uint64_t ended_sums[COUNTER_METRICS_AT_MOST]; /* totals of Python threads that have ended */
static int whole_wanted, whole_is_open;
static int whole_descriptors[COUNTER_EVENTS_AT_MOST];
static Native whole; /* all native threads together */

void natives_start(int is_whole)
{
    whole_wanted = is_whole;
    natives = NULL;
    natives_nlink = 0;
}

/* The innermost open region, if exactly one thread has any; else NULL. */
static Node *region_open(void)
{
    Node *found = NULL;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        if (thread_is_over(thread))
            continue;
        Node *node = visible(thread);
        while (node->parent != NULL && !node->region)
            node = node->parent;
        if (node->parent == NULL)
            continue;
        if (found != NULL)
            return NULL;
        found = node;
    }
    return found;
}

static Thread *native_row(Native *native)
{
    Block *block = part_block(part, BLOCK_THREAD, (uint32_t)thread_count, sizeof(Thread));
    if (block == NULL)
        return NULL;
    block->unused[BLOCK_THREAD_NATIVE] = 1;
    Thread *row = (Thread *)(block + 1);
    row->index = thread_count++;
    row->native_id = (uint64_t)native->tid;
    row->root.last = row->hidden.last = &nowhere;
    row->root.region = REGION_PHASE;
    row->cursor = &row->root;
    row->root.t0 = clock_ticks();
    char path[64], name[32] = "threads\n";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", native->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, name, sizeof name - 1);
        name[n > 0 ? n : 0] = 0;
        close(fd);
    }
    name[strcspn(name, "\n")] = 0;
    snprintf(row->name, sizeof row->name, "native %s", name);
    guard_thread(row);
    return native->row = row;
}

/* The row's node for the same call path. */
static Node *native_node(Thread *row, const Node *node)
{
    if (node == NULL || node->parent == NULL)
        return &row->root;
    Node *parent = native_node(row, node->parent), *found = node_find(row, parent, node->key);
    Routine *routine = routine_find((void *)((uint64_t)node->key & ~KEY_THROTTLED));
    if (found != NULL || routine == NULL)
        return found != NULL ? found : parent;
    if ((found = node_new(row, parent, node->key)) == NULL)
        return parent;
    routine_add_node(routine, found);
    return found;
}

/* Add `more` to the row's node for `region`. */
static void native_add(Native *native, const Node *region, const uint64_t *more, int faults)
{
    int any = 0;
    for (int i = 0; i < counter_metric_count; i++)
        any |= more[i] != 0;
    if (!any && !faults)
        return;
    if (native->row == NULL && native_row(native) == NULL)
        return;
    if (faults)
        counters_tell(native->row, faults, 0);
    for (Node *node = native_node(native->row, region); node != NULL; node = node->parent)
        for (int i = 0; i < counter_metric_count; i++)
            node_metrics(node)[2 * (source_count + i) + 1] += more[i];
}

/* Credit what it has counted since the last time. */
static void native_credit(Native *native, const Node *region)
{
    uint64_t now[COUNTER_METRICS_AT_MOST], more[COUNTER_METRICS_AT_MOST];
    if (native->group == NULL)
        return;
    counter_metrics(native->group, 0, now);
    native->running_ns = native->group->running_ns;
    for (int i = 0; i < counter_metric_count; i++) {
        more[i] = now[i] - native->before[i];
        if (more[i] >= COUNTER_UNBELIEVABLE) {
            native->group->faults |= COUNTER_NONSENSE;
            more[i] = 0;
        }
        native->before[i] = now[i];
    }
    native_add(native, region, more, native->group->faults);
}

static void whole_close(void)
{
    for (int i = 0; i < counter_event_count && whole_is_open; i++)
        close(whole_descriptors[i]);
    whole_is_open = 0;
    memset(&whole, 0, sizeof whole);
    memset(ended_sums, 0, sizeof ended_sums);
}

/* Start counting all threads together; there must be no other thread yet. */
static void whole_begin(void)
{
    struct stat folder;
    int opened = 0;
    if (!whole_wanted || stat("/proc/self/task", &folder) != 0 || folder.st_nlink != 3)
        return;
    for (; opened < counter_event_count; opened++)
        if ((whole_descriptors[opened] =
                 counter_open_event(&counter_events[opened], 0, -1, 1)) < 0)
            break;
    whole_is_open = 1;
    if (opened == counter_event_count)
        return;
    while (opened-- > 0)
        close(whole_descriptors[opened]);
    whole_is_open = 0;
}

/* Counts of all threads minus those of the Python threads. The total is read first: anything
 * counted meanwhile is missing now and included next time. */
static void whole_credit(const Node *region)
{
    uint64_t data[3], more[COUNTER_METRICS_AT_MOST], known[COUNTER_METRICS_AT_MOST];
    int64_t now[COUNTER_METRICS_AT_MOST] = {0};
    int faults = 0;
    for (int i = 0; i < counter_event_count; i++) {
        if (read(whole_descriptors[i], data, sizeof data) != (ssize_t)sizeof data) {
            faults |= COUNTER_UNREADABLE;
            break;
        }
        if (data[1] != data[2])
            faults |= COUNTER_MULTIPLEXED;
        now[counter_events[i].metric] += (int64_t)(counter_events[i].weight * data[0]);
    }
    pthread_mutex_lock(&ended_lock);
    for (int i = 0; i < counter_metric_count; i++)
        now[i] -= (int64_t)ended_sums[i];
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        if (thread_is_over(thread) || thread->counters == NULL)
            continue;
        counter_metrics(thread->counters, thread == this_thread, known);
        for (int i = 0; i < counter_metric_count; i++)
            now[i] -= (int64_t)known[i];
    }
    pthread_mutex_unlock(&ended_lock);
    for (int i = 0; i < counter_metric_count; i++) {
        int64_t before = (int64_t)whole.before[i];
        more[i] = now[i] > before && !faults ? (uint64_t)(now[i] - before) : 0;
        if (more[i] >= COUNTER_UNBELIEVABLE) {
            faults |= COUNTER_NONSENSE;
            more[i] = 0;
        }
        whole.before[i] += more[i];
    }
    native_add(&whole, region, more, faults);
}

static void on_thread_end(Thread *thread)
{
    uint64_t last[COUNTER_METRICS_AT_MOST];
    metrics_flush(thread);
    CounterGroup *group = thread->counters;
    thread->counters = NULL;
    if (group == NULL)
        return;
    counter_metrics(group, 1, last);
    for (int i = 0; i < counter_metric_count; i++)
        ended_sums[i] += last[i];
    counter_close(group, 0);
}

void counters_stop(void)
{
    pthread_mutex_lock(&ended_lock);
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        thread->counters = NULL;
    counters_close();
    whole_close();
    pthread_mutex_unlock(&ended_lock);
}

/* In a forked child, none of the parent's counters continue. */
static void on_fork(const Thread *thread)
{
    (void)thread;
    counters_forget();
    whole_close();
    natives = NULL;
}

/* Whether one more counter group may be opened: the program needs file descriptors, too, so we use
 * at most a quarter of them. */
static int natives_room(void)
{
    struct rlimit limit;
    uint64_t used = 0;
    for (CounterGroup *group = atomic_load(&counter_groups); group != NULL; group = group->next)
        used += (uint64_t)(atomic_load(&group->in_use) ? counter_event_count : 0);
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           used + (uint64_t)counter_event_count <= limit.rlim_cur / 4;
}

static void native_found(int tid)
{
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        if (!thread_is_over(thread) && thread->native_id == (uint64_t)tid)
            return;
    for (Native *native = natives; native != NULL; native = native->next)
        if (native->tid == tid && (native->group != NULL || native->seen < 0)) {
            native->seen = native->seen < 0 ? -1 : 1;
            return;
        }
    Native *native = calloc(1, sizeof *native);
    if (native == NULL)
        return;
    native->tid = tid;
    native->seen = 1;
    if (natives_room())
        native->group = counter_open(tid, NULL);
    if (native->group == NULL)
        native->seen = -1; /* do not try again */
    native->next = natives;
    natives = native;
}

static void natives_scan(const Node *region)
{
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL)
        return;
    for (Native *native = natives; native != NULL; native = native->next)
        native->seen = native->seen < 0 ? -1 : 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != (int)syscall(SYS_gettid))
            native_found(atoi(entry->d_name));
    closedir(folder);
    for (Native *native = natives; native != NULL; native = native->next)
        if (native->seen == 0 && native->group != NULL) { /* it has ended */
            native_credit(native, region);
            counter_close(native->group, 0);
            native->group = NULL;
        }
}

/* Look for unknown threads, if the number of threads has changed. */
static void natives_look(void)
{
    struct stat folder;
    int saved = errno;
    if (counter_event_count && !whole_is_open && part != NULL && stat("/proc/self/task", &folder) == 0 &&
        (uint64_t)folder.st_nlink != natives_nlink) {
        natives_nlink = (uint64_t)folder.st_nlink;
        natives_scan(region_open());
    }
    errno = saved;
}

static void on_path(Thread *thread, Routine *routine, Node *node)
{
    (void)thread, (void)routine, (void)node;
    natives_look();
}

/* A region is about to begin or end. */
static void region_boundary(void)
{
    if (counter_event_count == 0 || part == NULL)
        return;
    int saved = errno;
    natives_look();
    if (whole_is_open)
        whole_credit(region_open());
    else if (natives != NULL) {
        const Node *region = region_open();
        for (Native *native = natives; native != NULL; native = native->next)
            native_credit(native, region);
    }
    errno = saved;
}

/* A Python thread begins; called on that thread. */
static void counters_begin(Thread *thread)
{
    if (counter_event_count == 0)
        return;
    for (Native **at = &natives; *at != NULL; at = &(*at)->next)
        if ((*at)->tid == (int)thread->native_id && (*at)->row == NULL) {
            Native *native = *at; /* mistaken for a native thread while it was starting */
            if (native->group != NULL)
                counter_close(native->group, 0);
            *at = native->next;
            free(native);
            break;
        }
    if (natives_room())
        thread->counters = counter_open(0, NULL);
    else
        errno = EMFILE;
    if (thread->counters == NULL)
        counters_tell(thread, 0, errno);
    else if (threads == NULL)
        whole_begin();
}

/* The process ends, or a copy is made: account for everything open up to now. */
static void counters_finish(int ends)
{
    (void)ends;
    char text[64];
    uint64_t known = 0;
    if (metric_count == 0)
        return;
    region_boundary();
    pthread_mutex_lock(&ended_lock);
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        metrics_flush(thread);
    pthread_mutex_unlock(&ended_lock);
    if (counter_event_count == 0 || whole_is_open)
        return;
    pthread_mutex_lock(&ended_lock); /* threads that have not ended by now wait for us */
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        clockid_t clock;
        if (!thread_is_over(thread) && pthread_getcpuclockid(thread->pthread, &clock) == 0)
            known += (uint64_t)clock_ns(clock);
        else
            known += (uint64_t)thread->cpu_ns;
    }
    pthread_mutex_unlock(&ended_lock);
    for (Native *native = natives; native != NULL; native = native->next)
        known += native->running_ns;
    uint64_t all = (uint64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    snprintf(text, sizeof text, "%llu of %llu",
             (unsigned long long)(all > known ? all - known : 0), (unsigned long long)all);
    metadata_write("taupy.counters.uncounted_ns", text);
}

Listener natives_listener = {
    .on_thread = counters_begin,
    .on_thread_end = on_thread_end,
    .on_path = on_path,
    .on_region = region_boundary,
    .on_long_call = natives_look,
    .on_finish = counters_finish,
    .on_fork = on_fork,
};
