/* Timers and phases that have a name: of the in-code API, of NVTX, of record_function. */
#ifndef TAUPY_TIMERS_H
#define TAUPY_TIMERS_H

#include "routine.h"

#define RECORD_FUNCTION_GROUP "PHASE|RECORD_FUNCTION"
#define NVTX_GROUP "PHASE|NVTX"
#define IMPORT_GROUP "IMPORT"
#define LAYER_GROUP "LAYER"
#define ESTIMATOR_GROUP "LAYER|ESTIMATOR"
#define BACKWARD_GROUP "LAYER|PHASE_BACKWARD" /* of a layer */
#define AUTOGRAD_GROUP "AUTOGRAD"
#define STEP_GROUP "STEP"
#define JIT_GROUP "JIT"

/* The key by which it is entered and left; NULL, and a Python error, if there is no memory. */
void *timer_key(const char *name, const char *group);

/* As `timer_key`, for names that the program computes: from the 4096th of the process on they
 * are one, `others`. `names` counts those of the caller. */
void *timer_key_among(unsigned *names, const char *name, const char *others, const char *group);

int group_disabled(const char *group);
/* -1, and a Python error, if there is no memory. */
int group_enable(const char *group, int enabled);

#endif
