/* See line_thread.h. When it looks, and what a look counts for, is decided by line_looks.h. */
#define _GNU_SOURCE
#include "line_thread.h"
#include "calltree.h"
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
#define FIND_NS 100000000ll
#define THREADS_A_TICK 8
#define THREADS_AT_MOST 4096
#define STACK_BYTES (256u << 10)
#define ENDING_NS 50000
#define ENDINGS 20000 /* the thread needs a processor to end */

int line_thread_wanted;
static atomic_int is_there, stops;
static atomic_int has_new; /* threads have begun since they were found last */
static atomic_int thread_id; /* the kernel's */
static int64_t due_ns, found_ns, ticked_ns;
static uint64_t of_part; /* the part whose threads are looked at */
static Looks *looks;
static int has_files;

/* A thread that is looked at. */
typedef struct Seen {
    Thread *thread;
    int is_living; /* at the last look for threads */
    LookedThread looked;
} Seen;

static Seen *seen;
static size_t seen_count, next_seen;
static int tasks = -1; /* /proc/self/task */

static void wait_on(atomic_int *word, int value, int64_t ns)
{
    struct timespec most = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

static int is_ending(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return atomic_load(&stops) || Py_IsFinalizing();
#else
    return atomic_load(&stops) || _Py_IsFinalizing();
#endif
}

/* The memory of a thread that has ended may have become another's. */
static int is_over(void *unused, int64_t pid, uint64_t ticks, uint32_t index, const void *of)
{
    (void)unused, (void)pid, (void)ticks;
    return of != NULL && ((const Thread *)of)->index != index;
}

/* Begin to look at a thread, which was not there at the tick before if it is new. Its first look
 * counts for all the time between two looks at a thread, as in `watch/lines.py`. Returns -1 if there
 * is no room, or it cannot be read. */
static int seen_begin(Seen *new, Thread *thread, int64_t now, int is_new)
{
    int64_t turns = seen_count < THREADS_A_TICK ? THREADS_A_TICK : (int64_t)seen_count;
    RemoteLayout layout;
    interpreter_fields(&layout);
    if (seen_count == THREADS_AT_MOST ||
        remote_begin(&new->looked.remote, getpid(), &layout, thread->state, thread->native_id))
        return -1;
    new->thread = thread;
    new->looked.of = thread;
    new->looked.pid = getpid();
    new->looked.ticks = of_part;
    new->looked.index = thread->index;
    new->looked.process = 0;
    new->looked.looked_ns = is_new ? now - (now - ticked_ns) * turns / THREADS_A_TICK : now;
    activity_begin(&new->looked.activity, getpid(), (int64_t)thread->native_id, tasks);
    if (is_new)
        activity_from_beginning(&new->looked.activity);
    else
        activity_from_now(&new->looked.activity);
    thread->looked = (uint32_t)++seen_count;
    return 0;
}

/* Find the threads that have begun, and forget those that have ended. */
static void find(int64_t now)
{
    int are_new = found_ns != 0;
    found_ns = now;
    for (size_t i = 0; i < seen_count; i++)
        seen[i].is_living = 0;
    for (Thread *thread = threads_now(); thread != NULL; thread = thread->next) {
        if (thread_is_over(thread) || thread->native_id == 0 || thread->state == 0)
            continue;
        size_t at = thread->looked;
        if (at == 0 || at > seen_count || seen[at - 1].thread != thread ||
            seen[at - 1].looked.index != thread->index ||
            seen[at - 1].looked.remote.state != thread->state) {
            if (seen_begin(&seen[seen_count], thread, now, are_new) != 0)
                continue;
            at = seen_count;
        }
        seen[at - 1].is_living = 1;
    }
    for (size_t i = 0; i < seen_count;) {
        if (seen[i].is_living) {
            i++;
            continue;
        }
        activity_end(&seen[i].looked.activity);
        seen[i] = seen[--seen_count];
        if (i < seen_count && seen[i].thread->looked == seen_count + 1)
            seen[i].thread->looked = (uint32_t)(i + 1);
    }
}

/* The files are made at the first look: a short process has none. */
static int files_open(int folder)
{
    static const char *const endings[] = {"lines", "codes"};
    int files[2];
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%lld-%llx.%s", (long long)getpid(),
                 (unsigned long long)of_part, endings[i]);
        files[i] = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (files[i] < 0)
            return -1;
    }
    line_looks_write_to(looks, files[0], files[1]);
    return 0;
}

/* Look at some threads, in turn. Returns -1 if that is forbidden. */
static int tick(void)
{
    size_t count = seen_count < THREADS_A_TICK ? seen_count : THREADS_A_TICK;
    for (size_t i = 0; i < count; i++) {
        next_seen = next_seen < seen_count ? next_seen : 0;
        if (line_looks_take(looks, &seen[next_seen++].looked) == LOOK_FORBIDDEN) {
            line_looks_refused(looks, EPERM);
            return -1;
        }
    }
    return 0;
}

static void look(int folder)
{
    int64_t now;
    int refused = 0;
    while (!is_ending() && !refused) {
        if ((now = clock_true_ns(CLOCK_MONOTONIC)) < due_ns) {
            wait_on(&stops, 0, due_ns - now);
            continue;
        }
        int64_t before = clock_true_ns(CLOCK_THREAD_CPUTIME_ID);
        if (!has_files && files_open(folder) != 0)
            return;
        has_files = 1;
        if (atomic_exchange(&has_new, 0) || now - found_ns >= FIND_NS)
            find(now);
        ticked_ns = now;
        refused = tick();
        due_ns = line_looks_spent(looks, now, clock_true_ns(CLOCK_THREAD_CPUTIME_ID) - before);
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
    tasks = open("/proc/self/task", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < seen_count; i++)
        activity_forget(&seen[i].looked.activity, tasks);
    has_files = 0;
    if (seen == NULL) {
        seen = mmap(NULL, THREADS_AT_MOST * sizeof *seen, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        seen = seen != MAP_FAILED ? seen : NULL;
    }
    if (looks == NULL && (looks = line_looks_new(program_files, is_over, NULL)) != NULL) {
        due_ns = clock_true_ns(CLOCK_MONOTONIC) + FIRST_NS;
        line_looks_begin(looks, due_ns);
    }
    if (folder >= 0 && seen != NULL && looks != NULL)
        look(folder);
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
        found_ns = 0;
        for (size_t i = 0; i < seen_count; i++) { /* of the process that forked this one */
            activity_forget(&seen[i].looked.activity, -1);
            activity_end(&seen[i].looked.activity);
        }
        seen_count = next_seen = 0;
        if (looks != NULL)
            line_looks_free(looks);
        looks = NULL;
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

static void on_thread_begun(Thread *thread)
{
    (void)thread;
    atomic_store(&has_new, 1);
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

Listener line_thread_listener = {
    .on_thread_begun = on_thread_begun, .on_finish = on_finish, .on_fork = on_fork};
