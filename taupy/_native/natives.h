/* Threads that never run Python (of BLAS, OpenMP and the like): their counters.
 *
 * Such a thread tells nobody that it begins. We look for new ones when a call path is new,
 * after long calls, and at regions; from then on its counters are read at every region's
 * begin and end. What it has done in between counts as done in the region that was open, in
 * a row of its own that has the same call paths; when no region was open, or those of
 * several threads, under the row's root. What threads did before they were found is lost:
 * counters_finish() tells how much CPU time that was. All under the GIL. */
#ifndef TAUPY_NATIVES_H
#define TAUPY_NATIVES_H

#include "routine.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

typedef struct Native {
    int tid;
    CounterGroup *group;   /* NULL: ended, or could not be opened */
    Thread *row;           /* NULL: has counted nothing yet */
    uint64_t running_ns;   /* CPU time while it was counted */
    uint64_t before[COUNTER_METRICS_AT_MOST];
    int seen;              /* in the scan going on */
    struct Native *next;
} Native;

static int metadata_write(const char *name, const char *value);

static Native *natives;
static uint64_t thread_count;
static uint64_t natives_nlink; /* of the folder of threads, at the last look */

/* The innermost open region, where exactly one thread has one; else NULL. */
static Node *region_open(void)
{
    Node *found = NULL;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        if (thread->ended_ticks)
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
    Node **table = calloc(64, sizeof *table);
    if (block == NULL || table == NULL) {
        free(table);
        return NULL;
    }
    block->unused[BLOCK_THREAD_NATIVE] = 1;
    Thread *row = (Thread *)(block + 1);
    row->table = table;
    row->mask = 63;
    row->index = thread_count++;
    row->native_id = (uint64_t)native->tid;
    row->root.last = row->hidden.last = &nowhere;
    row->root.region = 1;
    row->cursor = &row->root;
    row->root.t0 = clock_ticks();
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", native->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n - 1 : 0] = 0; /* without the newline */
    snprintf(row->name, sizeof row->name, "native %s", name);
    return native->row = row;
}

/* The row's node of the same call path. */
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

/* What it has counted since the last time goes to the row's node for `region`. */
static void native_credit(Native *native, const Node *region)
{
    uint64_t now[COUNTER_METRICS_AT_MOST], more[COUNTER_METRICS_AT_MOST];
    int any = 0;
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
        any |= more[i] != 0;
    }
    int faults = native->group->faults;
    if (!any && !faults)
        return;
    if (native->row == NULL && native_row(native) == NULL)
        return;
    if (faults)
        counters_tell(native->row, faults, 0);
    for (Node *node = native_node(native->row, region); node != NULL; node = node->parent)
        for (int i = 0; i < counter_metric_count; i++)
            node_metrics(node)[2 * (cpu_time_wanted + i) + 1] += more[i];
}

/* Descriptors are the program's, too: we take a quarter of them at most. */
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
        if (!thread->ended_ticks && thread->native_id == (uint64_t)tid)
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
        native->seen = -1; /* not again */
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

/* Look for threads that we do not know, if their number has changed. */
static void natives_look(void)
{
    struct stat folder;
    int saved = errno;
    if (counter_event_count && part != NULL && stat("/proc/self/task", &folder) == 0 &&
        (uint64_t)folder.st_nlink != natives_nlink) {
        natives_nlink = (uint64_t)folder.st_nlink;
        natives_scan(region_open());
    }
    errno = saved;
}

/* A region is about to begin or to end. */
static void region_boundary(void)
{
    if (counter_event_count == 0 || part == NULL)
        return;
    int saved = errno;
    natives_look();
    if (natives != NULL) {
        const Node *region = region_open();
        for (Native *native = natives; native != NULL; native = native->next)
            native_credit(native, region);
    }
    errno = saved;
}

/* A thread of Python's own begins: in this very thread. */
static void counters_begin(Thread *thread)
{
    for (Native **at = &natives; *at != NULL; at = &(*at)->next)
        if ((*at)->tid == (int)thread->native_id && (*at)->row == NULL) {
            Native *native = *at; /* taken for a native one while it was starting */
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
}

/* The process ends, or a copy is made: all that is open counts up to now. */
static void counters_finish(void)
{
    char text[64];
    uint64_t known = 0;
    if (metric_count == 0)
        return;
    region_boundary();
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        metrics_flush(thread);
    if (counter_event_count == 0)
        return;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        clockid_t clock;
        if (thread->ended_ticks == 0 && pthread_getcpuclockid(thread->pthread, &clock) == 0)
            known += (uint64_t)clock_ns(clock);
        else
            known += (uint64_t)thread->cpu_ns;
    }
    for (Native *native = natives; native != NULL; native = native->next)
        known += native->running_ns;
    uint64_t all = (uint64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    snprintf(text, sizeof text, "%llu of %llu",
             (unsigned long long)(all > known ? all - known : 0), (unsigned long long)all);
    metadata_write("taupy.counters.uncounted_ns", text);
}

#endif
