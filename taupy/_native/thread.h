/* Threads of the program as they begin and end. */
#ifndef TAUPY_THREAD_H
#define TAUPY_THREAD_H

#include "calltree.h"
#include <Python.h>

/* May recording begin on this thread? The interpreter's own start-up is not the program:
 * it begins with the first frame of __main__, or of runpy, which -m goes through. */
Thread *thread_begin(PyObject *globals);
/* Begin to record on this thread. NULL if that cannot be. Needs the GIL, or a process
 * in which nobody else runs (a fork's child, the end). */
Thread *thread_new(void);
/* This thread, recorded from now on if it is not yet; NULL: nothing is recorded. */
Thread *thread_here(void);
/* The same for a return: only in a fork's child that has not recorded yet can there be something
 * open. */
Thread *thread_after_fork(void);
/* The name of a Python thread, looked up without running any of the program's code. */
void thread_name(Thread *thread);
/* From now on the ends of threads are noticed. */
void threads_watch(void);
/* Threads that end hereafter are none of ours. */
void threads_release(void);

#endif
