/* Which layer was active when a node of autograd's graph was created.
 *
 * PyTorch numbers graph nodes in the order in which a thread creates them. Where a layer begins or
 * ends, we note the next sequence number together with the layer active from then on; the last note
 * at or before a node's number identifies its owner. Each thread keeps its latest notes in a ring
 * buffer. */
#ifndef TAUPY_OWNERS_H
#define TAUPY_OWNERS_H

#include <stdint.h>

#define OWNERS_AT_MOST (1ull << 17) /* notes per thread */

/* From this graph node on, `owner` is active on this thread, whose id in PyTorch is `thread`. */
void owner_note(uint64_t thread, uint64_t sequence, void *owner);
/* The same for a moment in the past, unless there is a later note. Returns the owner before. */
void *owner_note_late(uint64_t thread, uint64_t sequence, void *owner);
/* The owner of a graph node; NULL: none. `is_forgotten` is set if the thread's notes do not go back
 * far enough. May be called on any thread. */
void *owner_of(uint64_t thread, uint64_t sequence, int *is_forgotten);
/* The calling thread ends. Its notes are kept for a while. */
void owners_end(void);
/* In a forked child: the holder of the lock does not exist here. */
void owners_forked(void);

#endif
