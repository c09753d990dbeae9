/* User events: samples are summed by call path, in the part. */
#ifndef TAUPY_EVENTS_H
#define TAUPY_EVENTS_H

#include "calltree.h"

typedef struct SampleRecord {
    uint64_t event, thread;
    Node *node; /* NULL: the thread as a whole */
    uint64_t count;
    double minimum, maximum, sum, sum_squares;
} SampleRecord;

/* The record that sums an event's samples at a call path; NULL if there is no room. Needs the
 * GIL. */
SampleRecord *sample_record(const char *name, const char *unit, Thread *thread, Node *node);
/* Only on the record's own thread. */
void sample_add(SampleRecord *record, double value);
/* Add one record to another. */
void samples_sum(SampleRecord *into, const SampleRecord *from);
/* Add a thread's records to another thread's, and free them. `moved`: the other thread's node for one
 * of its own. Needs the GIL. */
void samples_move(Thread *from, Thread *to, Node *(*moved)(const Node *node));
/* Add one value of an event. Returns -1 if there is no room. Needs the GIL. */
int sample(const char *name, const char *unit, double value, Thread *thread, Node *node);

#endif
