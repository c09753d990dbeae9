/* Which layer was at work when a node of autograd's graph was made.
 *
 * Nodes get numbers in the order in which a thread makes them. Where layers begin and end, the
 * number that comes next is noted with the layer that is at work from there on; the last note up
 * to a node's number tells its owner. A thread keeps the last of its notes, a ring. */
#ifndef TAUPY_OWNERS_H
#define TAUPY_OWNERS_H

#include <stdint.h>

#define OWNERS_AT_MOST (1ull << 17) /* notes of a thread */

/* From this node on, `owner` is at work on this thread, which nodes know as `thread`. */
void owner_note(uint64_t thread, uint64_t sequence, void *owner);
/* The owner of a node. NULL: none; `is_forgotten` is set if the thread's notes do not go back
 * so far. For any thread. */
void *owner_of(uint64_t thread, uint64_t sequence, int *is_forgotten);
/* The calling thread ends. Its notes stay for a while. */
void owners_end(void);
/* In a fork's child: who held a lock is not here. */
void owners_forked(void);

#endif
