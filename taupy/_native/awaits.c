/* Elapsed time of coroutines' timers; see awaits.h. */
#include "awaits.h"
#include "events.h"
#include "frames.h"
#include "metrics.h"
#include "routine.h"
#include "thread.h"

#define AWAITS_AT_MOST 65536 /* open at the same time */

typedef struct Await {
    const void *frame, *key;
    int64_t began_ns;
} Await;

static Await *awaits; /* protected by the GIL; newest last */
static size_t count, room;

/* The frame of the coroutine that called us, from our own functions; NULL: it is none. */
static const void *coroutine_frame(void)
{
    void *frame = frame_first();
    const void *found = NULL;
    for (;;) {
        frame_settle(&frame);
        const void *id = frame;
        const PyCodeObject *code = frame_next_code(&frame);
        const Routine *routine = code != NULL ? routine_find((void *)code) : NULL;
        if (routine != NULL && routine->flags & ROUTINE_OURS)
            continue;
        if (routine != NULL && routine->is_async)
            found = id;
        break;
    }
    frame_drop(frame);
    return found;
}

void await_begin(const void *key)
{
    const void *frame = coroutine_frame();
    if (frame == NULL || count >= AWAITS_AT_MOST)
        return;
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        Await *grown = realloc(awaits, more * sizeof *grown);
        if (grown == NULL)
            return;
        awaits = grown;
        room = more;
    }
    awaits[count++] = (Await){frame, key, clock_ns(CLOCK_MONOTONIC)};
}

int await_end(const void *key, const char *name)
{
    const void *frame = count > 0 ? coroutine_frame() : NULL;
    Thread *thread = this_thread;
    if (frame == NULL || thread == NULL)
        return 0;
    for (size_t i = count; i-- > 0;) {
        if (awaits[i].frame != frame || awaits[i].key != key)
            continue;
        double took_ns = (double)(clock_ns(CLOCK_MONOTONIC) - awaits[i].began_ns);
        char text[512];
        snprintf(text, sizeof text, "%.480s (elapsed, with awaits)", name);
        Node *node = visible(thread);
        sample(text, "ns", took_ns, thread, node->parent == NULL ? NULL : node);
        memmove(&awaits[i], &awaits[i + 1], (--count - i) * sizeof *awaits);
        return 1;
    }
    return 0;
}
