/* Whether a routine's calls take longer the more of them there have been, and whether they are made
 * with the same arguments again.
 *
 * When a sampling window ends (memory.h), but rarely, the thread's open call paths of the program are
 * looked at. If one has twice as many finished calls as when it was noted last, their number and
 * their time are noted: what has passed between two notes is the time of the calls between them.
 * Entry and return of a call do nothing for it. The arguments of open calls are looked at with them
 * (arguments.h); and from time to time many events in a row are looked at, since arguments may come
 * again in a row. The reader (`record/growth.py`) takes what has
 * passed since the last note from the call path itself. */
#ifndef TAUPY_GROWTH_H
#define TAUPY_GROWTH_H

#include "arguments.h"
#include "memory.h"

#define GROWTH_NOTES 31

typedef struct GrowthNote {
    uint64_t calls, ticks; /* of the call path: finished calls and their inclusive time */
} GrowthNote;

/* In the part, of a thread: one call path. */
typedef struct GrowthRecord {
    const Node *node;
    uint64_t count;   /* of notes */
    GrowthNote notes[GROWTH_NOTES];
    ArgumentCounts arguments;
} GrowthRecord;

/* The next observer of window ends. */
void growth_start(void);
/* The thread's call paths are about to become others'. */
void growth_forget(const Thread *thread);

#endif
