/* Framework routines recognised by file and name, and their role in training. The tables are in
 * taupy/network.
 *
 * Such a routine carries a flag, so it never takes the fast path through `enter` and `leave`; it is
 * recorded like any other, through a second routine (`shown`, see phases.h). Its calls are passed
 * to steps.h with their role. Of the program's objects, only the variables named in the tables are
 * read, and none of the program's code runs. */
#ifndef TAUPY_KNOWN_H
#define TAUPY_KNOWN_H

#include "steps.h"

/* "ROLE KIND FIRST SECOND FILE:NAME" each, numbers except for the last; NULL: none. Takes
 * ownership. */
void known_start(char **texts);
/* Have the engine report them. */
void known_watch_start(void);
/* Whether the routine is at FILE:NAME, that is, in a file whose path is FILE or ends with it.
 * FOLDER/ and a star matches any file below it; NAME may begin with a star. */
int routine_is_at(const Routine *routine, const char *code);
/* The routine is called, returns (`returned`: borrowed), yields, or raises (NULL). The variables may be NULL. */
void known_called(Thread *thread, Routine *routine, PyObject *first, PyObject *second);
void known_left(Thread *thread, Routine *routine, PyObject *returned);

#endif
