/* Timers of coroutines; see awaits.h. */
#include "awaits.h"
#include "events.h"
#include "frames.h"
#include "process.h"
#include "timing.h"

#define AWAITS_AT_MOST 65536 /* open at the same time */
#define HELD_AT_MOST 16 /* timers that are open in one coroutine */
#define HELPERS_AT_MOST 8 /* between a coroutine and a timer that belongs to it */
#define CO_SUSPENDS (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)

typedef struct Await {
    const void *frame, *key;
    int64_t began_ns;
} Await;

static Await *awaits; /* protected by the GIL; newest last */
static size_t count, room;

/* What called us, past our own functions. */
typedef struct Caller {
    const Routine *routine; /* NULL: not recorded */
    const void *task;       /* frame of the outermost coroutine that awaits it; NULL: none */
} Caller;

static Caller caller_of_ours(void)
{
    Caller caller = {NULL, NULL};
    void *frame = frame_first();
    for (int n = 0; n < HELPERS_AT_MOST;) {
        frame_settle(&frame);
        const void *id = frame;
        const PyCodeObject *code = frame_next_code(&frame);
        if (code == NULL)
            return caller;
        const Routine *routine = routine_find((void *)code);
        if (routine != NULL && routine->flags & ROUTINE_OURS)
            continue;
        if (caller.routine == NULL)
            caller.routine = routine;
        if (code->co_flags & CO_SUSPENDS) {
            caller.task = id;
            continue;
        }
        if (!coroutines_known || caller.task != NULL)
            break;
        n++;
    }
    frame_drop(frame);
    return caller;
}

const void *frame_id(void)
{
    void *frame = frame_first();
    frame_settle(&frame);
    const void *id = frame;
    frame_drop(frame);
    return id;
}

void timer_note(const char *name, const Routine *routine)
{
    static int is_noted;
    char text[512];
    if (routine == NULL && !is_noted)
        routine = caller_of_ours().routine;
    if (routine == NULL || is_noted)
        return;
    is_noted = 1;
    snprintf(text, sizeof text, "%.200s in %.150s, line %lld of %.120s", name, routine->name,
             (long long)routine->line, routine->file);
    metadata_write("taupy.timers.cut", text);
}

void await_begin(const void *key)
{
    const void *frame = coroutines_known ? caller_of_ours().task : NULL;
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

void await_end(const void *key, const char *name)
{
    const void *frame = count > 0 ? caller_of_ours().task : NULL;
    Thread *thread = thread_mine();
    if (frame == NULL || thread == NULL)
        return;
    for (size_t i = count; i-- > 0;) {
        if (awaits[i].frame != frame || awaits[i].key != key)
            continue;
        double took_ns = (double)(clock_ns(CLOCK_MONOTONIC) - awaits[i].began_ns);
        char text[512];
        snprintf(text, sizeof text, "%.480s (elapsed, with awaits)", name);
        Node *node = visible(thread);
        sample(text, "ns", took_ns, thread, node->parent == NULL ? NULL : node);
        memmove(&awaits[i], &awaits[i + 1], (--count - i) * sizeof *awaits);
        return;
    }
}

/* ---------------------------------------------------------------- suspended coroutines */

typedef struct Held {
    const void *frame;
    uint64_t count;
    void *keys[HELD_AT_MOST]; /* outermost first */
} Held;

const Suspension *suspension;
size_t timers_held;
static Table held;

static int held_is(const void *entry, const void *frame)
{
    return ((const Held *)entry)->frame == frame;
}

static Held *held_find(const void *frame)
{
    return table_find(&held, table_hash((uint64_t)frame), held_is, frame);
}

static void held_drop(Held *entry)
{
    table_remove(&held, table_hash((uint64_t)entry->frame), entry);
    timers_held--;
    free(entry);
}

int is_yielded(const PyObject *value)
{
    return value != NULL && strcmp(Py_TYPE(value)->tp_name, "async_generator_wrapped_value") == 0;
}

int timers_hold(const Node *inner, const Node *outer)
{
    uint64_t n = 0;
    for (const Node *node = inner; node != outer; node = node->parent)
        n += range_kind(node->key) == RANGE_TIMER;
    Held *entry = n > HELD_AT_MOST || suspension->frame == NULL ? NULL : calloc(1, sizeof *entry);
    if (entry == NULL)
        return 0;
    entry->frame = suspension->frame;
    entry->count = n;
    for (const Node *node = inner; node != outer; node = node->parent)
        if (range_kind(node->key) == RANGE_TIMER)
            entry->keys[--n] = node->key;
    if (entry->count == 0 || table_put(&held, table_hash((uint64_t)entry->frame), entry) != 0) {
        int is_empty = entry->count == 0;
        free(entry);
        return is_empty;
    }
    timers_held++;
    return 1;
}

void timers_drop(const void *frame)
{
    Held *entry = held_find(frame);
    if (entry != NULL)
        held_drop(entry);
}

void timers_resume(Thread *thread, const void *frame)
{
    Held *entry = held_find(frame);
    if (entry == NULL)
        return;
    for (uint64_t i = 0; i < entry->count; i++) {
        enter(entry->keys[i], 1, Py_None, NULL, 1);
        if (thread->cursor == &thread->hidden) {
            unhide(thread);
            break;
        }
    }
    held_drop(entry);
}
