/* Rows of threads: threads that have ended, added up while the program runs.
 *
 * Of the threads that begin in the same routine, the first `threads_apart` to end stay as they are.
 * The one that ends next is the row to which all later ones are added: their call paths and user
 * events are merged into its, and their memory is free for threads to come. So a server that starts a
 * thread for each request needs memory for as many as run at a time.
 *
 * The routine that a thread begins in is the first one that is not the module threading's. Never added
 * are threads with a name of their own (not `Thread-N` or `Thread-N (f)`), workers of pools, loaders
 * and test runners, and those whose call paths have been noted elsewhere by address: threads with
 * steps, phases of record_function, greenlets, suspended coroutines, launches on a GPU or autograd's
 * nodes.
 *
 * Threads end without the GIL, so it is the next thread to begin that adds them. The values of a node
 * are moved at once, and a thread that is being added keeps its nodes until the end: if the process
 * is killed meanwhile, no time is lost. */
#ifndef TAUPY_THREAD_ROWS_H
#define TAUPY_THREAD_ROWS_H

#include "routine.h"

/* In the part, of a thread that is the row of several. Times are ticks. */
typedef struct ThreadRow {
    uint64_t count;        /* of threads, including the first; 0: not yet complete */
    uint64_t apart;        /* threads with the same beginning that ended before them */
    uint64_t first, last;  /* indices of threads; those added are among them */
    uint64_t least, most;  /* time of a thread */
    int64_t cpu_least, cpu_most; /* CPU time of a thread [ns]; its sum is in the thread */
    double cpu_squares;
    const Node *start; /* of the routine that they began in */
} ThreadRow;

extern uint64_t threads_apart; /* UINT64_MAX: all */

/* The thread has a new node. */
void thread_row_path(Thread *thread, const Routine *routine, Node *node);
/* The thread has ended. Under ended_lock; does not need the GIL. */
void thread_row_ended(Thread *thread);
/* Add all that have ended to their rows. Needs the GIL. */
void thread_rows_add(void);
/* A thread whose memory is free, which stays in the list of threads, or NULL. Needs the GIL. */
Thread *thread_rows_take(void);
/* How a routine of this name is on the way to where a thread begins. */
enum OfThreading threading_kind(const Routine *routine);

#endif
