/* Named timers and phases: from the in-code API, NVTX, and record_function. */
#ifndef TAUPY_TIMERS_H
#define TAUPY_TIMERS_H

#include "routine.h"

#define RECORD_FUNCTION_GROUP "PHASE|RECORD_FUNCTION"
#define NVTX_GROUP "PHASE|NVTX"
#define IMPORT_GROUP "IMPORT"
#define LAYER_GROUP "LAYER"
#define ESTIMATOR_GROUP "LAYER|ESTIMATOR"
#define BACKWARD_GROUP "LAYER|PHASE_BACKWARD" /* of a layer */
#define EVALUATION_GROUP "PHASE_VALIDATION"
#define AUTOGRAD_GROUP "AUTOGRAD"
#define STEP_GROUP "STEP"
#define COLLECTIVE_GROUP "PHASE_COMMUNICATION" /* a call of a collective */
#define WAITING_GROUP "PHASE_COMMUNICATION|COMMUNICATION" /* one of which it is unknown who waited */
#define JIT_GROUP "JIT"
#define OPERATOR_GROUP "OPERATOR"
#define NODE_OPERATOR_GROUP "AUTOGRAD|OPERATOR" /* AUTOGRAD_GROUP, where operators are recorded */
#define EXIT_GROUP "EXIT"
#define OVERHEAD_GROUP "TAUPY|OVERHEAD" /* work of our own */

/* The key to enter and leave it by; NULL, with an exception set, if memory runs out. */
void *timer_key(const char *name, const char *group);

/* Like `timer_key`, for names the program generates: from the 4096th in the process on, all share
 * the name `others`. `names` counts those of the caller. */
void *timer_key_among(unsigned *names, const char *name, const char *others, const char *group);

/* Timers of one group that are found by their names without the GIL. They are never forgotten. */
typedef struct NamedTimers {
    const char *group, *others; /* as for timer_key_among */
    const char *prefix;         /* is not shown; or NULL */
    Table entries;
    unsigned names;
} NamedTimers;

/* The key of this name, if there is one; needs tree_lock. `inputs`: hash of the sizes and types of
 * its inputs; 0 without these. */
void *timer_known(const NamedTimers *timers, const char *name, uint64_t inputs);
/* The same, with a new timer if necessary; NULL, with an exception set, if memory runs out. Needs
 * the GIL; takes tree_lock. `text`: of its inputs; NULL without these. */
void *timer_named(NamedTimers *timers, const char *name, uint64_t inputs, const char *text);

int group_disabled(const char *group);
/* Returns -1, with an exception set, if memory runs out. */
int group_enable(const char *group, int enabled);

#endif
