/* What happens if the file of the part is truncated, or can no longer be read (a file removed on a
 * network file system), while it is mapped.
 *
 * The next access to a lost page raises SIGBUS. A handler then detaches the part from its file: all
 * chunks become memory of this process, with the same content; in the place of what is lost are nodes
 * without a key, below a thread of no use. The instruction is repeated, nothing is recorded from then
 * on, and what is left of the file is stored at the end. Any other SIGBUS ends the process as without
 * a handler. A program that handles SIGBUS itself is left alone; so is one that is confined. */
#ifndef TAUPY_GUARD_H
#define TAUPY_GUARD_H

#include "calltree.h"
#include <signal.h>

void guard_start(void);
/* A filter is about to be installed, under which the handler could not make a system call. */
void guard_end(void);
/* What libraries call for sigaction: some (Open MPI) install a handler only where there is none. */
int guard_sigaction(int number, const struct sigaction *action, struct sigaction *before);
/* In a forked child: the thread that was detaching the part does not exist here. */
void guard_forked(void);

/* Threads in the part, and rows like them, must be known: others hold pointers to them. */
void guard_thread(Thread *thread);

#endif
