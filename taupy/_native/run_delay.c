/* See run_delay.h. */
#include "run_delay.h"
#include "confined.h"
#include "events.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static Thread *first;
static uint64_t first_began; /* its run delay when its recording began */

/* The second of the file's three numbers: time on processors [ns], time waiting for one [ns], time
 * slices. A kernel that does not keep them gives zeros. */
uint64_t run_delay(int descriptor)
{
    char text[80], *end = text;
    unsigned long long numbers[3];
    ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
    if (size <= 0)
        return RUN_DELAY_UNKNOWN;
    text[size] = 0;
    for (int i = 0; i < 3; i++) {
        const char *begin = end;
        numbers[i] = strtoull(begin, &end, 10);
        if (end == begin)
            return RUN_DELAY_UNKNOWN;
    }
    return *end == '\n' && numbers[2] > 0 ? numbers[1] : RUN_DELAY_UNKNOWN;
}

static uint64_t delay_of(const Thread *thread)
{
    char path[64];
    int saved = errno;
    snprintf(path, sizeof path, "/proc/self/task/%llu/schedstat",
             (unsigned long long)thread->native_id);
    int file = is_filtered() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    uint64_t delay = file >= 0 ? run_delay(file) : RUN_DELAY_UNKNOWN;
    if (file >= 0)
        close(file);
    errno = saved;
    return delay;
}

static void on_thread(Thread *thread)
{
    if (thread->index != 0)
        return;
    first = thread;
    first_began = delay_of(thread);
}

static void on_finish(int ends)
{
    if (!ends || first == NULL || !part_holds(first) || thread_is_over(first))
        return;
    uint64_t delay = delay_of(first);
    if (first_began != RUN_DELAY_UNKNOWN && delay != RUN_DELAY_UNKNOWN && delay >= first_began)
        sample("Thread Run Delay", "ns", (double)(delay - first_began), first, NULL);
}

Listener run_delay_listener = {.on_thread = on_thread, .on_finish = on_finish};
