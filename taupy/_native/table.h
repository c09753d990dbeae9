/* The engine's hash table: pointers to entries, each next to its hash.
 *
 * Open addressing with linear probing, at most two thirds full. The slot comes from the upper bits
 * of the hash, so that growing copies a table from front to back. Removal leaves no tombstone: the
 * following entries move up. A table that is repeatedly filled and emptied therefore stays as small
 * and fast as one filled once.
 *
 * The table owns its slots, never the entries. `is` is a constant at each call, so the compiler
 * inlines it. No Python here. */
#ifndef TAUPY_TABLE_H
#define TAUPY_TABLE_H

#include "pages.h"
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST_BITS 6

typedef struct TableSlot {
    uint64_t hash; /* 0: the slot is empty */
    void *entry;
} TableSlot;

typedef struct Table { /* all zero: an empty table */
    TableSlot *slots;  /* NULL until the first entry */
    uint64_t mask, count;
    unsigned shift;
} Table;

/* Whether this is the entry looked for. Called only if the hashes are equal. */
typedef int TableIs(const void *entry, const void *wanted);

/* Hash of a number, never 0. Its upper bits depend on all bits of the number. */
static inline uint64_t table_hash(uint64_t number)
{
    return number * 0x9E3779B97F4A7C15ull | 1;
}

/* Hash of a string, continuing from another string's hash, or from 0. Takes eight characters at a
 * time; the last ones overlap. */
static inline uint64_t table_hash_text(uint64_t hash, const char *text)
{
    size_t size = strlen(text);
    uint64_t word = 0;
    for (size_t at = 0; at + sizeof word < size; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    if (size >= sizeof word)
        memcpy(&word, text + size - sizeof word, sizeof word);
    else
        for (size_t at = 0; at < size; at++)
            word = word << 8 | (unsigned char)text[at];
    hash = (hash ^ word ^ size) * 0x9FB21C651E98DF25ull;
    return table_hash(hash ^ hash >> 32);
}

static inline __attribute__((always_inline)) void *table_find(const Table *table, uint64_t hash,
                                                              TableIs *is, const void *wanted)
{
    const TableSlot *slots = table->slots;
    if (slots == NULL)
        return NULL;
    for (uint64_t i = hash >> table->shift;; i = (i + 1) & table->mask) {
        if (slots[i].hash == hash && is(slots[i].entry, wanted))
            return slots[i].entry;
        if (slots[i].hash == 0)
            return NULL;
    }
}

static inline void table_fill(TableSlot *slots, uint64_t mask, unsigned shift, TableSlot slot)
{
    uint64_t i = slot.hash >> shift;
    while (slots[i].hash != 0)
        i = (i + 1) & mask;
    slots[i] = slot;
}

/* Allocate empty slots. Each look-up in a large table touches a different page, which is cheaper
 * with huge pages. */
static inline TableSlot *slots_new(uint64_t count)
{
    uint64_t size = count * sizeof(TableSlot);
    if (size < LARGE_PAGE)
        return calloc(count, sizeof(TableSlot));
    TableSlot *slots = aligned_alloc(LARGE_PAGE, size);
    if (slots != NULL) {
        pages_large(slots, size);
        memset(slots, 0, size);
    }
    return slots;
}

static __attribute__((unused, noinline)) int table_grow(Table *table)
{
    unsigned bits = table->slots == NULL ? TABLE_FIRST_BITS : 64 - table->shift + 1;
    TableSlot *slots = slots_new(1ull << bits);
    if (slots == NULL)
        return -1;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++)
        if (table->slots[i].hash != 0)
            table_fill(slots, (1ull << bits) - 1, 64 - bits, table->slots[i]);
    free(table->slots);
    table->slots = slots;
    table->mask = (1ull << bits) - 1;
    table->shift = 64 - bits;
    return 0;
}

/* Add an entry, which must not be in the table yet. Returns -1 if memory runs out. */
static inline int table_put(Table *table, uint64_t hash, void *entry)
{
    if (table->count * 3 >= table->mask * 2 && table_grow(table) != 0)
        return -1;
    table_fill(table->slots, table->mask, table->shift, (TableSlot){hash, entry});
    table->count++;
    return 0;
}

/* Remove an entry by its address; does nothing if it is not there. */
static __attribute__((unused)) void table_remove(Table *table, uint64_t hash, const void *entry)
{
    TableSlot *slots = table->slots;
    if (slots == NULL)
        return;
    uint64_t mask = table->mask, i = hash >> table->shift;
    while (slots[i].entry != entry) {
        if (slots[i].hash == 0)
            return;
        i = (i + 1) & mask;
    }
    /* Entries that a search could no longer reach move into the gap. */
    for (uint64_t j = (i + 1) & mask; slots[j].hash != 0; j = (j + 1) & mask) {
        uint64_t home = slots[j].hash >> table->shift;
        if (((j - home) & mask) >= ((j - i) & mask)) {
            slots[i] = slots[j];
            i = j;
        }
    }
    slots[i] = (TableSlot){0, NULL};
    table->count--;
}

/* Empty the table and free its slots. */
static __attribute__((unused)) void table_clear(Table *table)
{
    free(table->slots);
    memset(table, 0, sizeof *table);
}

static inline uint64_t table_slots(const Table *table)
{
    return table->slots != NULL ? table->mask + 1 : 0;
}

/* Total number of steps needed to find each entry once: the cost of the table. */
static __attribute__((unused)) uint64_t table_steps(const Table *table)
{
    uint64_t steps = 0;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++)
        if (table->slots[i].hash != 0)
            steps += 1 + ((i - (table->slots[i].hash >> table->shift)) & table->mask);
    return steps;
}

#endif
