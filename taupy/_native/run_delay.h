/* How long threads have waited for a processor (run delay), as the kernel counts it.
 *
 * That of a process's first thread is a user event at its end. What is beyond it and the CPU time,
 * the thread waited for something else, also where nothing has looked at it. */
#ifndef TAUPY_RUN_DELAY_H
#define TAUPY_RUN_DELAY_H

#include "listeners.h"

#define RUN_DELAY_UNKNOWN UINT64_MAX

/* [ns], from an open /proc/.../schedstat of a thread. */
uint64_t run_delay(int descriptor);
extern Listener run_delay_listener;

#endif
