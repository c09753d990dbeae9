/* The end of code objects: a routine retires when its code object is freed. */
#ifndef TAUPY_CODES_H
#define TAUPY_CODES_H

#include "routine.h"

void codes_watch(void);

/* See to it that we hear of the code object's end. Not 0: we shall not. */
int code_note(PyObject *code, Routine *routine);

#endif
