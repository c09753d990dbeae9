/* The program's threads as they begin and end. */
#ifndef TAUPY_THREAD_H
#define TAUPY_THREAD_H

#include "process.h"
#include "routine.h"
#include <Python.h>

/* This thread, which is about to enter `key` if that is not NULL; NULL: it is not recorded (yet). */
static inline Thread *thread_entering(const void *key)
{
    if (this_thread != NULL && unlikely(!part_is_ours()))
        process_is_new(key);
    return this_thread;
}

static inline Thread *thread_mine(void) { return thread_entering(NULL); }

/* Start recording on this thread, if allowed yet. The interpreter's own start-up is not part of the
 * program: recording begins with the first frame of __main__, or of runpy, which implements -m. */
Thread *thread_begin(PyObject *globals);
/* Start recording on this thread. NULL on failure. Needs the GIL, or a process in which nothing
 * else runs (a forked child, the end). */
Thread *thread_new(void);
/* This thread, newly recorded if necessary; NULL: nothing is recorded. */
Thread *thread_here(void);
/* The same for a return: something can be open only in a forked child that has not recorded
 * anything yet. */
Thread *thread_after_fork(void);
/* Look up the name of a Python thread without running any of the program's code. The program may
 * change it at any time: the last name counts, and the part's metadata have the first. */
void thread_name(Thread *thread);
/* The routine, which has `names_threads`, is called. */
void thread_names(Thread *thread, const Routine *routine);
extern RoutineWatch thread_names_watch;
/* End those that Python has ended and the system has not, as of `ticks`, and add all that have ended
 * to their rows. Python itself has ended. (Up to 3.12, whoever joins a thread goes on before the
 * system has ended it.) */
void threads_end(uint64_t ticks);
/* Start watching for the end of threads. */
void threads_watch(void);
/* Ignore threads that end from now on. */
void threads_release(void);
/* The same, of all threads that go on: when recording begins again, each of them is a new one. */
void threads_leave(void);

#endif
