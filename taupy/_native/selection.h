/* Which routines are recorded: --include, --exclude, and never our own. */
#ifndef TAUPY_SELECTION_H
#define TAUPY_SELECTION_H

#include "routine.h"

extern char **include_patterns, **exclude_patterns; /* NULL-terminated, or NULL */
extern char **our_files; /* path prefixes whose routines are never recorded */

/* Sets ROUTINE_OURS and ROUTINE_EXCLUDED for a routine by its name and file. */
extern RoutineWatch selection_watch;

#endif
