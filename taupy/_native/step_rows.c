/* Writing and merging rows of steps; see step_rows.h. */
#include "step_rows.h"
#include "batches.h"
#include "process.h"
#include <math.h>

#define NAMED_AT_MOST 16 /* of the names for which there is no room */

_Static_assert(STEP_ROWS % (2 * STEP_ROWS_A_BLOCK) == 0, "rows become half as many");

/* ---------------------------------------------------------------- names of values */

static char *names[STEP_VALUES + NAMED_AT_MOST]; /* there is no room for the last ones */
static size_t name_count;
static uint64_t names_generation;
static int others_left_out; /* whose names are not kept */

/* Note in the trial which values are left out. */
static void tell_left_out(void)
{
    char text[128 + NAMED_AT_MOST * 64];
    int used = snprintf(text, sizeof text, "steps keep the first %d names of values that were "
                        "logged; left out:", STEP_VALUES);
    for (size_t i = STEP_VALUES; i < name_count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %.60s",
                         i > STEP_VALUES ? "," : "", names[i]);
    snprintf(text + used, sizeof text - (size_t)used, "%s", others_left_out ? " and others" : "");
    metadata_write("taupy.health.step_values", text);
}

static void names_forget(void)
{
    while (name_count > 0)
        free(names[--name_count]);
    names_generation = generation;
    others_left_out = 0;
}

/* Write the name of the next place to the part. */
static int name_record(const char *name)
{
    uint64_t size = strlen(name);
    Block *block = part_block(part, BLOCK_STEP_VALUE, 0, sizeof(StepValueRecord) + size + 1);
    if (block == NULL)
        return 0;
    StepValueRecord *record = (StepValueRecord *)(block + 1);
    memcpy(record + 1, name, size);
    record->at = name_count;
    record->name_size = size;
    return 1;
}

int step_value_place(const char *name)
{
    if (names_generation != generation)
        names_forget();
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return i < STEP_VALUES ? (int)i : -1;
    int has_place = name_count < STEP_VALUES;
    if (name_count == STEP_VALUES + NAMED_AT_MOST) {
        if (!others_left_out) {
            others_left_out = 1;
            tell_left_out();
        }
        return -1;
    }
    if ((names[name_count] = strdup(name)) == NULL)
        return -1;
    if (has_place && !name_record(name)) {
        free(names[name_count]);
        return -1;
    }
    name_count++;
    if (!has_place)
        tell_left_out();
    return has_place ? (int)name_count - 1 : -1;
}

/* Whether these values are numbers of tokens, which add up where rows are merged. */
static int is_tokens(int at)
{
    return (size_t)at < name_count && strcmp(names[at], STEP_TOKENS) == 0;
}

/* ---------------------------------------------------------------- rows */

static StepRecord *row_at(const StepSeries *series, uint64_t row)
{
    return &series->blocks[row / STEP_ROWS_A_BLOCK][row % STEP_ROWS_A_BLOCK];
}

static uint64_t sum_of(uint64_t one, uint64_t other)
{
    return one == COUNT_UNKNOWN || other == COUNT_UNKNOWN ? COUNT_UNKNOWN : one + other;
}

static void row_add(StepRecord *row, const StepRecord *more)
{
    row->ticks += more->ticks;
    row->longest = row->longest > more->longest ? row->longest : more->longest;
    row->samples = sum_of(row->samples, more->samples);
    for (int i = 0; i < STEP_PHASES; i++)
        row->phases[i] += more->phases[i];
    for (int i = 0; i < STEP_VALUES; i++)
        if (!isnan(more->values[i]))
            row->values[i] = more->values[i] +
                             (is_tokens(i) && !isnan(row->values[i]) ? row->values[i] : 0);
    for (int i = 0; i < STEP_METRICS; i++)
        row->metrics[i] += more->metrics[i]; /* unknown if one of them is */
    row->steps += more->steps;
}

/* Merge rows in pairs. A concurrent reader may see a row twice, and can tell by the step
 * numbers. */
static void series_halve(StepSeries *series)
{
    for (uint64_t i = 0; i < series->rows / 2; i++) {
        StepRecord both = *row_at(series, 2 * i);
        row_add(&both, row_at(series, 2 * i + 1));
        *row_at(series, i) = both;
    }
    series->rows /= 2;
    series->each *= 2;
    for (uint64_t i = series->rows; i < STEP_ROWS; i++)
        row_at(series, i)->steps = 0;
}

int step_rows_fit(const StepSeries *series, uint64_t rows)
{
    uint64_t last = series->rows + rows - 1;
    return last < STEP_ROWS && series->blocks[last / STEP_ROWS_A_BLOCK] != NULL;
}

static int make_room(StepSeries *series, const Thread *thread, enum StepKind kind)
{
    if (series->rows == STEP_ROWS)
        series_halve(series);
    if (step_rows_fit(series, 1))
        return 1;
    Block *block = part_block(part, BLOCK_STEPS, (uint32_t)thread->index,
                              STEP_ROWS_A_BLOCK * sizeof(StepRecord));
    if (block == NULL)
        return 0;
    block->unused[0] = kind;
    series->blocks[series->rows / STEP_ROWS_A_BLOCK] = (StepRecord *)(block + 1);
    return 1;
}

StepRecord *step_row_add(StepSeries *series, const Thread *thread, enum StepKind kind,
                         const StepRecord *one)
{
    if (series->each == 0)
        series->each = 1;
    StepRecord *last = series->rows > 0 ? row_at(series, series->rows - 1) : NULL;
    if (last != NULL && last->steps < series->each) {
        row_add(last, one);
        return last;
    }
    if (!make_room(series, thread, kind))
        return NULL;
    StepRecord incomplete = *one;
    incomplete.steps = 0;
    last = row_at(series, series->rows++);
    *last = incomplete;
    __atomic_store_n(&last->steps, one->steps, __ATOMIC_RELEASE); /* the row is complete */
    return last;
}
