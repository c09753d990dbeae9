/* See line_thread.h. How often it looks is as in `watch/lines.py`. */
#define _GNU_SOURCE
#include "line_thread.h"
#include "confined.h"
#include "interpreter.h"
#include "line_looks.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE (1u << 1) /* CLOSE_RANGE_UNSHARE */

#define FIRST_NS 150000000ll /* a process is not looked at before it has run for so long */
#define QUICK_NS 5000000ll
#define SLOW_NS 20000000ll
#define QUICKLY_NS 2000000000ll
#define SHARE 143 /* looks take at most one in so many parts of the time */
#define CREDIT_NS 60000000ll
#define PAUSE_AT_MOST_NS 1000000000ll
#define FIND_NS 100000000ll
#define THREADS_A_TICK 8
#define THREADS_AT_MOST 4096
#define STACK_BYTES (256u << 10)
#define ENDING_NS 50000
#define ENDINGS 20000 /* the thread needs a processor to end */

int line_thread_wanted;
static atomic_int is_there, stops;
static atomic_int thread_id; /* the kernel's */
static int64_t first_ns, began_ns, ticked_ns, found_ns, credit_ns, chance;
static uint64_t of_part; /* the part whose threads are looked at */
static LookedThread *looked;
static size_t looked_count, next_looked;

static void wait_on(atomic_int *word, int value, int64_t ns)
{
    struct timespec most = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

static int is_over(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return atomic_load(&stops) || Py_IsFinalizing();
#else
    return atomic_load(&stops) || _Py_IsFinalizing();
#endif
}

/* Find the threads that have begun, and forget those that have ended. */
static void find(int64_t now)
{
    found_ns = now;
    for (size_t i = 0; i < looked_count; i++)
        looked[i].is_living = 0;
    for (Thread *thread = threads_now(); thread != NULL; thread = thread->next) {
        if (thread_is_over(thread) || thread->native_id == 0 || thread->state == 0)
            continue;
        size_t at = thread->looked;
        if (at == 0 || at > looked_count || looked[at - 1].thread != thread ||
            looked[at - 1].index != thread->index ||
            looked[at - 1].remote.state != thread->state) {
            LookedThread *new = &looked[looked_count];
            RemoteLayout layout;
            interpreter_fields(&layout);
            if (looked_count == THREADS_AT_MOST ||
                remote_begin(&new->remote, getpid(), &layout, thread->state, thread->native_id))
                continue;
            new->thread = thread;
            new->index = thread->index;
            new->looked_ns = now;
            thread->looked = (uint32_t)(at = ++looked_count);
        }
        looked[at - 1].is_living = 1;
    }
    for (size_t i = 0; i < looked_count;) {
        if (looked[i].is_living) {
            i++;
            continue;
        }
        looked[i] = looked[--looked_count];
        if (i < looked_count && looked[i].thread->looked == looked_count + 1)
            looked[i].thread->looked = (uint32_t)(i + 1);
    }
}

/* Look at some threads, in turn. Returns -1 if that is forbidden. */
static int tick(void)
{
    size_t count = looked_count < THREADS_A_TICK ? looked_count : THREADS_A_TICK;
    for (size_t i = 0; i < count; i++) {
        next_looked = next_looked < looked_count ? next_looked : 0;
        if (line_looks_take(&looked[next_looked++]) == LOOK_FORBIDDEN)
            return -1;
    }
    return 0;
}

/* The time until the next tick. */
static int64_t pause_after(int64_t now, int64_t cpu_ns)
{
    credit_ns += (now - ticked_ns) / SHARE - cpu_ns;
    credit_ns = credit_ns < CREDIT_NS ? credit_ns : CREDIT_NS;
    ticked_ns = now;
    chance = (chance * 1103515245 + 12345) % (1ll << 31);
    int64_t wanted = now < began_ns + QUICKLY_NS ? QUICK_NS : SLOW_NS;
    int64_t varied = wanted * 3 / 4 + chance * (wanted / 2) / (1ll << 31);
    int64_t owed = -credit_ns * SHARE;
    owed = owed < PAUSE_AT_MOST_NS ? owed : PAUSE_AT_MOST_NS;
    return varied > owed ? varied : owed;
}

static void look(void)
{
    int64_t due = first_ns, now;
    int refused = 0;
    while (!is_over() && !refused) {
        if ((now = clock_true_ns(CLOCK_MONOTONIC)) < due) {
            wait_on(&stops, 0, due - now);
            continue;
        }
        int64_t before = clock_true_ns(CLOCK_THREAD_CPUTIME_ID);
        if (now - found_ns >= FIND_NS)
            find(now);
        refused = tick();
        int64_t cpu_ns = clock_true_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        line_looks_spent(cpu_ns);
        due = now + pause_after(now, cpu_ns);
    }
}

/* It has a table of descriptors of its own, so the program's are neither used nor kept open. */
static void *work(void *unused)
{
    atomic_store(&thread_id, (int)syscall(SYS_gettid));
    if (syscall(SYS_close_range, 0, UINT_MAX, UNSHARE) != 0)
        return unused;
    prctl(PR_SET_NAME, "taupy-lines");
    int folder = open(run_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int tasks = open("/proc/self/task", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (looked == NULL) {
        looked = mmap(NULL, THREADS_AT_MOST * sizeof *looked, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        looked = looked != MAP_FAILED ? looked : NULL;
    }
    if (folder >= 0 && looked != NULL && line_looks_begin(folder, tasks, of_part) == 0)
        look();
    return unused;
}

static int thread_create(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* the loss of the part, which it reads, see guard.h */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&thread, &attributes, work, NULL);
    if (failed == EINVAL) { /* the libraries' thread-local variables alone need more */
        pthread_attr_setstacksize(&attributes, 8u << 20);
        failed = pthread_create(&thread, &attributes, work, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed ? -1 : 0;
}

void line_thread_begin(void)
{
    if (!line_thread_wanted || !is_measured() || run_folder == NULL || part == NULL || is_filtered())
        return;
    if (atomic_exchange(&is_there, 1))
        return;
    int saved = errno;
    if (of_part != part_ticks) {
        of_part = part_ticks;
        chance = getpid();
        credit_ns = CREDIT_NS;
        ticked_ns = clock_true_ns(CLOCK_MONOTONIC);
        first_ns = began_ns = ticked_ns + FIRST_NS;
        found_ns = 0;
        looked_count = next_looked = 0;
    }
    atomic_store(&stops, 0);
    atomic_store(&thread_id, 0);
    if (syscall(SYS_close_range, UINT_MAX, UINT_MAX, 0) != 0) {
        line_thread_wanted = 0;
        metadata_write("taupy.health.lines", "--lines=inside needs Linux 5.9 (close_range)");
    } else if (thread_create() != 0) {
        line_thread_wanted = 0;
        metadata_write("taupy.health.lines",
                       "--lines=inside: no further thread could be started in the program");
    }
    if (!line_thread_wanted)
        atomic_store(&is_there, 0);
    errno = saved;
}

void line_thread_end(void)
{
    if (!atomic_load(&is_there))
        return;
    int saved = errno;
    atomic_store(&stops, 1);
    syscall(SYS_futex, &stops, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    static atomic_int never;
    for (int i = 0; i < ENDINGS; i++) {
        int id = atomic_load(&thread_id);
        if (id != 0 && syscall(SYS_tgkill, getpid(), id, 0) != 0) {
            atomic_store(&is_there, 0);
            break;
        }
        wait_on(&never, 0, ENDING_NS);
    }
    errno = saved;
}

static void on_finish(int ends)
{
    if (ends)
        line_thread_end();
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    atomic_store(&is_there, 0);
}

Listener line_thread_listener = {.on_finish = on_finish, .on_fork = on_fork};
