#define _GNU_SOURCE
#include "captures.h"
#include <stdint.h>
#include <string.h>

#define CAPTURES_AT_MOST 64
#define HANDLES_PER_THREAD 2 /* of the default streams: up to here, handles are not unique */

static uint64_t streams[CAPTURES_AT_MOST]; /* being captured; 0: none; atomic */
static int count, unlisted; /* atomic */
static __thread char per_thread;

static int begins(const char *function) { return strstr(function, "StreamBeginCapture") != NULL; }

int captures_by(const char *function)
{
    return begins(function) || strstr(function, "StreamEndCapture") != NULL ||
           strstr(function, "StreamDestroy") != NULL;
}

static uint64_t key_of(uint64_t stream)
{
    return stream > HANDLES_PER_THREAD ? stream : (uint64_t)(uintptr_t)&per_thread | 1;
}

static int replace(uint64_t before, uint64_t after)
{
    for (int i = 0; i < CAPTURES_AT_MOST; i++) {
        uint64_t there = before;
        if (__atomic_compare_exchange_n(&streams[i], &there, after, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

static int is_listed(uint64_t key)
{
    for (int i = 0; i < CAPTURES_AT_MOST; i++)
        if (__atomic_load_n(&streams[i], __ATOMIC_ACQUIRE) == key)
            return 1;
    return 0;
}

void captures_hear(const char *function, const void *parameters, int result)
{
    if (parameters == NULL)
        return;
    uint64_t key = key_of(*(const uint64_t *)parameters); /* the stream comes first in each */
    if (!begins(function)) { /* a failed end ends a capture, too */
        if (replace(key, 0))
            __atomic_sub_fetch(&count, 1, __ATOMIC_RELEASE);
    } else if (result == 0 && !is_listed(key)) { /* the runtime's call makes the driver's */
        if (replace(0, key))
            __atomic_add_fetch(&count, 1, __ATOMIC_RELEASE);
        else
            __atomic_store_n(&unlisted, 1, __ATOMIC_RELEASE); /* its end will not be noticed */
    }
}

int captures_under_way(void)
{
    return __atomic_load_n(&count, __ATOMIC_ACQUIRE) > 0 ||
           __atomic_load_n(&unlisted, __ATOMIC_ACQUIRE);
}
