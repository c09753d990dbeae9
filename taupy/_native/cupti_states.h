/* What CUPTI tells of itself: errors that no function returns. */
#ifndef TAUPY_CUPTI_STATES_H
#define TAUPY_CUPTI_STATES_H

#include "cupti_records.h"

/* From whatever thread, within whatever lock of CUPTI's. */
void states_on_callback(uint32_t id, const StateData *state);

/* They go into the part; by the thread that it belongs to. */
void states_note(void);

/* Has CUPTI given up? */
int states_are_fatal(void);

#endif
