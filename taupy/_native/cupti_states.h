/* CUPTI's own error reports: errors that no function returns. */
#ifndef TAUPY_CUPTI_STATES_H
#define TAUPY_CUPTI_STATES_H

#include "cupti_records.h"

/* Called on any thread, possibly under one of CUPTI's locks. */
void states_on_callback(uint32_t id, const StateData *state);

/* Write them into the part. To be called by the thread that owns the part. */
void states_note(void);

/* Whether CUPTI has given up. */
int states_are_fatal(void);

#endif
