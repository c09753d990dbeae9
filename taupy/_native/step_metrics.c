/* Reading what threads have used up; see step_metrics.h. */
#define _GNU_SOURCE
#include "step_metrics.h"
#include "confined.h"
#include "clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_AT_MOST 64 /* threads with steps at the same time whose run delay is known */

/* An open /proc/thread-self/schedstat. */
typedef struct Delay {
    atomic_int in_use;
    int descriptor;
    dev_t device;
    ino_t inode;
} Delay;

static Delay delays[OPEN_AT_MOST];
static atomic_uint closings; /* all files were closed so often */

/* This thread's file. */
static __thread struct {
    Delay *file;    /* NULL: none */
    unsigned since; /* `closings` when it was opened, plus 1; 0: not tried yet */
} own;

/* Close it, unless the program has done so and uses the number for a file of its own. */
static void delay_close(Delay *delay)
{
    struct stat now;
    if (!is_filtered() && fstat(delay->descriptor, &now) == 0 && now.st_dev == delay->device &&
        now.st_ino == delay->inode)
        close(delay->descriptor);
    atomic_store(&delay->in_use, 0);
}

static Delay *delay_open(void)
{
    struct stat now;
    Delay *delay = NULL;
    for (int i = 0, none = 0; i < OPEN_AT_MOST && delay == NULL; i++, none = 0)
        if (atomic_compare_exchange_strong(&delays[i].in_use, &none, 1))
            delay = &delays[i];
    if (delay == NULL)
        return NULL;
    delay->descriptor =
        counter_descriptor_moved(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    if (delay->descriptor >= 0 && fstat(delay->descriptor, &now) == 0) {
        delay->device = now.st_dev;
        delay->inode = now.st_ino;
        return delay;
    }
    if (delay->descriptor >= 0)
        close(delay->descriptor);
    atomic_store(&delay->in_use, 0);
    return NULL;
}

static uint64_t own_delay(void)
{
    if (own.since != atomic_load(&closings) + 1) {
        own.since = atomic_load(&closings) + 1;
        own.file = delay_open();
    }
    return own.file != NULL ? run_delay(own.file->descriptor) : STEP_UNKNOWN;
}

/* What this thread has stated. */
static __thread struct {
    double sums[STEP_WORKS];
    unsigned stated;
} work;

int step_work_of(const char *name, const char *unit)
{
    static const char *const names[STEP_WORKS] = {
        "flop", "flop_fp64", "flop_fp32", "flop_fp16", "flop_bf16", "bytes_dram"};
    for (int kind = 0; kind < STEP_WORKS; kind++)
        if (strcmp(name, names[kind]) == 0)
            return strcmp(unit, kind == WORK_BYTES ? "B" : "flop") == 0 ? kind : -1;
    return -1;
}

void step_work_add(enum StepWork kind, double amount)
{
    if (!(amount >= 0 && isfinite(amount)))
        return;
    work.sums[kind] += amount;
    work.stated |= 1u << kind;
}

StepMark step_mark(CounterGroup *counters)
{
    StepMark mark;
    int saved = errno;
    memcpy(mark.work, work.sums, sizeof mark.work);
    mark.stated = work.stated;
    int is_readable = !is_filtered();
    mark.values[STEP_CPU_TIME] =
        is_readable ? (uint64_t)clock_ns(CLOCK_THREAD_CPUTIME_ID) : STEP_UNKNOWN;
    mark.values[STEP_RUN_DELAY] = is_readable ? own_delay() : STEP_UNKNOWN;
    int known = is_readable && counters != NULL &&
                counter_metrics(counters, 1, mark.values + STEP_COUNTERS) == 0
                    ? counter_metric_count : 0;
    for (int i = STEP_COUNTERS + known; i < STEP_READ; i++)
        mark.values[i] = STEP_UNKNOWN;
    errno = saved;
    return mark;
}

void step_used(const StepMark *begin, const StepMark *end, double *metrics)
{
    for (int i = 0; i < STEP_READ; i++) {
        uint64_t first = begin->values[i], last = end->values[i];
        int is_known = first != STEP_UNKNOWN && last != STEP_UNKNOWN &&
                       last - first < COUNTER_UNBELIEVABLE;
        metrics[i] = is_known ? (double)(last - first) : NAN;
    }
    for (int i = 0; i < STEP_WORKS; i++)
        metrics[STEP_READ + i] = end->stated & 1u << i ? end->work[i] - begin->work[i] : NAN;
}

void step_metrics_thread_ends(void)
{
    if (own.file != NULL && own.since == atomic_load(&closings) + 1)
        delay_close(own.file);
    own.file = NULL;
    own.since = 0;
}

void step_metrics_close(void)
{
    atomic_fetch_add(&closings, 1);
    for (int i = 0; i < OPEN_AT_MOST; i++)
        if (atomic_load(&delays[i].in_use))
            delay_close(&delays[i]);
}
