/* Recording spans; see spans.h. */
#include "spans.h"

#define FIRST_SPANS 40 /* per block: a program may have thousands of short-lived threads */
#define MOST_SPANS 4096
#define READY 64 /* most autograd nodes nested in one another */

uint64_t spans_limit, spans_long;
static uint64_t counted;    /* generation of the part that the counts below refer to */
static uint64_t count;
static uint64_t full_since; /* ticks; 0: not full. Calls that begin later get no span. */

static uint64_t full_at(void) { return __atomic_load_n(&full_since, __ATOMIC_RELAXED); }

static void be_full(Thread *thread, uint64_t now, enum SpansEnd why)
{
    Block *block = (Block *)thread - 1;
    block->unused[BLOCK_THREAD_SPANS_TICKS] = now;
    block->unused[BLOCK_THREAD_SPANS_END] = why;
    __atomic_store_n(&full_since, now, __ATOMIC_RELAXED);
}

/* Reset the count for a new part. */
static void count_anew(void)
{
    if (__atomic_exchange_n(&counted, generation, __ATOMIC_RELAXED) == generation)
        return;
    __atomic_store_n(&count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&full_since, 0, __ATOMIC_RELAXED);
}

/* Start a new block. The rest of the old one stays empty. */
static void make_room(Thread *thread)
{
    uint32_t spans = thread->span_block ? thread->span_block : FIRST_SPANS;
    while (spans <= thread->spans_kept)
        spans *= 4;
    Block *block =
        part_block(part, BLOCK_SPANS, (uint32_t)thread->index, spans * sizeof(SpanRecord));
    if (block == NULL)
        return;
    thread->free_span = (SpanRecord *)(block + 1);
    thread->free_spans = spans;
    thread->span_block = spans < MOST_SPANS ? spans * 4 : spans;
}

void span_add(Thread *thread, const Node *node, uint64_t now)
{
    if (!(node->flags & NODE_STAMPED) && now - node->t0 < spans_long)
        return;
    if (unlikely(__atomic_load_n(&counted, __ATOMIC_RELAXED) != generation))
        count_anew();
    uint64_t full = full_at();
    if (unlikely(full != 0) && node->t0 >= full)
        return;
    if (unlikely(thread->free_spans <= thread->spans_kept) && !thread->without_gil)
        make_room(thread);
    if (unlikely(thread->free_spans == 0)) {
        be_full(thread, now, SPANS_NO_MEMORY);
        return;
    }
    SpanRecord *record = thread->free_span++;
    thread->free_spans--;
    record->start = node->t0;
    record->end = now;
    __atomic_store_n(&record->node, node, __ATOMIC_RELEASE);
    if (__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) == spans_limit)
        be_full(thread, now, SPANS_LIMIT);
}

int spans_ready(const Thread *thread)
{
    return spans_limit == 0 || thread->free_spans > READY || full_at() != 0;
}

void spans_reserve(Thread *thread)
{
    thread->spans_kept = READY;
    if (!spans_ready(thread))
        make_room(thread);
}
