/* See memory.h. */
#define _GNU_SOURCE
#include "memory.h"
#include "confined.h"
#include "events.h"
#include "gil.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
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
#define TURNS 32
#define TURNS_FAULTS 32         /* fewer page faults seen in fine windows show nothing */
#define TURNS_KEPT (UINT64_C(1) << 16) /* page faults; with more, the past counts half */
#define LARGE_PART 10           /* of the growth, 1/10 or more in one routine is charged to it */
#define TURN_NS 500000.0 /* shorter than a thread's turn on a processor that others want, too */

static const char GROWTH[] = "Resident Memory Growth", UNIT[] = "KiB";
static const char DOUBT[] = "Resident Memory Growth in Doubt";
static const char BETWEEN[] = "Resident Memory Growth between Looks";
static const char RELEASED[] = "Resident Memory Given Back";

static WindowWatch *window_watches;
uint64_t sample_ticks;
double ticks_per_ns;
static uint64_t resident_before, looked_ticks, began_ticks, fine_ticks;
static int look_again; /* large growth may be released again at once, without a page fault */
static const Thread *in_fine; /* whose window is a single event */

/* Evidence on one thread's short routines that take turns: in which of them it had page faults. */
static struct {
    const Thread *thread;
    uint64_t skipped; /* page faults since the last look, in fine windows without a look */
    uint64_t faults;  /* in all intervals whose growth was in no single routine */
    double kib;       /* that growth */
    int count;
    struct {
        Node *node;
        uint64_t faults; /* in fine windows */
    } of[TURNS];
} turns;

void window_watch_add(WindowWatch *watch)
{
    WindowWatch **at = &window_watches;
    for (; *at != NULL; at = &(*at)->next)
        if (*at == watch)
            return;
    *at = watch;
}

void memory_start(void)
{
    memset(&turns, 0, sizeof turns);
    in_fine = NULL;
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

static int64_t nanoseconds(struct timeval time)
{
    return time.tv_sec * 1000000000ll + time.tv_usec * 1000ll;
}

/* Page faults of this thread so far. */
static uint64_t own_faults(Thread *own)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        return 0;
    own->counted_cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
    own->switches = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
    return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static int has_run_throughout(const Thread *own) { return own->switches == own->looked_switches; }

/* Its CPU time, at the end of a window of so many ticks. When its clock is read, the kernel sees
 * that the thread's turn is over. If that were done at each end of a window, threads would mostly
 * lose their processor here, beside busy programs: in a routine's last line, for those who look. */
static int64_t cpu_after(const Thread *own, uint64_t whole)
{
    double ns = (double)whole / ticks_per_ns;
    return has_run_throughout(own) ? own->looked_cpu_ns + (int64_t)ns
           : ns < TURN_NS          ? clock_ns(CLOCK_THREAD_CPUTIME_ID)
                                   : own->counted_cpu_ns;
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

/* Whether callees may have touched the memory of a window in which `node` is innermost at the end:
 * they have returned before it is due. */
static int has_called(const Node *node, uint64_t from, uint64_t whole)
{
    const Node *child = node->last;
    if (child == &nowhere || whole > sample_ticks / WINDOWS_PER_SAMPLE * LONG_WINDOWS)
        return 0;
    for (int i = 0; i < TURNS; i++, child += child->sibling) {
        if (child->t0 > from)
            return 1;
        if (i > 0 && child == node->last)
            return 0;
    }
    return 1;
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

static void turns_of(const Thread *thread)
{
    if (turns.thread != thread) {
        memset(&turns, 0, sizeof turns);
        turns.thread = thread;
    }
}

/* Remember the page faults of a fine window, which were all in `node`. */
static void remember(Node *node, uint64_t faults)
{
    int at = 0;
    for (int i = 1; i < turns.count && turns.of[at].node != node; i++)
        if (turns.of[i].node == node || turns.of[i].faults < turns.of[at].faults)
            at = i;
    if (at >= turns.count || turns.of[at].node != node) {
        if (turns.count < TURNS)
            at = turns.count++;
        turns.of[at].node = node;
        turns.of[at].faults = 0;
    }
    turns.of[at].faults += faults;
}

static int is_open(const Node *node, const Node *innermost)
{
    while (innermost != node && innermost->parent != NULL)
        innermost = innermost->parent;
    return innermost == node;
}

/* Charge growth in an interval in which short routines took turns to those that had a large part of
 * the page faults. A fault is at most a page of growth, and less if memory was given back, by whom
 * is unknown: so the faults that were no growth are taken off each routine's. Returns the rest. */
static double charge_turns(Thread *thread, Node *node, double kib, uint64_t faults, uint64_t from)
{
    turns_of(thread);
    turns.faults += faults;
    turns.kib += kib;
    uint64_t seen = 0;
    int ran[TURNS];
    for (int i = 0; i < turns.count; i++) {
        ran[i] = turns.of[i].node->t0 >= from || is_open(turns.of[i].node, node);
        seen += ran[i] ? turns.of[i].faults : 0;
    }
    double most = (double)turns.faults * (double)sysconf(_SC_PAGESIZE) / 1024;
    double lost = most > turns.kib ? 1 - turns.kib / most : 0, rest = kib;
    int shows_nothing = seen < TURNS_FAULTS || turns.kib < 4 * steps_kib() ||
                        turns.kib > 1.5 * most; /* huge pages, or native threads */
    for (int i = 0; i < turns.count && !shows_nothing; i++) {
        double part = ran[i] ? (double)turns.of[i].faults / (double)seen - lost : 0;
        if (part * LARGE_PART < 1)
            continue;
        double charged = kib * part / (1 - lost), unsure = 2 / sqrt((double)turns.of[i].faults);
        rest -= charged;
        sample(GROWTH, UNIT, charged, thread, turns.of[i].node);
        sample(DOUBT, UNIT, charged * (unsure < 1 ? unsure : 1), thread, turns.of[i].node);
    }
    if (turns.faults > TURNS_KEPT) {
        turns.faults /= 2;
        turns.kib /= 2;
        for (int i = 0; i < turns.count; i++)
            turns.of[i].faults /= 2;
    }
    return rest > 0 ? rest : 0;
}

/* For how much of its window this thread has run: one that waits, or has to wait for a processor,
 * touches no memory. */
static uint64_t has_run(const Thread *own, uint64_t whole)
{
    if (has_run_throughout(own))
        return whole;
    int64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - own->looked_cpu_ns;
    double ticks = (double)ns * ticks_per_ns;
    return ticks >= (double)whole ? whole : ns > 0 ? (uint64_t)ticks + 1 : 1;
}

/* Charge growth in a window of which `whole` was spent, from `from` until now, when `node` is the
 * thread's innermost routine. */
static void charge(Thread *thread, Node *node, double kib, uint64_t faults, uint64_t from,
                   uint64_t whole)
{
    uint64_t outside = node->t0 > from ? node->t0 - from : 0;
    int is_known = node->parent != NULL && outside * OUTSIDE_PART <= whole &&
                   !has_called_unseen(node, from, whole) && !has_called(node, from, whole);
    if (is_known) {
        double doubt = kib * (double)outside / (double)whole + steps_kib();
        sample(GROWTH, UNIT, kib, thread, node);
        sample(DOUBT, UNIT, doubt < kib ? doubt : kib, thread, node);
    } else {
        double rest = charge_turns(thread, node, kib, faults, from);
        if (rest > 0)
            sample(BETWEEN, UNIT, rest, thread, open_since(node, from));
    }
    if (!is_known || (outside != 0 && kib >= FINE_KIB))
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
        charge(own, node, kib * (double)faults / (double)all, faults, own->looked_ticks,
               has_run(own, now - own->looked_ticks));
    for (int i = 0; i < count; i++) {
        uint64_t from = later(looked_ticks, others[i].thread->looked_ticks);
        charge(others[i].thread, visible(others[i].thread),
               kib * (double)others[i].faults / (double)all, others[i].faults, from, now - from);
    }
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
        charge(thread, node, (double)growth, faults, thread->looked_ticks,
               has_run(thread, now - thread->looked_ticks));
    if (growth == 0 || growth > TOLD_APART_KIB || faults != 0)
        resident_before = kib; /* small growth of other threads accumulates until they look */
    looked_ticks = now;
}

static void next_window(Thread *thread, uint64_t now, int has_looked, int again)
{
    uint64_t after = clock_ticks();
    uint64_t window = sample_ticks / WINDOWS_PER_SAMPLE;
    if (in_fine == thread && thread->fine != 0) {
        thread->fine--;
        if (!has_looked || now - thread->looked_ticks < window) /* no look was due */
            fine_ticks += after - now < window ? after - now : window;
    }
    int is_fine = thread->fine != 0 && fine_ticks * FINE_SHARE < after - began_ticks;
    if (has_looked) {
        thread->looked_cpu_ns = cpu_after(thread, after - thread->looked_ticks);
        thread->looked_switches = thread->switches;
        thread->looked_ticks = after;
    }
    in_fine = is_fine ? thread : NULL;
    thread->due_ticks = is_fine || again ? after : after + window;
}

/* Returns 0 if the window joins the next one, because its page faults show enough. */
static int look_if_due(Thread *thread, Node *node, uint64_t now)
{
    uint64_t seen = own_faults(thread), faults = seen - thread->faults;
    thread->faults = seen;
    if (in_fine == thread && !memory_has_others(thread)) {
        turns_of(thread);
        if (faults != 0)
            remember(node, faults);
        if (now - looked_ticks < sample_ticks / WINDOWS_PER_SAMPLE) {
            turns.skipped += faults;
            return 0;
        }
    }
    if (turns.thread == thread) {
        faults += turns.skipped;
        turns.skipped = 0;
    }
    if (faults != 0 || look_again || now - looked_ticks >= sample_ticks)
        look(thread, node, faults, now);
    return 1;
}

static void window_ends(Thread *thread, Node *node, Node *begins, uint64_t now)
{
    if (is_filtered()) {
        thread->due_ticks = UINT64_MAX;
        return;
    }
    /* A look needs memory of Python's, of which there may be none now: the next event is due. */
    if (holds_gil() && PyErr_Occurred() == PyExc_MemoryError)
        return;
    int has_looked = !process_made_part() || look_if_due(thread, node, now);
    int again = 0;
    for (const WindowWatch *watch = window_watches; watch != NULL; watch = watch->next) {
        if (now >= watch->next_ticks)
            watch->look(thread, node, begins, clock_ticks());
        again |= watch->again;
    }
    next_window(thread, now, has_looked, again);
}

void memory_due(Thread *thread, Node *node, uint64_t now)
{
    window_ends(thread, node, NULL, now);
}

uint64_t memory_looked(Thread *thread, Node *begins, uint64_t now)
{
    window_ends(thread, begins->parent, begins, now);
    return clock_ticks();
}

static void on_thread(Thread *thread)
{
    uint64_t now = clock_ticks();
    if (turns.thread == thread)
        turns.thread = NULL; /* its nodes are new */
    thread->due_ticks = sample_ticks ? now : UINT64_MAX;
    thread->looked_ticks = now;
    thread->looked_cpu_ns = thread->cpu_start_ns;
    thread->faults = own_faults(thread);
    thread->looked_switches = thread->switches;
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
