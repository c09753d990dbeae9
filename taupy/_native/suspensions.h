/* Where coroutines wait: how often, and for how long, each of their `await`s has suspended one.
 *
 * The interpreter tells the instruction at which a coroutine is suspended and resumed. For each such
 * place on a call path the moments are added up: those of resumptions less those of suspensions are
 * the time for which coroutines were suspended there, whichever they were. What is still suspended
 * at the end counts until then; the reader adds that (`record/suspensions.py`). The times of
 * coroutines that wait at the same time add up to more than has elapsed.
 *
 * When one awaits another, both are suspended at once, the inner one first: `outer` leads from the
 * place of the inner one to that of the other. */
#ifndef TAUPY_SUSPENSIONS_H
#define TAUPY_SUSPENSIONS_H

#include "routine.h"

/* In the part, of a thread. */
typedef struct SuspensionRecord {
    const Node *node; /* of the coroutine; written last */
    const struct SuspensionRecord *outer; /* NULL: nothing awaits it but the loop */
    int32_t line, end_line, column, end_column; /* of the await; columns in bytes, -1: unknown */
    uint64_t begun, ended; /* suspensions */
    uint64_t ticks;        /* moments of their ends less those of their beginnings, modulo 2^64 */
    int64_t instruction;   /* private to the process */
} SuspensionRecord;

/* Whether code is suspended by more than its own `yield`. */
static inline int suspends(const void *code)
{
    return ((const PyCodeObject *)code)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR);
}

/* A call of such code, on this call path, is suspended at this instruction (in bytes of code). */
void suspension_begins(Thread *thread, const Node *node, PyCodeObject *code,
                       int64_t instruction, uint64_t now);
/* It was resumed when the call path was entered last. */
void suspension_ends(Thread *thread, const Node *node, PyCodeObject *code,
                     int64_t instruction);

#endif
