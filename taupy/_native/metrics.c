/* Reading and accumulating additional metrics. */
#include "metrics.h"
#include "counters.h"
#include "listeners.h"
#include <stdio.h>

/* Those that are read at every call come first. */
#define SOURCES(_) _(cpu_time)

#define DECLARED(name) extern const MetricSource metric_##name;
#define LISTED(name) &metric_##name,
SOURCES(DECLARED)
static const MetricSource *const sources[] = {SOURCES(LISTED) NULL};

int metric_count, call_metrics, source_count;
uint64_t long_call_ticks = UINT64_MAX;
static const MetricSource *chosen[METRICS_AT_MOST];

const MetricSource *metrics_source(int number) { return sources[number]; }

static int is_among(const char *name, char *const *names)
{
    while (names != NULL && *names != NULL)
        if (strcmp(*names++, name) == 0)
            return 1;
    return 0;
}

const char *metrics_choose(char *const *names)
{
    source_count = call_metrics = 0;
    for (const MetricSource *const *source = sources; *source != NULL; source++) {
        if (!is_among((*source)->name, names))
            continue;
        if (source_count == METRICS_AT_MOST)
            return (*source)->name;
        call_metrics += (*source)->at_calls != 0;
        chosen[source_count++] = *source;
    }
    for (; names != NULL && *names != NULL; names++) {
        int known = 0;
        for (int i = 0; i < source_count; i++)
            known |= strcmp(chosen[i]->name, *names) == 0;
        if (!known)
            return *names;
    }
    return NULL;
}

void metrics_describe(char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < source_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s %s %s\n", chosen[i]->name,
                                 chosen[i]->unit, i < call_metrics ? "calls" : "regions");
}

static int metrics_of(const Node *node) { return node->region ? metric_count : call_metrics; }

/* The first `n` metrics of a thread: this one, or another live one. */
static void metrics_read(Thread *thread, int n, uint64_t *values)
{
    int own = thread == this_thread;
    for (int i = 0; i < n && i < source_count; i++)
        values[i] = chosen[i]->read(thread, own);
    if (n > source_count)
        counter_metrics(thread->counters, own, values + source_count);
}

void counters_tell(Thread *thread, int faults, int why_not_open)
{
    Block *block = (Block *)thread - 1;
    block->unused[BLOCK_THREAD_FAULTS] |= (uint64_t)faults;
    if (why_not_open)
        block->unused[BLOCK_THREAD_ERRNO] = (uint64_t)why_not_open;
}

void metrics_enter(Thread *thread, Node *node)
{
    uint64_t values[METRICS_AT_MOST] = {0};
    int n = metrics_of(node);
    if (n == 0)
        return;
    metrics_read(thread, n, values);
    for (int i = 0; i < n; i++)
        node_metrics(node)[2 * i] = values[i];
}

static void metrics_add(Thread *thread, Node *node, int n, const uint64_t *values)
{
    uint64_t *pairs = node_metrics(node);
    for (int i = 0; i < n; i++) {
        uint64_t more = values[i] - pairs[2 * i];
        if (unlikely(more >= COUNTER_UNBELIEVABLE)) {
            if (i >= source_count && thread->counters != NULL)
                thread->counters->faults |= COUNTER_NONSENSE;
            continue;
        }
        pairs[2 * i + 1] += more;
    }
    if (unlikely(thread->counters != NULL && thread->counters->faults))
        counters_tell(thread, thread->counters->faults, 0);
}

void metrics_leave(Thread *thread, Node *node, uint64_t took)
{
    uint64_t values[METRICS_AT_MOST] = {0};
    int n = metrics_of(node);
    if (n == 0)
        return;
    metrics_read(thread, n, values);
    metrics_add(thread, node, n, values);
    if (unlikely(took > long_call_ticks))
        TELL(on_long_call);
}

void metrics_flush(Thread *thread)
{
    uint64_t values[METRICS_AT_MOST] = {0}, events[COUNTER_EVENTS_AT_MOST];
    if (metric_count == 0 || thread_is_over(thread))
        return;
    if (thread->counters != NULL) /* did they count all the time? */
        counter_read_events(thread->counters, events);
    metrics_read(thread, metric_count, values);
    for (Node *node = visible(thread); node != NULL; node = node->parent) {
        int n = metrics_of(node);
        metrics_add(thread, node, n, values);
        for (int i = 0; i < n; i++)
            node_metrics(node)[2 * i] = values[i];
    }
}
