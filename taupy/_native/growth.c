/* See growth.h. Everything here runs under the GIL. */
#include "growth.h"
#include "gil.h"
#include "routine.h"

#define CALLS_AT_LEAST 16    /* fewer show nothing */
#define RECORDS_AT_MOST 256
#define LEVELS_AT_MOST 32    /* call paths looked at, the innermost ones */
#define LOOKS_OF_A_RUN 500   /* a look is due when so small a part of the run has passed again, */
#define LOOKS_A_SAMPLE 8     /* but not more often than so many times in a sampling interval */

#define LOOKS_IN_A_ROW 64    /* when there have been twice as many looks as at the last row */

static Table records; /* by node, of the part `of_generation` */
static uint64_t count, of_generation, looks;
static int in_a_row; /* so many are still to come */
static Block *spare; /* blocks of records that are free again, of the same part */
static WindowWatch watch;

static int is_of_node(const void *entry, const void *wanted)
{
    return ((const GrowthRecord *)entry)->node == wanted;
}

static GrowthRecord *find(const Node *node)
{
    if (of_generation != generation) {
        table_clear(&records); /* what it points to is the part's */
        arguments_forget();
        count = looks = 0;
        spare = NULL;
        of_generation = generation;
    }
    return table_find(&records, key_hash(node), is_of_node, node);
}

static GrowthRecord *add(const Thread *thread, const Node *node)
{
    const Routine *routine = routine_find(node->key);
    if (count >= RECORDS_AT_MOST || routine == NULL || !routine_is_own(routine))
        return NULL;
    Block *block = block_take(part, &spare, BLOCK_GROWTH, (uint32_t)thread->index,
                              sizeof(GrowthRecord));
    if (block == NULL)
        return NULL;
    GrowthRecord *record = (GrowthRecord *)(block + 1);
    if (table_put(&records, key_hash(node), record) != 0) {
        block_free(&spare, block);
        return NULL;
    }
    record->node = node;
    count++;
    return record;
}

/* When the next look is due. */
static void pace(uint64_t now)
{
    uint64_t apart = (now - part->start_ticks) / LOOKS_OF_A_RUN;
    uint64_t least = sample_ticks / LOOKS_A_SAMPLE;
    if (in_a_row > 0)
        in_a_row--;
    else {
        looks++;
        in_a_row = (looks & (looks - 1)) == 0 ? LOOKS_IN_A_ROW : 0;
    }
    watch.again = in_a_row > 0;
    watch.next_ticks = in_a_row > 0 ? 0 : now + (apart > least ? apart : least);
}

static void note(GrowthRecord *record, uint64_t calls, uint64_t ticks)
{
    uint64_t noted = record->count;
    if (noted == GROWTH_NOTES || (noted != 0 && calls < 2 * record->notes[noted - 1].calls))
        return;
    record->notes[noted] = (GrowthNote){calls, ticks};
    __atomic_store_n(&record->count, noted + 1, __ATOMIC_RELEASE);
}

static void look(Thread *thread, Node *node, Node *begins, uint64_t now)
{
    pace(now);
    if (!holds_gil())
        return; /* a backward pass */
    int has_left = begins == NULL && visible(thread) == node->parent;
    if (begins != NULL)
        node = begins;
    OpenFrames frames = open_frames();
    for (int n = 0; n < LEVELS_AT_MOST && node->parent != NULL; n++, node = node->parent) {
        uint64_t calls = node->calls - (uint64_t)!has_left;
        int is_new = node == begins;
        has_left = 0;
        if (node->calls <= CALLS_AT_LEAST || node->resumes != 0 || ((uint64_t)node->key & 7) != 0)
            continue;
        GrowthRecord *record = find(node);
        if (record == NULL && (record = add(thread, node)) == NULL)
            continue;
        note(record, calls, node->inclusive);
        Routine *routine = routine_find(node->key);
        if (routine != NULL)
            arguments_look(&frames, thread, node, routine, is_new, &record->arguments);
    }
}

void growth_forget(const Thread *thread)
{
    if (count == 0 || of_generation != generation)
        return;
    uint64_t before = count;
    for (const Block *block = thread->blocks; block != NULL; block = block_before(block)) {
        const char *end = (const char *)block + block->size;
        for (const char *at = (const char *)(block + 1); at < end; at += node_stride * sizeof(Node)) {
            GrowthRecord *record = find((const Node *)(const void *)at);
            if (record == NULL)
                continue;
            table_remove(&records, key_hash(record->node), record);
            block_free(&spare, (Block *)record - 1);
            count--;
        }
    }
    if (count != before)
        arguments_forget(); /* their counts are gone, too */
}

void growth_start(void)
{
    watch.look = look;
    watch.next_ticks = sample_ticks ? 0 : UINT64_MAX;
    watch.again = in_a_row = 0;
    window_watch_add(&watch);
}
