/* End of life of code objects: a routine retires when its code object is freed. */
#ifndef TAUPY_CODES_H
#define TAUPY_CODES_H

#include "routine.h"

void codes_watch(void);

/* Registers for notification when code objects are freed. */
extern RoutineWatch codes_watcher;

#endif
