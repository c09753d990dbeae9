/* Which routines are recorded: --include, --exclude, and none of our own. */
#ifndef TAUPY_SELECTION_H
#define TAUPY_SELECTION_H

#include "routine.h"

extern char **include_patterns, **exclude_patterns; /* NULL-terminated, or NULL */
extern char **our_files; /* beginnings of paths whose routines are never recorded */

/* ROUTINE_OURS and ROUTINE_EXCLUDED of a routine whose name and file are known. */
extern RoutineWatch selection_watch;

#endif
