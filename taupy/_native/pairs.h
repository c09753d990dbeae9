/* Point-to-point operations (send, recv) as the program issues them: with whom, and under which tag.
 *
 * A backend reports that it sends or receives, but not to or from which rank; that is read from the
 * variables of PyTorch's isend and irecv, through which send, recv and batch_isend_irecv pass. */
#ifndef TAUPY_PAIRS_H
#define TAUPY_PAIRS_H

#include "routine.h"
#include "thread.h"

/* A known routine with the role KNOWN_PAIR is called; `frame`: its id, or NULL if it is the running
 * one. Needs the GIL. */
void pairs_called(Thread *thread, const Routine *routine, const void *frame);

#endif
