/* Routines of frameworks that are known by file and name, and what they are to a training.
 *
 * The tables are those of taupy/network. Such a routine has a flag, so that it never takes the
 * quick way through `enter` and `leave`; it is recorded like any other, by a second routine
 * (`shown`, see phases.h). What its calls mean is told to steps.h. Of the program's objects only
 * the variables that the tables name are read, and no code of the program runs for it. */
#ifndef TAUPY_KNOWN_H
#define TAUPY_KNOWN_H

#include "routine.h"

enum KnownRole {
    KNOWN_PHASE = 0,    /* of some kind */
    KNOWN_FETCH = 1,    /* of a batch; the variable `first` is what gives them */
    KNOWN_BACKWARD = 2, /* a backward pass */
    KNOWN_UPDATE = 3,   /* an optimizer's step; `first` is the optimizer, or a tuple with it */
    KNOWN_BEGIN = 4,    /* a step of training (kind 0) or validation (1) begins after the call */
    KNOWN_END = 5,      /* and ends with it; `first` may be a mapping of values, or -1 */
    KNOWN_VALUE = 6,    /* told to a logger: a name (`first`) and its value (`second`) */
    KNOWN_VALUES = 7,   /* a mapping of them (`first`), and maybe another one (`second`), or -1 */
    KNOWN_SAMPLES = 8,  /* a list with an item for each sample of a batch (`first`) */
    KNOWN_WORKER = 9,   /* the main loop of a DataLoader's worker; `first` is its number */
    KNOWN_GROUPS = 10,  /* makes groups of processes, see collectives.h */
};

typedef struct KnownRoutine {
    const char *code; /* FILE:NAME */
    int role, kind, first, second;
} KnownRoutine;

/* "ROLE KIND FIRST SECOND FILE:NAME" each, all but the last numbers; NULL: none. From here on
 * they are ours. */
void known_start(char **texts);
/* Have the engine tell of them. */
void known_watch_start(void);
/* Is it at FILE:NAME: in a file of that path, or one that ends with it? FOLDER/ and a star is any
 * file below; a name may begin with a star. */
int routine_is_at(const Routine *routine, const char *code);
/* ROUTINE_KNOWN if the routine is one of them; then `routine->known` says which. */
uint32_t known_flags(Routine *routine);
/* It is called, or returns (`returned`), or an exception leaves it. The variables may be NULL. */
void known_called(Thread *thread, Routine *routine, PyObject *first, PyObject *second);
void known_left(Thread *thread, Routine *routine, int returned);

#endif
