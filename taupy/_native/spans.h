/* Spans: when layers and phases began and ended, each time (`taupy run --trace=host`).
 *
 * A span is what is added to the inclusive time of a node when its clock stops (timing.h), so the
 * spans of a call path sum up to its time. They are written into blocks of the thread's own. A
 * process keeps `spans_limit` of them, and those of nodes that were open then. */
#ifndef TAUPY_SPANS_H
#define TAUPY_SPANS_H

#include "calltree.h"

typedef struct SpanRecord {
    const Node *node; /* written last; NULL: there is none */
    uint64_t start, end; /* ticks */
} SpanRecord;

extern uint64_t spans_limit; /* 0: none are kept */

/* The clock of a node with NODE_STAMPED stops now. */
void span_add(Thread *thread, const Node *node, uint64_t now);
/* Is there room for the spans of nodes that end without the GIL? */
int spans_ready(const Thread *thread);
/* Have such room from now on. Under the GIL. */
void spans_reserve(Thread *thread);

#endif
