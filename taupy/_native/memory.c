/* See memory.h. */
#define _GNU_SOURCE
#include "memory.h"
#include "confined.h"
#include "events.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define WINDOWS_PER_SAMPLE 50  /* 200 us out of 10 ms */
#define LONG_WINDOWS 10        /* a long window lasts this many usual ones */
#define OUTSIDE_PART 10        /* at most 1/10 of the window may lie outside the charged routine */
#define TOLD_APART_KIB 256     /* above this growth, compare the threads' page faults */
#define THREADS_AT_MOST 16
#define FINE_EVENTS 200
#define FINE_KIB 64
#define FINE_SHARE 100 /* fine windows may take at most 1/100 of the time */

static const char GROWTH[] = "Resident Memory Growth", UNIT[] = "KiB";
static const char BETWEEN[] = "Resident Memory Growth between Looks";
static const char RELEASED[] = "Resident Memory Given Back";

WindowWatch window_watch = {.next_ticks = UINT64_MAX};
uint64_t sample_ticks;
static uint64_t resident_before, looked_ticks, began_ticks, fine_ticks;
static int look_again; /* large growth may be released again at once, without a page fault */

void memory_start(void)
{
    resident_before = looked_ticks = fine_ticks = 0;
    began_ticks = clock_ticks();
}

/* Contents of a /proc file, NUL-terminated; 0 if it cannot be read. */
static int text_of_file(const char *path, char *text, size_t size)
{
    int saved = errno;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    errno = saved;
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static uint64_t resident_kib(void)
{
    char text[128];
    unsigned long long pages;
    if (!text_of_file("/proc/self/statm", text, sizeof text) ||
        sscanf(text, "%*u %llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Page faults of this thread so far. */
static uint64_t own_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)(usage.ru_minflt + usage.ru_majflt)
                                                 : 0;
}

/* The same for another thread; the last known count if it cannot be read. */
static uint64_t faults_of(const Thread *thread)
{
    char path[64], text[512];
    unsigned long long minor, major;
    snprintf(path, sizeof path, "/proc/self/task/%llu/stat", (unsigned long long)thread->native_id);
    const char *field = text_of_file(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (field == NULL ||
        sscanf(field + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &minor, &major) != 2)
        return thread->faults;
    return minor + major;
}

Node *open_since(Node *node, uint64_t from)
{
    while (node->parent != NULL && node->t0 > from)
        node = node->parent;
    return node->parent != NULL ? node : NULL;
}

/* A window this long contained no event that could have ended it. But nodes entered without the GIL
 * (autograd.c) may have touched memory. */
static int has_called_unseen(const Node *node, uint64_t from, uint64_t whole)
{
    uint64_t entered = node->last->t0;
    return entered > from && (entered - from) * OUTSIDE_PART > whole &&
           whole > sample_ticks / WINDOWS_PER_SAMPLE * LONG_WINDOWS;
}

/* Granularity of the resident-memory figure: the kernel counts per CPU and folds a count into the
 * total only when it gets this large (percpu_counter_batch). Two CPUs' worth, in case the thread
 * has migrated. */
static double steps_kib(void)
{
    static long processors; /* glibc reads a file for each answer */
    if (processors == 0)
        processors = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = 2 * processors;
    return 2 * (double)((pages > 32 ? pages : 32) * sysconf(_SC_PAGESIZE)) / 1024;
}

/* Charge growth in a window that ends now, with `node` as the thread's innermost routine. */
static void charge(Thread *thread, Node *node, double kib, uint64_t from, uint64_t now)
{
    uint64_t outside = node->t0 > from ? node->t0 - from : 0, whole = now - from;
    int is_known = node->parent != NULL && outside * OUTSIDE_PART <= whole &&
                   !has_called_unseen(node, from, whole);
    if (is_known) {
        double doubt = kib * (double)outside / (double)whole + steps_kib();
        sample(GROWTH, UNIT, kib, thread, node);
        sample("Resident Memory Growth in Doubt", UNIT, doubt < kib ? doubt : kib, thread, node);
    } else
        sample(BETWEEN, UNIT, kib, thread, open_since(node, from));
    if (outside != 0 && kib >= FINE_KIB)
        thread->fine = FINE_EVENTS;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Whether the thread's tree shows what it is running. */
static int is_charged(const Thread *thread)
{
    const Block *block = (const Block *)thread - 1;
    return !thread_is_over(thread) && !block->unused[BLOCK_THREAD_NATIVE];
}

/* Distribute growth over all threads in proportion to their page faults since the last look. */
static void divide(Thread *own, Node *node, uint64_t faults, double kib, uint64_t now)
{
    struct {
        Thread *thread;
        uint64_t faults;
    } others[THREADS_AT_MOST];
    int count = 0, living = 0;
    uint64_t all = faults;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        if (thread == own || !is_charged(thread) || living++ >= THREADS_AT_MOST)
            continue;
        uint64_t seen = faults_of(thread);
        if (seen > thread->faults) {
            others[count].thread = thread;
            all += others[count++].faults = seen - thread->faults;
            thread->faults = seen;
        }
    }
    if (all == 0 && living == 0)
        all = faults = 1; /* native threads work on behalf of the only Python thread */
    if (faults != 0)
        charge(own, node, kib * (double)faults / (double)all, own->looked_ticks, now);
    for (int i = 0; i < count; i++)
        charge(others[i].thread, visible(others[i].thread),
               kib * (double)others[i].faults / (double)all,
               later(looked_ticks, others[i].thread->looked_ticks), now);
    if (all == 0)
        sample(BETWEEN, UNIT, kib, own, NULL);
}

int memory_has_others(const Thread *own)
{
    for (const Thread *thread = threads; thread != NULL; thread = thread->next)
        if (thread != own && is_charged(thread))
            return 1;
    return 0;
}

/* Record released memory; with several threads, it is unknown which one released it. */
static void release(Thread *own, Node *node, double kib)
{
    if (memory_has_others(own))
        node = NULL;
    sample(RELEASED, UNIT, kib, own, node != NULL ? open_since(node, looked_ticks) : NULL);
}

static void look(Thread *thread, Node *node, uint64_t faults, uint64_t now)
{
    uint64_t kib = resident_kib();
    part_moment(now);
    if (kib == 0)
        return;
    sample("Resident Memory", UNIT, (double)kib, thread, NULL);
    look_again = 0;
    uint64_t growth = resident_before != 0 && kib > resident_before ? kib - resident_before : 0;
    if (kib < resident_before)
        release(thread, node, (double)(resident_before - kib));
    else if (growth > TOLD_APART_KIB) {
        divide(thread, node, faults, (double)growth, now);
        look_again = 1;
    } else if (growth != 0 && faults != 0)
        charge(thread, node, (double)growth, thread->looked_ticks, now);
    if (growth == 0 || growth > TOLD_APART_KIB || faults != 0)
        resident_before = kib; /* small growth of other threads accumulates until they look */
    looked_ticks = now;
}

static void next_window(Thread *thread, uint64_t now)
{
    uint64_t after = clock_ticks();
    if (thread->fine != 0) {
        thread->fine--;
        fine_ticks += after - now;
    }
    int is_fine = thread->fine != 0 && fine_ticks * FINE_SHARE < after - began_ticks;
    thread->looked_ticks = after;
    thread->due_ticks = is_fine ? after : after + sample_ticks / WINDOWS_PER_SAMPLE;
}

static void look_if_due(Thread *thread, Node *node, uint64_t now)
{
    uint64_t seen = own_faults(), faults = seen - thread->faults;
    thread->faults = seen;
    if (faults != 0 || look_again || now - looked_ticks >= sample_ticks)
        look(thread, node, faults, now);
}

void memory_due(Thread *thread, Node *node, uint64_t now)
{
    if (is_filtered()) {
        thread->due_ticks = UINT64_MAX;
        return;
    }
    if (process_made_part())
        look_if_due(thread, node, now);
    if (now >= window_watch.next_ticks)
        window_watch.look(thread, node, clock_ticks());
    next_window(thread, now);
}

uint64_t memory_looked(Thread *thread, Node *node, uint64_t now)
{
    memory_due(thread, node, now);
    return clock_ticks();
}

static void on_thread(Thread *thread)
{
    uint64_t now = clock_ticks();
    thread->due_ticks = sample_ticks ? now : UINT64_MAX;
    thread->looked_ticks = now;
    thread->faults = own_faults();
    if (sample_ticks && resident_before == 0)
        resident_before = resident_kib();
}

static void on_finish(int ends)
{
    if (ends && sample_ticks && this_thread != NULL && !is_filtered()) {
        looked_ticks = 0; /* whichever thread touched memory */
        look_if_due(this_thread, visible(this_thread), clock_ticks());
    }
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    memory_start();
}

Listener memory_listener = {.on_thread = on_thread, .on_finish = on_finish, .on_fork = on_fork};
