/* Routines of frameworks that are known by file and name, and what they are to a training.
 *
 * The tables are those of taupy/network. Such a routine has a flag, so that it never takes the
 * quick way through `enter` and `leave`; it is recorded like any other, by a second routine
 * (`shown`, see phases.h). What its calls mean is told to steps.h. Of the program's objects only
 * the variables that the tables name are read, and no code of the program runs for it. */
#ifndef TAUPY_KNOWN_H
#define TAUPY_KNOWN_H

#include "steps.h"

/* "ROLE KIND FIRST SECOND FILE:NAME" each, all but the last numbers; NULL: none. From here on
 * they are ours. */
void known_start(char **texts);
/* Have the engine tell of them. */
void known_watch_start(void);
/* Is it at FILE:NAME: in a file of that path, or one that ends with it? FOLDER/ and a star is any
 * file below; a name may begin with a star. */
int routine_is_at(const Routine *routine, const char *code);
/* It is called, or returns (`returned`), or an exception leaves it. The variables may be NULL. */
void known_called(Thread *thread, Routine *routine, PyObject *first, PyObject *second);
void known_left(Thread *thread, Routine *routine, int returned);

#endif
