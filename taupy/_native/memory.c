/* Sampling resident memory: where a call path is new, and at the end. */
#define _GNU_SOURCE
#include "memory.h"
#include "events.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

uint64_t sample_ticks;
static uint64_t resident_before;

void memory_start(void) { resident_before = 0; }

static uint64_t resident_kib(void)
{
    char text[128];
    unsigned long long pages = 0;
    int saved = errno;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = 0;
        if (sscanf(text, "%*u %llu", &pages) != 1)
            pages = 0;
    }
    errno = saved;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void sample_resident(Thread *thread, uint64_t now)
{
    uint64_t kib = resident_kib();
    thread->sampled_ticks = now;
    part_moment(now);
    if (kib == 0)
        return;
    sample("Resident Memory", "KiB", (double)kib, thread, NULL);
    if (resident_before != 0 && kib > resident_before)
        sample("Resident Memory Growth", "KiB", (double)(kib - resident_before), thread,
               visible(thread));
    resident_before = kib;
}

static void on_path(Thread *thread, Routine *routine, Node *node)
{
    (void)routine, (void)node;
    if (!sample_ticks)
        return;
    uint64_t now = clock_ticks();
    if (now - thread->sampled_ticks > sample_ticks)
        sample_resident(thread, now);
}

static void on_finish(int ends)
{
    if (ends && sample_ticks && this_thread != NULL)
        sample_resident(this_thread, clock_ticks());
}

Listener memory_listener = {.on_path = on_path, .on_finish = on_finish};
