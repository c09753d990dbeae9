#define _GNU_SOURCE
#include "cupti_worker.h"
#include "clock.h"
#include "collector.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_kinds.h"
#include "cupti_modules.h"
#include "cupti_states.h"
#include "native_ranges.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static sem_t wake, ended;
static int end_asked, end_last, worker_gone; /* atomic */
static int copy_asked; /* a CopyState, atomic */
static char copy_path[4096];
static int copy_failed;
static sem_t copied;
static pthread_mutex_t copy_lock = PTHREAD_MUTEX_INITIALIZER; /* serialises callers */
static pthread_t worker;
static int worker_problem; /* errno of pthread_create */

void worker_housekeeping(void)
{
    size_t dropped = 0;
    CallTable *table = calls.table;
    if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) * 2 > table->mask) {
        /* Callers that still have the old table finish there; the reader adds both. */
        CallTable *larger = collector_call_table((table->mask + 1) * 2);
        if (larger != NULL)
            __atomic_store_n(&calls.table, larger, __ATOMIC_RELEASE);
    }
    if (!states_are_fatal() && collector.cupti.dropped_records(NULL, 0, &dropped) == 0)
        collector.sums.counters->dropped += dropped;
    states_note();
    modules_note();
    native_ranges_write(collector.part);
    kinds_note();
    collector.part->start_ticks = collector.host->part_start();
    collector.sums.counters->realtime_end = clock_ns(CLOCK_REALTIME);
    collector.sums.counters->monotonic_end = clock_ns(CLOCK_MONOTONIC);
}

/* Have CUPTI hand over complete records. */
static void flush(uint32_t forced)
{
    if (!states_are_fatal())
        collector.cupti.flush_all(forced);
}

/* The same while the program runs, unless that could crash it. */
static void flush_meanwhile(void)
{
    if (collector.cupti.version != CRASHES_IN_FLUSH)
        flush(0);
}

static void synchronize(void)
{
    const Cupti *cupti = &collector.cupti;
    if (cupti->context_push == NULL || cupti->context_pop == NULL || !cupti->context_synchronize)
        return;
    for (size_t i = 0; i < sizeof calls.contexts / sizeof *calls.contexts; i++) {
        void *context = __atomic_load_n(&calls.contexts[i], __ATOMIC_ACQUIRE), *popped;
        if (context != NULL && cupti->context_push(context) == 0) {
            cupti->context_synchronize();
            cupti->context_pop(&popped);
        }
    }
}

/* Of the driver's functions, CUPTI allows only those that synchronise within a callback: so this
 * waits for the thread's current context, which is the one that ends in nearly all programs. */
void worker_context_ends(void)
{
    int saved = errno;
    if (collector.began == 1 && collector.cupti.version != CRASHES_IN_FLUSH) {
        if (collector.cupti.context_synchronize != NULL)
            collector.cupti.context_synchronize();
        flush(1);
    }
    errno = saved;
}

enum CopyState { COPY_NONE, COPY_ASKED, COPY_WRITTEN };

/* Copy the part in its current state for a snapshot; only this thread writes sums. */
static void copy(void)
{
    int state = COPY_ASKED;
    if (!__atomic_compare_exchange_n(&copy_asked, &state, COPY_WRITTEN, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    copy_failed = part_copy(collector.part, copy_path, PART_SNAPSHOT);
    __atomic_store_n(&copy_asked, COPY_NONE, __ATOMIC_RELEASE);
    sem_post(&copied);
}

static void *work(void *unused)
{
    (void)unused;
    const uint64_t *launched = &collector.sums.counters->launches;
    uint64_t seen = 0;
    calls_be_ours();
    uint32_t pause_ms = collector.host->flush_ms ? collector.host->flush_ms : 1000;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += pause_ms / 1000;
        until.tv_nsec += pause_ms % 1000 * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        int woken = sem_timedwait(&wake, &until) == 0;
        buffers_drain();
        int asked = __atomic_load_n(&end_asked, __ATOMIC_ACQUIRE);
        if (asked) {
            synchronize();
            flush(0);
            buffers_drain();
            flush(1);
            buffers_drain();
        } else if (__atomic_load_n(&copy_asked, __ATOMIC_ACQUIRE) == COPY_ASKED) {
            flush_meanwhile(); /* complete records; running work is left to the next snapshot */
            buffers_drain();
        } else if (!woken) {
            uint64_t launches = __atomic_load_n(launched, __ATOMIC_RELAXED);
            if (launches != seen && !kinds_are_lent())
                flush_meanwhile(); /* complete records go to the file: they survive a kill */
            seen = launches;
            buffers_drain();
        }
        worker_housekeeping();
        copy();
        if (!woken || asked)
            trace_flush(&collector.sums.trace);
        if (asked) {
            int last = __atomic_load_n(&end_last, __ATOMIC_RELAXED);
            __atomic_store_n(&end_asked, 0, __ATOMIC_RELAXED);
            if (last)
                __atomic_store_n(&worker_gone, 1, __ATOMIC_RELEASE);
            sem_post(&ended);
            if (last)
                return NULL;
        }
    }
}

static int wait_for(sem_t *semaphore, uint32_t milliseconds)
{
    struct timespec until;
    int result;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while ((result = sem_timedwait(semaphore, &until)) != 0 && errno == EINTR)
        ;
    return result;
}

int worker_snapshot(const char *path)
{
    int saved = errno, result = GPU_LATE, state = COPY_ASKED;
    pthread_mutex_lock(&copy_lock);
    if (!__atomic_load_n(&calls.worker_begun, __ATOMIC_ACQUIRE))
        result = GPU_COPIED; /* no context: nothing was launched */
    else if (worker_problem == 0 && !__atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE) &&
             strlen(path) < sizeof copy_path) {
        strcpy(copy_path, path);
        __atomic_store_n(&copy_asked, COPY_ASKED, __ATOMIC_RELEASE);
        sem_post(&wake);
        result = wait_for(&copied, collector.host->end_ms);
        /* Withdraw the request, so that no later copy is made; if a copy is being written, wait for
         * it. */
        if (result != 0 &&
            !__atomic_compare_exchange_n(&copy_asked, &state, COPY_NONE, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            result = wait_for(&copied, collector.host->end_ms);
        result = result != 0 || copy_failed                           ? GPU_LATE
                 : collector.cupti.version == CRASHES_IN_FLUSH ? GPU_NOT_FLUSHED
                                                               : GPU_COPIED;
    }
    pthread_mutex_unlock(&copy_lock);
    errno = saved;
    return result;
}

void worker_begin(void)
{
    static int once;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (__atomic_exchange_n(&once, 1, __ATOMIC_ACQ_REL))
        return;
    int saved = errno;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* it must not get the program's signals */
    worker_problem = pthread_create(&worker, &attributes, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    __atomic_store_n(&calls.worker_begun, 1, __ATOMIC_RELEASE);
    errno = saved;
}

void worker_end(int last)
{
    if (collector.began != 1 || __atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE))
        return;
    int saved = errno, result = 0;
    int works = __atomic_load_n(&calls.worker_begun, __ATOMIC_ACQUIRE) && worker_problem == 0;
    if (worker_problem != 0)
        collector_problem("thread", worker_problem, strerror(worker_problem));
    __atomic_store_n(&end_last, last, __ATOMIC_RELAXED);
    __atomic_store_n(&end_asked, 1, __ATOMIC_RELEASE);
    if (works)
        sem_post(&wake);
    if (works)
        result = wait_for(&ended, collector.host->end_ms);
    if (result != 0) {
        collector.sums.counters->flush_timed_out = 1;
        __atomic_store_n(&worker_gone, 1, __ATOMIC_RELEASE); /* prevent a second run */
    }
    if (last || result != 0) {
        __atomic_store_n(&calls.closed, 1, __ATOMIC_RELEASE);
        kinds_end();
        if (collector.sums.counters->state == GPU_RUNNING)
            collector.sums.counters->state = GPU_ENDED;
        if (!works) {
            states_note();
            modules_note();
        }
        collector.part->state = PART_ENDED;
        part_save(collector.part);
    }
    errno = saved;
}

static void wake_up(void) { sem_post(&wake); }

void worker_prepare(void)
{
    buffers_begin(wake_up);
    sem_init(&wake, 0, 0);
    sem_init(&ended, 0, 0);
    sem_init(&copied, 0, 0);
}
