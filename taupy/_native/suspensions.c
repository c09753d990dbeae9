/* See suspensions.h. Everything here runs under the GIL. */
#include "suspensions.h"
#include "timing.h"

#define RECORDS_A_BLOCK 31

static Table records; /* by node and instruction */
static SuspensionRecord *recent;
static SuspensionRecord *inner; /* what was suspended last, if nothing was resumed since */
static SuspensionRecord *room;
static uint64_t room_count, room_thread, of_generation;

static int is_at(const void *entry, const void *wanted)
{
    const SuspensionRecord *a = entry, *b = wanted;
    return a->node == b->node && a->instruction == b->instruction;
}

static inline uint64_t hash_of(const Node *node, int64_t instruction)
{
    return table_hash((uint64_t)node ^ (uint64_t)instruction << 48);
}

static SuspensionRecord *find(const Node *node, int64_t instruction)
{
    SuspensionRecord wanted = {.node = node, .instruction = instruction};
    if (of_generation != generation) {
        table_clear(&records); /* what it points to is the part's */
        recent = NULL;
        inner = NULL;
        room_count = 0;
        of_generation = generation;
    }
    if (recent != NULL && is_at(recent, &wanted))
        return recent;
    SuspensionRecord *found = table_find(&records, hash_of(node, instruction), is_at, &wanted);
    if (found != NULL)
        recent = found;
    return found;
}

static NOINLINE SuspensionRecord *add(Thread *thread, const Node *node, PyCodeObject *code,
                                      int64_t instruction)
{
    int saved = errno;
    thread->is_apart = 1;
    if (room_count == 0 || room_thread != thread->index) {
        Block *block = part_block(part, BLOCK_SUSPENSIONS, (uint32_t)thread->index,
                                  RECORDS_A_BLOCK * sizeof(SuspensionRecord));
        room = (SuspensionRecord *)(block + 1);
        room_count = block != NULL ? RECORDS_A_BLOCK : 0;
        room_thread = thread->index;
    }
    errno = saved;
    if (room_count == 0)
        return NULL;
    int line, end_line, column, end_column;
    if (!PyCode_Addr2Location(code, (int)instruction, &line, &column, &end_line, &end_column))
        return NULL;
    *room = (SuspensionRecord){.line = line, .end_line = end_line, .column = column,
                               .end_column = end_column, .instruction = instruction};
    room->node = node;
    if (table_put(&records, hash_of(node, instruction), room) != 0) {
        room->node = NULL;
        return NULL;
    }
    room_count--;
    return recent = room++;
}

/* What was suspended at once with it, within it, and before it, is awaited here. */
static void lead_here(SuspensionRecord *here)
{
    if (inner == NULL || inner->outer == here || inner->node->depth <= here->node->depth)
        return;
    for (const Node *above = inner->node->parent; above != NULL; above = above->parent)
        if (above == here->node) {
            inner->outer = here;
            return;
        }
}

void suspension_begins(Thread *thread, const Node *node, PyCodeObject *code,
                       int64_t instruction, uint64_t now)
{
    SuspensionRecord *here = find(node, instruction);
    if (here == NULL && (here = add(thread, node, code, instruction)) == NULL)
        return;
    here->begun++;
    here->ticks -= now;
    lead_here(here);
    inner = here;
}

void suspension_ends(Thread *thread, const Node *node, PyCodeObject *code,
                     int64_t instruction)
{
    SuspensionRecord *here = find(node, instruction);
    inner = NULL;
    /* An asynchronous generator may go on after its `yield`; a coroutine, on another call path. */
    if (here == NULL && (code->co_flags & CO_ASYNC_GENERATOR ||
                         (here = add(thread, node, code, instruction)) == NULL))
        return;
    here->ended++;
    here->ticks += node->t0;
}
