/* The end of code objects: a routine retires when its code object is freed. */
#ifndef TAUPY_CODES_H
#define TAUPY_CODES_H

#include "routine.h"

void codes_watch(void);

/* Sees to it that we hear of code objects' ends. */
extern RoutineWatch codes_watcher;

#endif
