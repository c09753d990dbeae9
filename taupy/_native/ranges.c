/* Process-wide ranges, and marks; see ranges.h. */
#include "ranges.h"
#include "events.h"
#include "gil.h"
#include "gpu.h"
#include "process.h"
#include "thread.h"
#include <errno.h>
#include <stdio.h>

#define RANGE_EVENTS_AT_MOST 4096
#define RANGE_SUMS_AT_MOST (1u << 18)
#define RANGES_OPEN_AT_MOST (1u << 16)
#define RANGE_SLOTS 4096 /* in each table; slots are lists */

/* Sum of one event at one call path. */
typedef struct RangeSum {
    const char *event, *unit; /* events are compared by address */
    Thread *thread;
    Node *node;
    SampleRecord *record; /* in the part; NULL: `waiting` holds the sums */
    SampleRecord waiting;
    struct RangeSum *next, *next_waiting;
} RangeSum;

typedef struct RangeEvent {
    struct RangeEvent *next;
    char name[];
} RangeEvent;

typedef struct OpenRange {
    uint64_t id;
    int64_t start_ns;
    RangeSum *sum;
    struct OpenRange *next;
} OpenRange;

static struct {
    RangeSum *sums[RANGE_SLOTS], *waiting;
    RangeEvent *events[RANGE_SLOTS];
    OpenRange *open[RANGE_SLOTS], *unused;
    uint64_t sum_count, event_count, open_count, made_count, refused, generation;
} ranges;

static uint64_t range_ids; /* never reused */
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

/* In a forked child: the lock's owner does not exist here. */
static void on_fork(const Thread *thread)
{
    (void)thread;
    pthread_mutex_init(&ranges_lock, NULL);
}

/* Everything below needs the lock. */

static const char *range_event(const char *prefix, const char *name, const char *suffix)
{
    uint64_t hash = 5381;
    size_t sizes[] = {strlen(prefix), strlen(name), strlen(suffix)};
    const char *texts[] = {prefix, name, suffix};
    for (int part_of = 0; part_of < 3; part_of++)
        for (size_t i = 0; i < sizes[part_of]; i++)
            hash = hash * 33 + (unsigned char)texts[part_of][i];
    RangeEvent **list = &ranges.events[hash % RANGE_SLOTS];
    for (RangeEvent *event = *list; event != NULL; event = event->next)
        if (strncmp(event->name, prefix, sizes[0]) == 0 &&
            strncmp(event->name + sizes[0], name, sizes[1]) == 0 &&
            strcmp(event->name + sizes[0] + sizes[1], suffix) == 0)
            return event->name;
    if (ranges.event_count >= RANGE_EVENTS_AT_MOST && strcmp(name, "(others)") != 0)
        return range_event(prefix, "(others)", suffix);
    RangeEvent *event = malloc(sizeof *event + sizes[0] + sizes[1] + sizes[2] + 1);
    if (event == NULL)
        return NULL;
    sprintf(event->name, "%s%s%s", prefix, name, suffix);
    event->next = *list;
    *list = event;
    ranges.event_count++;
    return event->name;
}

static RangeSum *range_sum(const char *event, const char *unit, Thread *thread, Node *node)
{
    uint64_t hash = ((uint64_t)event >> 4) * 31 + ((uint64_t)node >> 6) * 7 + thread->index;
    RangeSum **list = &ranges.sums[(hash ^ hash >> 12) % RANGE_SLOTS];
    for (RangeSum *sum = *list; sum != NULL; sum = sum->next)
        if (sum->event == event && sum->node == node && sum->thread == thread)
            return sum;
    RangeSum *sum = ranges.sum_count < RANGE_SUMS_AT_MOST ? calloc(1, sizeof *sum) : NULL;
    if (sum == NULL)
        return NULL;
    sum->event = event;
    sum->unit = unit;
    sum->thread = thread;
    sum->node = node;
    sum->next = *list;
    *list = sum;
    ranges.sum_count++;
    return sum;
}

static void range_add(RangeSum *sum, double value, int may_write)
{
    if (sum->record == NULL && may_write)
        sum->record = sample_record(sum->event, sum->unit, sum->thread, sum->node);
    if (sum->record == NULL && sum->waiting.count == 0) {
        sum->next_waiting = ranges.waiting;
        ranges.waiting = sum;
    }
    sample_add(sum->record != NULL ? sum->record : &sum->waiting, value);
}

/* Write the sums made without the GIL into the part. */
static void ranges_write(void)
{
    RangeSum *later = NULL, *sum;
    while ((sum = ranges.waiting) != NULL) {
        ranges.waiting = sum->next_waiting;
        if (sum->record == NULL)
            sum->record = sample_record(sum->event, sum->unit, sum->thread, sum->node);
        if (sum->record == NULL) { /* no room: maybe later */
            sum->next_waiting = later;
            later = sum;
            continue;
        }
        SampleRecord *into = sum->record, *from = &sum->waiting;
        samples_sum(into, from);
        from->count = 0;
        from->sum = from->sum_squares = 0;
    }
    ranges.waiting = later;
}

/* Take the lock, if anything is measured at all. `may_write` is set if the part may grow, that is,
 * if this thread holds the GIL. With a new part (a forked child, a restart), start empty; open
 * ranges belong to the previous part. */
static int ranges_enter(int *may_write)
{
    if (!is_measured() || waiting)
        return 0;
    *may_write = holds_gil();
    if (*may_write && this_thread == NULL && thread_new() == NULL)
        return 0;
    if (part == NULL || threads_now() == NULL)
        return 0;
    pthread_mutex_lock(&ranges_lock);
    if (ranges.generation != generation) {
        memset(&ranges, 0, sizeof ranges); /* a fork may have interrupted an update: free nothing */
        ranges.generation = generation;
    }
    if (*may_write && ranges.waiting != NULL)
        ranges_write();
    return 1;
}

/* The calling thread's call path. A thread without Python uses the one its launches are attributed
 * to or, failing that, the process's first thread as a whole. */
static Thread *range_place(Node **node)
{
    GpuPlace place = gpu_place();
    Thread *thread = this_thread;
    if (thread != NULL)
        thread->is_apart = 1;
    *node = (Node *)(uintptr_t)place.launch;
    Node *root = *node;
    while (root != NULL && root->parent != NULL)
        root = root->parent;
    if (*node == root) /* the whole thread; or another thread's node that is still being created */
        *node = NULL;
    if (root != NULL && (thread == NULL || root != &thread->root))
        for (thread = threads_now(); thread != NULL && &thread->root != root;)
            thread = thread->next;
    if (thread == NULL) {
        *node = NULL;
        for (thread = threads_now(); thread->next != NULL;)
            thread = thread->next;
    }
    return thread;
}

/* The functions that nvtx.c calls. */

uint64_t range_start(const char *name)
{
    int may_write, saved = errno;
    uint64_t id = 0;
    if (!ranges_enter(&may_write))
        return 0;
    Node *node;
    Thread *thread = range_place(&node);
    const char *event = range_event("NVTX range ", name, "");
    RangeSum *sum = event != NULL ? range_sum(event, "ns", thread, node) : NULL;
    OpenRange *open = ranges.unused;
    if (open != NULL)
        ranges.unused = open->next;
    else if (ranges.made_count < RANGES_OPEN_AT_MOST && (open = malloc(sizeof *open)) != NULL)
        ranges.made_count++;
    if (sum == NULL || open == NULL) {
        ranges.refused++;
        if (open != NULL) {
            open->next = ranges.unused;
            ranges.unused = open;
        }
    } else {
        id = ++range_ids;
        OpenRange **list = &ranges.open[id % RANGE_SLOTS];
        *open = (OpenRange){id, 0, sum, *list};
        *list = open;
        ranges.open_count++;
        open->start_ns = clock_ns(CLOCK_MONOTONIC);
    }
    pthread_mutex_unlock(&ranges_lock);
    errno = saved;
    return id;
}

void range_end(uint64_t id)
{
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    int may_write, saved = errno;
    if (id == 0 || !ranges_enter(&may_write))
        return;
    OpenRange **at = &ranges.open[id % RANGE_SLOTS];
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    OpenRange *open = *at;
    if (open != NULL) { /* else never started, or by another process */
        *at = open->next;
        range_add(open->sum, (double)(now - open->start_ns), may_write);
        open->next = ranges.unused;
        ranges.unused = open;
        ranges.open_count--;
    }
    pthread_mutex_unlock(&ranges_lock);
    errno = saved;
}

void range_mark(const char *name, const double *payload)
{
    int may_write, saved = errno;
    if (!ranges_enter(&may_write))
        return;
    Node *node;
    Thread *thread = range_place(&node);
    const char *event = range_event("NVTX mark ", name, "");
    RangeSum *sum = event != NULL ? range_sum(event, "count", thread, node) : NULL;
    if (sum != NULL)
        range_add(sum, 1.0, may_write);
    else
        ranges.refused++;
    event = payload != NULL ? range_event("NVTX mark ", name, ", payload") : NULL;
    sum = event != NULL ? range_sum(event, "", thread, node) : NULL;
    if (sum != NULL)
        range_add(sum, *payload, may_write);
    pthread_mutex_unlock(&ranges_lock);
    errno = saved;
}

/* At process exit, or for a snapshot: write everything into the part, and report what is
 * missing. */
static void ranges_finish(int ends)
{
    char text[160];
    if (part == NULL || ranges.generation != generation)
        return;
    pthread_mutex_lock(&ranges_lock);
    ranges_write();
    uint64_t open = ranges.open_count, refused = ranges.refused;
    pthread_mutex_unlock(&ranges_lock);
    if (ends && open) {
        snprintf(text, sizeof text, "%llu NVTX ranges were started and never ended: they are missing",
                 (unsigned long long)open);
        metadata_write("taupy.health.nvtx_open", text);
    }
    if (refused) {
        snprintf(text, sizeof text, "%llu NVTX ranges or marks did not fit: they are missing",
                 (unsigned long long)refused);
        metadata_write("taupy.health.nvtx_refused", text);
    }
}

Listener ranges_listener = {.on_finish = ranges_finish, .on_fork = on_fork};
