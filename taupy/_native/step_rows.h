/* Rows of steps in the part, and the names of the values in them.
 *
 * A step is a fixed-size row. Beyond STEP_ROWS rows per thread and kind, rows are merged in pairs,
 * so that a row stands for 2, 4, 8 ... steps: the space is bounded, the number of steps is not.
 * Times and metrics are summed; of logged values, the last one is kept.
 *
 * Rows are written only by their own thread, under the GIL. */
#ifndef TAUPY_STEP_ROWS_H
#define TAUPY_STEP_ROWS_H

#include "calltree.h"
#include "step_metrics.h"

#define STEP_PHASES 12 /* kinds of phases, numbered as in taupy/network/phases.py */
#define STEP_VALUES 32 /* distinct value names, at most */
#define STEP_ROWS 16384
#define STEP_ROWS_A_BLOCK 64
#define STEP_TOKENS "tokens" /* the value that adds up where rows are merged */

enum StepKind { STEP_TRAINING = 0, STEP_VALIDATION = 1, STEP_KINDS = 2 };

/* As STEP in taupy/record/engine_layout.py. */
typedef struct StepRecord {
    uint64_t number; /* of the row's first step, from 1 */
    uint64_t steps;  /* steps merged into this row; 0: row not written yet */
    uint64_t start;  /* ticks */
    uint64_t ticks;  /* total */
    uint64_t longest;
    uint64_t samples;             /* UINT64_MAX: unknown */
    uint64_t phases[STEP_PHASES]; /* ticks */
    double values[STEP_VALUES];   /* NaN: none */
    double metrics[STEP_METRICS]; /* NaN: unknown */
} StepRecord;

typedef struct StepValueRecord {
    uint64_t at, name_size; /* index into `values`; then the NUL-terminated name */
} StepValueRecord;

typedef struct StepSeries {
    StepRecord *blocks[STEP_ROWS / STEP_ROWS_A_BLOCK];
    uint64_t rows, each, count; /* `each`: steps per row; `count`: all steps */
} StepSeries;

/* Index of a value's name; -1 if there are too many names or no memory. */
int step_value_place(const char *name);
/* Whether `rows` more rows fit without a new block. */
int step_rows_fit(const StepSeries *series, uint64_t rows);
/* Add the row of one step, whose number is the series' count, to the last row or as a new one. The
 * row that holds it; NULL: no room. */
StepRecord *step_row_add(StepSeries *series, const Thread *thread, enum StepKind kind,
                         const StepRecord *one);

#endif
