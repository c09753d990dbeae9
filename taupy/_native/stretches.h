/* Stretches: where a thread's own time went between two collectives.
 *
 * At each collective we visit the nodes that ran since the previous one (entered since then, or
 * open at the time) and compare their times with the previous values. The STRETCH_PLACES nodes with
 * the most exclusive time go into a fixed-size row; the rest of the time was spent in other nodes.
 *
 * A stretch shorter than STRETCH_COST times the cost of such a look is merged with the next one,
 * which keeps the overhead below one percent. Beyond STRETCHES_AT_MOST rows, stretches are thinned
 * by whole training steps: of every two groups of STRETCH_STEPS steps, then of every four, eight
 * ..., only the first is kept. */
#ifndef TAUPY_STRETCHES_H
#define TAUPY_STRETCHES_H

#include "calltree.h"

#define STRETCH_PLACES 10
#define STRETCHES_A_STEP 12 /* per training step: 192 bytes each */
#define STRETCHES_AT_MOST 8192
#define STRETCH_STEPS 16
#define STRETCH_COST 100

typedef struct StretchRecord {
    uint64_t is_used, thread; /* index of the thread */
    uint64_t start, end;      /* ticks */
    struct {
        Node *node; /* NULL: end of the list */
        uint64_t ticks;
    } own[STRETCH_PLACES]; /* longest first */
} StretchRecord;

/* Reserve room for upcoming rows. Needs the GIL. */
void stretches_make_room(void);
/* The calling thread has issued collectives; `asked` is the process-wide count so far. Must not run
 * on two threads at once; does not need the GIL. */
void stretches_asked(Thread *thread, uint64_t asked);
/* Number of stretches dropped: those of whole steps, or the most recent ones if there are no
 * steps. */
uint64_t stretches_left_out(void);
/* A new part has begun. */
void stretches_forget(void);

#endif
