/* Names of user events, and the records that sum their samples. */
#include "events.h"

typedef struct EventRecord {
    uint64_t id, name_size, unit_size; /* followed by name and unit, each NUL-terminated */
} EventRecord;

typedef struct Event {
    char *name, *unit;
    uint64_t generation;
    struct Event *next;
    uint64_t id;
} Event;

static Event *events;
static Table samples; /* SampleRecord entries, in the part `samples_generation` */
static uint64_t samples_generation;
static Block *spare; /* blocks of records that are free again, of the same part */

static Event *event_of(const char *name, const char *unit)
{
    Event *event;
    for (event = events; event != NULL; event = event->next)
        if (strcmp(event->name, name) == 0 && strcmp(event->unit, unit) == 0)
            break;
    if (event == NULL) {
        if ((event = calloc(1, sizeof *event)) == NULL)
            return NULL;
        event->name = strdup(name);
        event->unit = strdup(unit);
        event->id = events != NULL ? events->id + 1 : 1;
        event->next = events;
        events = event;
    }
    if (event->generation != generation) {
        uint64_t n = strlen(name), u = strlen(unit);
        Block *block = part_block(part, BLOCK_EVENT, 0, sizeof(EventRecord) + n + u + 2);
        if (block == NULL)
            return NULL;
        EventRecord *record = (EventRecord *)(block + 1);
        memcpy((char *)(record + 1), name, n);
        memcpy((char *)(record + 1) + n + 1, unit, u);
        record->name_size = n;
        record->unit_size = u;
        record->id = event->id;
        event->generation = generation;
    }
    return event;
}

static uint64_t sample_hash(const SampleRecord *record)
{
    return table_hash(record->event * 1000003 + record->thread + ((uint64_t)record->node >> 6) * 31);
}

static int sample_is(const void *entry, const void *wanted)
{
    const SampleRecord *a = entry, *b = wanted;
    return a->event == b->event && a->thread == b->thread && a->node == b->node;
}

static SampleRecord *record_of(uint64_t event, Thread *thread, Node *node)
{
    if (samples_generation != generation) {
        table_clear(&samples);
        spare = NULL;
        samples_generation = generation;
    }
    SampleRecord wanted = {.event = event, .thread = thread->index, .node = node};
    uint64_t hash = sample_hash(&wanted);
    SampleRecord *record = table_find(&samples, hash, sample_is, &wanted);
    if (record != NULL)
        return record;
    Block *block = block_take(part, &spare, BLOCK_SAMPLES, (uint32_t)thread->index, sizeof *record);
    if (block == NULL)
        return NULL;
    block->unused[0] = (uint64_t)(uintptr_t)thread->sample_blocks;
    thread->sample_blocks = block;
    record = (SampleRecord *)(block + 1);
    *record = wanted;
    return table_put(&samples, hash, record) == 0 ? record : NULL;
}

SampleRecord *sample_record(const char *name, const char *unit, Thread *thread, Node *node)
{
    Event *event = event_of(name, unit);
    return event != NULL ? record_of(event->id, thread, node) : NULL;
}

void sample_add(SampleRecord *record, double value)
{
    if (record->count == 0)
        record->minimum = record->maximum = value;
    record->count++;
    record->sum += value;
    record->sum_squares += value * value;
    if (value < record->minimum)
        record->minimum = value;
    if (value > record->maximum)
        record->maximum = value;
}

void samples_sum(SampleRecord *into, const SampleRecord *from)
{
    if (into->count == 0 || from->minimum < into->minimum)
        into->minimum = from->minimum;
    if (into->count == 0 || from->maximum > into->maximum)
        into->maximum = from->maximum;
    into->count += from->count;
    into->sum += from->sum;
    into->sum_squares += from->sum_squares;
}

void samples_move(Thread *from, Thread *to, Node *(*moved)(const Node *node))
{
    for (Block *block = (Block *)(uintptr_t)from->sample_blocks, *before; block != NULL;
         block = before) {
        before = (Block *)(uintptr_t)block_before(block);
        SampleRecord *record = (SampleRecord *)(block + 1);
        Node *node = record->node != NULL ? moved(record->node) : NULL;
        SampleRecord *into = record_of(record->event, to, node);
        if (into != NULL)
            samples_sum(into, record);
        table_remove(&samples, sample_hash(record), record);
        block_free(&spare, block);
    }
    from->sample_blocks = NULL;
}

int sample(const char *name, const char *unit, double value, Thread *thread, Node *node)
{
    SampleRecord *record = sample_record(name, unit, thread, node);
    if (record == NULL)
        return -1;
    sample_add(record, value);
    return 0;
}
