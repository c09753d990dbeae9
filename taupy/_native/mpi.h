/* Collectives of MPI that the program calls through mpi4py.
 *
 * mpi4py's types cannot be changed, but each method has a PyMethodDef, whose function we replace as
 * those of wrap.c. A call is recorded as a timer, and as a collective of its communicator. Nothing of
 * ours sends, runs Python code or releases the GIL. Other calls that may wait, and collectives of
 * groups of two sides (intercommunicators), are timers only; non-blocking ones are not recorded. */
#ifndef TAUPY_MPI_H
#define TAUPY_MPI_H

#include <Python.h>

extern int mpi_wanted;

/* Modules have been imported: mpi4py may be one of them. Needs the GIL. */
void mpi_look(void);

#endif
