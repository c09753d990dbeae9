/* How large the batches of a training are: samples, as a DataLoader makes them, and tokens, as the
 * outermost module receives them.
 *
 * Routines that fetch batches may be nested: a framework's, and the loader's within. What an inner
 * one fetches is part of what the outer one returns. Some fetch the next batch before they return
 * the current one; they are generators (`is_ahead`). */
#ifndef TAUPY_BATCHES_H
#define TAUPY_BATCHES_H

#include <Python.h>
#include <stdint.h>

#define COUNT_UNKNOWN UINT64_MAX
#define LOADERS_AHEAD 4 /* at the same time, on a thread */

typedef struct Batch {
    uint64_t samples; /* COUNT_UNKNOWN: none are known */
    int is_uncounted; /* there are others, so the number is incomplete */
} Batch;

/* What a generator that fetches ahead has fetched. */
typedef struct LoaderAhead {
    const void *source; /* the object that it belongs to */
    Batch last, before;
    int has_ended;
} LoaderAhead;

typedef struct LoadersAhead {
    LoaderAhead loaders[LOADERS_AHEAD];
    unsigned next; /* to be reused */
} LoadersAhead;

/* Sum of two counts, either of which may be unknown. */
uint64_t sum_known(uint64_t one, uint64_t other);
void batch_add(Batch *batch, const Batch *more);
/* The batch that a DataLoader with worker processes has just returned, by its configured batch size.
 * The size of the very last batch is unknown: it may be smaller. Of other objects: unknown. */
Batch batch_of_workers(PyObject *iterator);

LoaderAhead *loader_ahead(LoadersAhead *all, const void *source);
/* It has fetched a batch, or found that there are no more (NULL). */
void loader_ahead_fetched(LoaderAhead *loader, const Batch *batch);
/* The batch that it returns. */
Batch loader_ahead_returned(const LoaderAhead *loader);

typedef struct TokensFound {
    PyObject *tokens; /* borrowed; NULL: none */
    const char *name; /* of the parameter */
} TokensFound;

/* The parameter of a module's `forward` that takes the tokens of a text, among its arguments, either
 * of which may be NULL. */
TokensFound tokens_among(PyObject *module, PyObject *positional, PyObject *named);

#endif
