/* The end of the process, and the storer. */
#ifndef TAUPY_EXIT_H
#define TAUPY_EXIT_H

#include <stdint.h>
#include <sys/types.h>

extern pid_t root_pid; /* the process that stores the run when it ends; 0: nobody */
extern char **storer_argv, **storer_env;

/* The storer speaks to what is stderr now, if anybody. */
void stderr_keep(int quiet);
/* Have the part closed and the run stored at the process's end. */
void exit_watch(void);
/* Close the part, whose state is `state` then. It may be closed again, with a status. */
void finish(int has_status, int64_t status, uint64_t state);
/* A child's part joins those of the other children: a run may have thousands. */
void fold(void);
/* Run the storer, a fresh interpreter, and wait for it. Python may be gone already. */
void store(void);

#endif
