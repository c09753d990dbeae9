/* Reading and accumulating additional metrics. */
#include "metrics.h"
#include "counters.h"
#include "listeners.h"

int metric_count, call_metrics, cpu_time_wanted;
uint64_t long_call_ticks = UINT64_MAX;

static int metrics_of(const Node *node) { return node->region ? metric_count : call_metrics; }

/* The first `n` metrics of a thread: this one, or another live one. */
static void metrics_read(Thread *thread, int n, uint64_t *values)
{
    int own = thread == this_thread;
    if (cpu_time_wanted) {
        clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
        if (!own && (thread_is_over(thread) || pthread_getcpuclockid(thread->pthread, &clock) != 0))
            *values = (uint64_t)thread->cpu_ns;
        else
            *values = (uint64_t)clock_ns(clock);
    }
    if (n > cpu_time_wanted)
        counter_metrics(thread->counters, own, values + cpu_time_wanted);
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
            if (i >= cpu_time_wanted && thread->counters != NULL)
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
