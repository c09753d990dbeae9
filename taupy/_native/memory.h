/* Resident memory of the process, sampled as user events. */
#ifndef TAUPY_MEMORY_H
#define TAUPY_MEMORY_H

#include "listeners.h"

extern uint64_t sample_ticks; /* it is sampled at most this often; 0: never */
extern Listener memory_listener;

void memory_start(void);

#endif
