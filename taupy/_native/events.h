/* User events: samples are summed at a call path, in the part. */
#ifndef TAUPY_EVENTS_H
#define TAUPY_EVENTS_H

#include "calltree.h"

typedef struct SampleRecord {
    uint64_t event, thread;
    Node *node; /* NULL: of the thread as a whole */
    uint64_t count;
    double minimum, maximum, sum, sum_squares;
} SampleRecord;

/* Where samples of an event at a place are summed; NULL if there is no room. Under the GIL. */
SampleRecord *sample_record(const char *name, const char *unit, Thread *thread, Node *node);
/* By the record's own thread only. */
void sample_add(SampleRecord *record, double value);
/* One value of an event. -1: there is no room for it. Under the GIL. */
int sample(const char *name, const char *unit, double value, Thread *thread, Node *node);

#endif
