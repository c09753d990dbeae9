/* See activity.h. */
#define _GNU_SOURCE
#include "activity.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK_NS 10000000ll /* a running thread's time is counted at least so often */
#define KEPT_AT_MOST 128   /* threads whose files are kept open */
#define KEPT_PART 8        /* and at most one in so many of the descriptors permitted */

enum { SYSCALL, STAT, SCHEDSTAT };

static int kept; /* threads */

void processor_begin(Processor *processor, ProcessorTimes first)
{
    *processor = (Processor){.first = first, .counted_ns = first.ran};
}

int processor_runs(Processor *processor, ProcessorTimes now, int64_t took)
{
    if (!now.are_known || !processor->first.are_known) {
        processor->first = now;
        processor->counted_ns = now.ran;
        return -1;
    }
    int has_run = now.ran > processor->counted_ns;
    processor->counted_ns = now.ran;
    processor->runnable_ns += took;
    double ran = (double)(now.ran - processor->first.ran);
    double waited = (double)(now.waited - processor->first.waited);
    double share = ran + waited > 0 ? ran / (ran + waited) : 1.0;
    int is_due = share * (double)processor->runnable_ns - (double)processor->ran_ns >=
                 (double)took / 2;
    int is_running = is_due && (has_run || took < TICK_NS);
    if (is_running)
        processor->ran_ns += took;
    return is_running;
}

/* Returns -1 if there is nothing to read; then `errno` says why. */
static ssize_t task_read(Activity *activity, int which, char *to, size_t size)
{
    static const char *const names[TASK_FILES] = {"syscall", "stat", "schedstat"};
    int file = activity->files[which];
    errno = 0;
    if (file < 0) {
        char path[96];
        int from = activity->tasks >= 0 ? activity->tasks : AT_FDCWD;
        if (activity->tasks >= 0)
            snprintf(path, sizeof path, "%lld/%s", (long long)activity->tid, names[which]);
        else
            snprintf(path, sizeof path, "/proc/%lld/task/%lld/%s", (long long)activity->pid,
                     (long long)activity->tid, names[which]);
        file = openat(from, path, O_RDONLY | O_CLOEXEC);
    }
    ssize_t got = file < 0 ? -1 : pread(file, to, size - 1, 0);
    int problem = errno;
    if (activity->keeps)
        activity->files[which] = file;
    else if (file >= 0)
        close(file);
    to[got > 0 ? got : 0] = 0;
    errno = problem;
    return got;
}

static ProcessorTimes times(Activity *activity, int *has_ended)
{
    char text[128], *end = text;
    ProcessorTimes found = {0};
    if (task_read(activity, SCHEDSTAT, text, sizeof text) < 0) {
        *has_ended = errno == ESRCH;
        return found; /* there is no such file here, or it may not be read */
    }
    int64_t ran = strtoll(text, &end, 10), waited = strtoll(end, &end, 10);
    char *last = end;
    int64_t turns = strtoll(last, &end, 10);
    if (end != last && (ran || waited || turns)) /* else the kernel does not count */
        found = (ProcessorTimes){ran, waited, 1};
    return found;
}

static int kept_at_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t most = limit.rlim_cur / KEPT_PART / TASK_FILES;
    return most < KEPT_AT_MOST ? (int)most : KEPT_AT_MOST;
}

void activity_begin(Activity *activity, int64_t pid, int64_t tid, int tasks)
{
    *activity = (Activity){.pid = pid, .tid = tid, .tasks = tasks, .files = {-1, -1, -1}};
}

static void begin_at(Activity *activity, int is_new)
{
    int has_ended;
    if (!activity->has_begun) {
        activity->has_begun = 1;
        activity->keeps = kept < kept_at_most();
        kept += activity->keeps;
    }
    ProcessorTimes first = {.are_known = 1};
    processor_begin(&activity->processor, is_new ? first : times(activity, &has_ended));
}

void activity_from_now(Activity *activity) { begin_at(activity, 0); }

void activity_from_beginning(Activity *activity) { begin_at(activity, 1); }

int activity_now(Activity *activity, uint64_t gil, uint64_t gil_size, int64_t took)
{
    char text[1024];
    int has_ended = 0, is_running = 0;
    if (task_read(activity, SYSCALL, text, sizeof text) > 0) {
        char *words;
        is_running = strncmp(text, "running", 7) == 0;
        if (!is_running && strtol(text, &words, 10) == SYS_futex)
            return strtoull(words, NULL, 16) - gil < gil_size ? GIL : LOCK;
    }
    if (!is_running) {
        if (task_read(activity, STAT, text, sizeof text) <= 0)
            return errno == ESRCH || errno == ENOENT ? -1 : ACTIVE;
        const char *state = strrchr(text, ')');
        if (state == NULL || state[1] == 0)
            return ACTIVE;
        if (state[2] != 'R')
            return state[2] == 'D' ? DISK : WAIT;
    }
    ProcessorTimes now = times(activity, &has_ended);
    if (has_ended)
        return -1;
    int runs = processor_runs(&activity->processor, now, took);
    return runs < 0 ? ACTIVE : runs ? CPU : RUNNABLE;
}

void activity_forget(Activity *activity, int tasks)
{
    activity->tasks = tasks;
    for (int i = 0; i < TASK_FILES; i++)
        activity->files[i] = -1;
}

void activity_end(Activity *activity)
{
    for (int i = 0; i < TASK_FILES; i++)
        if (activity->files[i] >= 0)
            close(activity->files[i]);
    activity_forget(activity, -1);
    kept -= activity->keeps;
    activity->keeps = 0;
}
