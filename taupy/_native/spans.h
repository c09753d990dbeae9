/* Spans: the start and end of every layer and phase call, and of the long calls of the program's
 * own routines (`taupy run --trace=host`).
 *
 * A span is exactly what a node's inclusive time grows by when its clock stops (timing.h), so the
 * spans of a layer's call path sum to its time. Each thread writes spans into blocks of its own. A
 * process keeps `spans_limit` of them, plus those of the nodes open when the limit was reached. */
#ifndef TAUPY_SPANS_H
#define TAUPY_SPANS_H

#include "calltree.h"

typedef struct SpanRecord {
    const Node *node; /* written last; NULL: unused */
    uint64_t start, end; /* ticks */
} SpanRecord;

#define LONG_CALL_MS 1.0 /* of an own routine: a thousand a second at most, at each depth */

extern uint64_t spans_limit; /* 0: spans are off */
extern uint64_t spans_long;  /* ticks: of own routines, only such calls have a span */

/* Record a span for a node of NODE_SPANS whose clock stops now, if it is to have one. */
void span_add(Thread *thread, const Node *node, uint64_t now);
/* Whether nodes that end without the GIL still have room for their spans. */
int spans_ready(const Thread *thread);
/* Make sure of such room. Needs the GIL. */
void spans_reserve(Thread *thread);

#endif
