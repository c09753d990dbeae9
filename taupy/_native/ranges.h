/* NVTX's started and ended ranges, and its marks: user events at the call path of the start.
 *
 * A range may end on another thread than it began on, and others may overlap it, so that it
 * is no phase of a call path: its duration is a value. These functions are called by any
 * thread, with or without the GIL. What a thread without it finds no room for in the part
 * waits in memory for one that has it, or for the process's end. */
#ifndef TAUPY_RANGES_H
#define TAUPY_RANGES_H

#include "listeners.h"

extern Listener ranges_listener;

/* What nvtx.c calls. 0: it is not measured. */
uint64_t range_start(const char *name);
void range_end(uint64_t id);
/* `payload`: a number that came with it; NULL if none did. */
void range_mark(const char *name, const double *payload);

#endif
