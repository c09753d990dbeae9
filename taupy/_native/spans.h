/* Spans: the start and end of every layer and phase call (`taupy run --trace=host`).
 *
 * A span is exactly what a node's inclusive time grows by when its clock stops (timing.h), so the
 * spans of a call path sum to its time. Each thread writes spans into blocks of its own. A process
 * keeps `spans_limit` of them, plus those of the nodes open when the limit was reached. */
#ifndef TAUPY_SPANS_H
#define TAUPY_SPANS_H

#include "calltree.h"

typedef struct SpanRecord {
    const Node *node; /* written last; NULL: unused */
    uint64_t start, end; /* ticks */
} SpanRecord;

extern uint64_t spans_limit; /* 0: spans are off */

/* Record a span for a NODE_STAMPED node whose clock stops now. */
void span_add(Thread *thread, const Node *node, uint64_t now);
/* Whether nodes that end without the GIL still have room for their spans. */
int spans_ready(const Thread *thread);
/* Make sure of such room. Needs the GIL. */
void spans_reserve(Thread *thread);

#endif
