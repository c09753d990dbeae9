/* Process exit, and the storer. */
#ifndef TAUPY_EXIT_H
#define TAUPY_EXIT_H

#include <stdint.h>
#include <sys/types.h>

extern pid_t root_pid; /* process that stores the run when it ends; 0: none */
extern char **storer_argv;
extern char **storer_env; /* the environment at the start */

/* The storer writes to the current stderr, if to anything. */
void stderr_keep(int quiet);
/* At process exit, close the part and store the run. */
void exit_watch(void);
/* The program ends, by this signal of its own if that is not 0: others do not end it any more. */
void exit_begins(int by_signal);
/* Close the part and set its state to `state`. It may be closed again, with a status. */
void finish(int has_status, int64_t status, uint64_t state);
/* Fold a child's part into the file shared by all children: a run may have thousands. */
void fold(void);
/* Run the storer, a fresh interpreter, and wait for it. Python may be finalised already. Returns 1 if a
 * program that ends by exit code 0 should end by EXIT_FAILURE: the run lacks what it was to record. */
int store(void);

#endif
