/* Stretches: what a thread's own time went to between two collectives.
 *
 * At a collective the nodes that ran since the one before are looked through: a node has run if
 * it was entered since, or was open then. What each has gained is compared with what it had. The
 * STRETCH_PLACES nodes with the most time of their own are written down, in a row of a fixed size;
 * the rest of the stretch went to others. A stretch shorter than STRETCH_COST looks is joined with
 * the next one, so that looking costs less than a hundredth of the time.
 *
 * Beyond STRETCHES_AT_MOST, those of whole steps of the training go: of each two stretches of
 * STRETCH_STEPS steps, then of four, eight ..., the first is kept. */
#ifndef TAUPY_STRETCHES_H
#define TAUPY_STRETCHES_H

#include "calltree.h"

#define STRETCH_PLACES 10
#define STRETCHES_A_STEP 12 /* of a training: 192 bytes each */
#define STRETCHES_AT_MOST 8192
#define STRETCH_STEPS 16
#define STRETCH_COST 100

typedef struct StretchRecord {
    uint64_t is_used, thread; /* its index */
    uint64_t start, end;      /* ticks */
    struct {
        Node *node; /* NULL: no more of them */
        uint64_t ticks;
    } own[STRETCH_PLACES]; /* the longest first */
} StretchRecord;

/* Room for rows to come. Under the GIL. */
void stretches_make_room(void);
/* The thread, on which this is called, has asked for collectives: so many of them were asked for in
 * the process. No two threads at once; the GIL is not needed. */
void stretches_asked(Thread *thread, uint64_t asked);
/* How many were not kept, of whole steps or, without steps, the last ones. */
uint64_t stretches_left_out(void);
/* Another part has begun. */
void stretches_forget(void);

#endif
