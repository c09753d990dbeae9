#define _GNU_SOURCE
#include "count_watch.h"
#include "clock.h"
#include "count_file.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 100

static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;
static int64_t patience_ns;
static int64_t since; /* start of the launch being counted; atomic; 0: none */
static const char *kernel;
static int is_stuck; /* atomic */
static uint64_t unwatched;
static struct stat first_stderr;
static int has_stderr;
static void (*tend_contexts)(void);
static int is_woken; /* atomic */

void count_watch_setup(uint32_t patience_ms, void (*tend)(void))
{
    tend_contexts = tend;
    patience_ns = (int64_t)patience_ms * 1000000;
    has_stderr = fstat(2, &first_stderr) == 0;
}

int count_take(void)
{
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (pthread_mutex_timedlock(&launching, &until) == 0)
            return 1;
        if (__atomic_load_n(&is_stuck, __ATOMIC_ACQUIRE)) {
            __atomic_add_fetch(&unwatched, 1, __ATOMIC_RELAXED);
            return 0;
        }
    }
}

void count_give(void) { pthread_mutex_unlock(&launching); }

uint64_t count_unwatched(void) { return __atomic_load_n(&unwatched, __ATOMIC_RELAXED); }

/* Report the kernel now, while the program hangs: it may never end. Write nothing if the program
 * has replaced its stderr. */
static void tell(const char *name)
{
    struct stat now;
    double seconds = (double)patience_ns / 1e9;
    count_file_line("stuck\t%s\t%g", name, seconds);
    if (has_stderr && fstat(2, &now) == 0 && now.st_dev == first_stderr.st_dev &&
        now.st_ino == first_stderr.st_ino)
        dprintf(2,
                "taupy: the kernel %.200s has not ended in %g s of counting: it may wait for a "
                "kernel on another GPU or in another process. Launches of other threads continue "
                "uncounted; if the program hangs, end it: earlier counts are kept\n",
                name, seconds);
}

static void *watch(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "taupy-count");
    for (;;) {
        usleep(LOOK_MS * 1000);
        if (__atomic_exchange_n(&is_woken, 0, __ATOMIC_ACQ_REL) && count_take()) {
            tend_contexts();
            count_give();
        }
        int64_t began = __atomic_load_n(&since, __ATOMIC_ACQUIRE);
        if (began == 0 || clock_ns(CLOCK_MONOTONIC) - began < patience_ns ||
            __atomic_load_n(&is_stuck, __ATOMIC_RELAXED))
            continue;
        tell(kernel);
        __atomic_store_n(&is_stuck, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void begin_watching(void)
{
    static int once;
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (once++)
        return;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* it must not get the program's signals */
    pthread_create(&thread, &attributes, watch, NULL); /* without it, a hang just goes unnoticed */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void count_watch_wake(void)
{
    __atomic_store_n(&is_woken, 1, __ATOMIC_RELEASE);
    begin_watching();
}

void count_watch_begins(const char *name)
{
    begin_watching();
    kernel = name;
    __atomic_store_n(&since, clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
}

int count_watch_ends(void)
{
    __atomic_store_n(&since, 0, __ATOMIC_RELEASE);
    return __atomic_exchange_n(&is_stuck, 0, __ATOMIC_ACQ_REL);
}
