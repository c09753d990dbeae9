/* NVTX start/end ranges and marks: user events at the call path of the start.
 *
 * A range may end on a different thread than it began on, and may overlap others, so it cannot be a
 * phase of a call path: its duration is a value. These functions may be called on any thread, with
 * or without the GIL. Sums for which a thread without the GIL would need more room in the part are
 * kept in memory until a thread with the GIL writes them, or the process ends. */
#ifndef TAUPY_RANGES_H
#define TAUPY_RANGES_H

#include "listeners.h"

extern Listener ranges_listener;

/* Called by nvtx.c. 0: not measured. */
uint64_t range_start(const char *name);
void range_end(uint64_t id);
/* `payload`: the number attached to the mark; NULL if there is none. */
void range_mark(const char *name, const double *payload);

#endif
