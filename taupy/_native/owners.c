/* Notes of which layer was active; see owners.h. */
#include "owners.h"
#include <pthread.h>
#include <stdlib.h>

#define NOTES_FIRST 256
#define NEAR 4             /* notes looked at before a search */
#define LOGS_AT_MOST 64 /* beyond that, logs of ended threads are reused */

typedef struct Note {
    uint64_t sequence;
    void *owner;
} Note;

/* Written only by its own thread; `notes` is reallocated under the lock. */
typedef struct Log {
    uint64_t thread;
    Note *notes;
    uint64_t count, room; /* number of notes so far; capacity, a power of two */
    int is_over;
    struct Log *next; /* older */
} Log;

static Log *logs;
static unsigned log_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread Log *mine;

/* Remove and return the oldest log of an ended thread; NULL if there is none. */
static Log *log_unused(void)
{
    Log **found = NULL;
    for (Log **at = &logs; *at != NULL; at = &(*at)->next)
        if ((*at)->is_over)
            found = at;
    if (log_count < LOGS_AT_MOST || found == NULL)
        return NULL;
    Log *log = *found;
    *found = log->next;
    return log;
}

static Log *log_begin(uint64_t thread)
{
    pthread_mutex_lock(&lock);
    Log *log = log_unused();
    if (log == NULL && (log = calloc(1, sizeof *log)) != NULL)
        log_count++;
    if (log != NULL) {
        log->thread = thread;
        log->count = 0;
        log->is_over = 0;
        log->next = logs;
        logs = log;
    }
    pthread_mutex_unlock(&lock);
    return mine = log;
}

static int log_grow(Log *log)
{
    uint64_t room = log->room ? log->room * 2 : NOTES_FIRST;
    pthread_mutex_lock(&lock);
    Note *notes = realloc(log->notes, room * sizeof *notes);
    if (notes != NULL) {
        log->notes = notes;
        log->room = room;
    }
    pthread_mutex_unlock(&lock);
    return notes != NULL ? 0 : -1;
}

static inline Note *note_at(const Log *log, uint64_t at)
{
    return &log->notes[at & (log->room - 1)];
}

void owner_note(uint64_t thread, uint64_t sequence, void *owner)
{
    Log *log = mine;
    if ((log == NULL || log->thread != thread) && (log = log_begin(thread)) == NULL)
        return;
    if (log->count > 0) {
        Note *last = note_at(log, log->count - 1);
        if (last->sequence == sequence) { /* no graph node created since */
            __atomic_store_n(&last->owner, owner, __ATOMIC_RELAXED);
            return;
        }
        if (last->sequence > sequence) /* sequence numbers have restarted */
            __atomic_store_n(&log->count, 0, __ATOMIC_RELEASE);
    }
    if (log->count == log->room && log->room < OWNERS_AT_MOST && log_grow(log) != 0)
        return;
    Note *note = note_at(log, log->count);
    __atomic_store_n(&note->sequence, sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&note->owner, owner, __ATOMIC_RELAXED);
    __atomic_store_n(&log->count, log->count + 1, __ATOMIC_RELEASE);
}

void *owner_note_late(uint64_t thread, uint64_t sequence, void *owner)
{
    const Log *log = mine;
    const Note *last = log != NULL && log->thread == thread && log->count > 0
                           ? note_at(log, log->count - 1)
                           : NULL;
    void *before = last != NULL ? last->owner : NULL;
    if (last == NULL || last->sequence <= sequence)
        owner_note(thread, sequence, owner);
    return before;
}

/* Number of notes from `first` on that begin at or before the graph node. */
static uint64_t notes_up_to(const Log *log, uint64_t first, uint64_t count, uint64_t sequence)
{
    uint64_t low = first, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (__atomic_load_n(&note_at(log, middle)->sequence, __ATOMIC_RELAXED) <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low - first;
}

static int begins_after(const Log *log, uint64_t at, uint64_t count, uint64_t sequence)
{
    return at == count ||
           __atomic_load_n(&note_at(log, at)->sequence, __ATOMIC_RELAXED) > sequence;
}

/* The same number, searched first near the note used last on this thread: a backward pass goes
 * through the notes from the last one to the first. */
static uint64_t notes_up_to_near(const Log *log, uint64_t first, uint64_t count, uint64_t sequence)
{
    static __thread struct {
        const Log *log;
        uint64_t end; /* the note after the one used */
    } used;
    uint64_t end = used.end;
    if (used.log != log || end > count || end < first + NEAR ||
        !begins_after(log, end, count, sequence))
        end = 0;
    for (int i = 0; end != 0 && begins_after(log, end - 1, count, sequence); i++)
        end = i < NEAR - 1 ? end - 1 : 0;
    if (end == 0)
        end = first + notes_up_to(log, first, count, sequence);
    used.log = log;
    used.end = end;
    return end - first;
}

static void *owner_in(const Log *log, uint64_t sequence, int *is_forgotten)
{
    uint64_t count = __atomic_load_n(&log->count, __ATOMIC_ACQUIRE);
    uint64_t first = count > log->room ? count - log->room : 0;
    uint64_t before = notes_up_to_near(log, first, count, sequence);
    *is_forgotten = before == 0 && first > 0;
    return before == 0 ? NULL
                       : __atomic_load_n(&note_at(log, first + before - 1)->owner, __ATOMIC_RELAXED);
}

void *owner_of(uint64_t thread, uint64_t sequence, int *is_forgotten)
{
    void *owner = NULL;
    if (mine != NULL && mine->thread == thread) /* a pass on the CPU; only this thread moves them */
        return owner_in(mine, sequence, is_forgotten);
    pthread_mutex_lock(&lock);
    Log *log = logs;
    while (log != NULL && log->thread != thread)
        log = log->next;
    if (log != NULL)
        owner = owner_in(log, sequence, is_forgotten);
    pthread_mutex_unlock(&lock);
    return owner;
}

void owners_end(void)
{
    if (mine != NULL)
        __atomic_store_n(&mine->is_over, 1, __ATOMIC_RELEASE);
    mine = NULL;
}

void owners_forked(void) { pthread_mutex_init(&lock, NULL); }
