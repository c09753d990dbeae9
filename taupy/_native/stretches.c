/* Where threads' time went between collectives; see stretches.h. */
#include "stretches.h"
#include "process.h"
#include "steps.h"

#define A_BLOCK 64
#define THREADS 8 /* that issue collectives */

typedef struct Side {
    uint64_t inclusive; /* at the last look, including time of calls then open */
    uint64_t running;   /* time since entry, if open now */
    int64_t own;        /* exclusive time since the last look */
    int was_open;       /* at the last look */
} Side;

/* Nodes in one contiguous block, with one Side for each. */
typedef struct Row {
    Node *nodes;
    uint64_t count;
    Side *sides;
} Row;

typedef struct Changed {
    Node *node;
    Side *side;
} Changed;

typedef struct Stretches {
    const Thread *thread;
    const Block *newest;
    Row *rows; /* sorted by address */
    size_t count, room;
    const Row *last; /* where a node was last found */
    Side root;
    Changed *changed;
    size_t changed_room;
    Node *cursor; /* at the last look */
    uint64_t looked, cost, asked;
    int is_first;
} Stretches;

static Stretches *held[THREADS];
static unsigned held_count;
static StretchRecord *free_records[A_BLOCK + STRETCHES_AT_MOST], *records[STRETCHES_AT_MOST];
static uint64_t step_of[STRETCHES_AT_MOST], stride = 1, kept_in_step, step_then;
static size_t free_count, record_count;
static uint64_t left_out;

/* ---------------------------------------------------------------- rows */

void stretches_make_room(void)
{
    _Static_assert(sizeof(StretchRecord) == 192, "as documented");
    if (free_count > 0)
        return;
    Block *block = part_block(part, BLOCK_STRETCHES, 0, A_BLOCK * sizeof(StretchRecord));
    for (StretchRecord *row = block ? (StretchRecord *)(block + 1) : NULL;
         row != NULL && free_count < A_BLOCK; row++)
        free_records[free_count++] = row;
}

static int is_kept(uint64_t step) { return step / STRETCH_STEPS % stride == 0; }

static void thin(void)
{
    size_t left = 0;
    if (steps_ended / STRETCH_STEPS < stride)
        return; /* no complete step to drop yet */
    stride *= 2;
    for (size_t i = 0; i < record_count; i++) {
        if (is_kept(step_of[i])) {
            records[left] = records[i];
            step_of[left++] = step_of[i];
        } else {
            records[i]->is_used = 0;
            free_records[free_count++] = records[i];
        }
    }
    left_out += record_count - left;
    record_count = left;
}

uint64_t stretches_left_out(void) { return left_out; }

/* Whether the current step has room for another stretch. */
static int has_room(void)
{
    if (step_then != steps_ended) {
        step_then = steps_ended;
        kept_in_step = 0;
    }
    return free_count > 0 && (steps_ended == 0 || kept_in_step < STRETCHES_A_STEP);
}

static StretchRecord *record_new(void)
{
    if (record_count == STRETCHES_AT_MOST)
        thin();
    if (record_count == STRETCHES_AT_MOST || !is_kept(steps_ended)) {
        left_out++;
        return NULL;
    }
    StretchRecord *record = free_records[--free_count];
    step_of[record_count] = steps_ended;
    records[record_count++] = record;
    kept_in_step++;
    return record;
}

/* ---------------------------------------------------------------- nodes */

static int row_add(Stretches *stretches, const Block *block)
{
    if (stretches->count == stretches->room) {
        size_t room = stretches->room ? stretches->room * 2 : 16;
        Row *rows = realloc(stretches->rows, room * sizeof *rows);
        if (rows == NULL)
            return -1;
        stretches->rows = rows;
        stretches->room = room;
    }
    uint64_t count = (block->size - sizeof *block) / (node_stride * sizeof(Node));
    Side *sides = calloc(count, sizeof *sides);
    if (sides == NULL)
        return -1;
    size_t at = stretches->count++;
    for (; at > 0 && stretches->rows[at - 1].nodes > (Node *)(block + 1); at--)
        stretches->rows[at] = stretches->rows[at - 1];
    stretches->rows[at] = (Row){(Node *)(block + 1), count, sides};
    stretches->last = stretches->rows;
    return 0;
}

/* Returns -1 if memory runs out. */
static int rows_look(Stretches *stretches)
{
    const Block *newest = stretches->thread->blocks;
    if (part_is_detached())
        return -1; /* headers of blocks may be lost */
    for (const Block *block = newest; block != stretches->newest; block = block_before(block))
        if (row_add(stretches, block) != 0)
            return -1;
    stretches->newest = newest;
    return 0;
}

static int lies_in(const Row *row, const Node *node)
{
    return node >= row->nodes && node < row->nodes + row->count * node_stride;
}

static Side *side_of(Stretches *stretches, const Node *node)
{
    if (node->parent == NULL)
        return &stretches->root;
    const Row *row = stretches->last;
    if (!lies_in(row, node)) {
        size_t low = 0, high = stretches->count;
        while (high - low > 1) {
            size_t middle = (low + high) / 2;
            if (stretches->rows[middle].nodes <= node)
                low = middle;
            else
                high = middle;
        }
        stretches->last = row = &stretches->rows[low];
    }
    return &row->sides[(uint64_t)(node - row->nodes) / node_stride];
}

/* ---------------------------------------------------------------- looking */

/* Returns -1 if memory runs out. */
static int note(Stretches *stretches, size_t *count, Node *node, Side *side)
{
    uint64_t inclusive = node->inclusive + side->running;
    uint64_t gained = inclusive > side->inclusive ? inclusive - side->inclusive : 0;
    side->inclusive = inclusive;
    if (gained == 0 && *count > 0)
        return 0;
    if (*count == stretches->changed_room) {
        size_t room = *count ? *count * 2 : 256;
        Changed *changed = realloc(stretches->changed, room * sizeof *changed);
        if (changed == NULL)
            return -1;
        stretches->changed = changed;
        stretches->changed_room = room;
    }
    stretches->changed[(*count)++] = (Changed){node, side};
    side->own += (int64_t)gained;
    if (node->parent != NULL)
        side_of(stretches, node->parent)->own -= (int64_t)gained;
    return 0;
}

/* Returns the number of entries in `changed`, or -1 if memory runs out. */
static int64_t changed_since(Stretches *stretches)
{
    size_t count = 0;
    int result = note(stretches, &count, (Node *)&stretches->thread->root, &stretches->root);
    for (size_t at = 0; at < stretches->count && result == 0; at++) {
        const Row *row = &stretches->rows[at];
        Node *node = row->nodes;
        for (uint64_t i = 0; i < row->count && node->key != NULL && result == 0;
             i++, node += node_stride) {
            Side *side = &row->sides[i];
            if (node->t0 >= stretches->looked || side->was_open)
                result = note(stretches, &count, node, side);
        }
    }
    return result == 0 ? (int64_t)count : -1;
}

/* Write the nodes with the most exclusive time, and reset the state of this look. */
static void write_own(Stretches *stretches, size_t count, StretchRecord *record)
{
    for (size_t i = 0; i < count; i++) {
        Changed changed = stretches->changed[i];
        uint64_t own = changed.side->own > 0 ? (uint64_t)changed.side->own : 0;
        changed.side->own = 0;
        if (record == NULL || own <= record->own[STRETCH_PLACES - 1].ticks)
            continue;
        int at = STRETCH_PLACES - 1;
        for (; at > 0 && record->own[at - 1].ticks < own; at--)
            record->own[at] = record->own[at - 1];
        record->own[at].node = changed.node;
        record->own[at].ticks = own;
    }
}

static void set_open(Stretches *stretches, Node *cursor, int is_open)
{
    for (Node *node = cursor; node != NULL; node = node->parent)
        side_of(stretches, node)->was_open = is_open;
}

static void set_running(Stretches *stretches, Node *cursor, uint64_t now)
{
    for (Node *node = cursor; node != NULL; node = node->parent)
        side_of(stretches, node)->running = now > node->t0 ? now - node->t0 : 0;
}

static void look(Stretches *stretches, Thread *thread, uint64_t now)
{
    Node *cursor = visible(thread);
    if (rows_look(stretches) != 0)
        return;
    set_running(stretches, cursor, now);
    int64_t count = changed_since(stretches);
    set_running(stretches, cursor, 0);
    StretchRecord *record = count > 0 && !stretches->is_first ? record_new() : NULL;
    if (record != NULL)
        *record = (StretchRecord){.thread = thread->index, .start = stretches->looked, .end = now};
    write_own(stretches, count > 0 ? (size_t)count : 0, record);
    if (record != NULL)
        __atomic_store_n(&record->is_used, 1, __ATOMIC_RELEASE); /* the row is complete */
    if (stretches->cursor != NULL)
        set_open(stretches, stretches->cursor, 0);
    set_open(stretches, cursor, 1);
    stretches->cursor = cursor;
    stretches->looked = now;
}

static Stretches *stretches_of(const Thread *thread)
{
    for (unsigned i = 0; i < held_count; i++)
        if (held[i]->thread == thread)
            return held[i];
    Stretches *stretches = held_count < THREADS ? calloc(1, sizeof *stretches) : NULL;
    if (stretches != NULL) {
        stretches->thread = thread;
        stretches->is_first = 1;
        held[held_count++] = stretches;
    }
    return stretches;
}

void stretches_asked(Thread *thread, uint64_t asked)
{
    Stretches *stretches = stretches_of(thread);
    uint64_t now = clock_ticks();
    if (stretches == NULL || asked == stretches->asked)
        return;
    stretches->asked = asked; /* other callers issued no collective, so no stretch ends */
    if (!has_room() || now - stretches->looked < STRETCH_COST * stretches->cost)
        return;
    look(stretches, thread, now);
    /* The first look includes setup, and an interrupted one says nothing about the usual cost. */
    uint64_t took = clock_ticks() - now, limit = stretches->cost + stretches->cost / 8;
    if (!stretches->is_first)
        stretches->cost = stretches->cost == 0 || took < limit ? took : limit;
    stretches->is_first = 0;
}

void stretches_forget(void)
{
    for (unsigned i = 0; i < held_count; i++) {
        for (size_t at = 0; at < held[i]->count; at++)
            free(held[i]->rows[at].sides);
        free(held[i]->rows);
        free(held[i]->changed);
        free(held[i]);
    }
    held_count = 0;
    free_count = record_count = 0;
    stride = 1;
    kept_in_step = step_then = left_out = 0;
}
