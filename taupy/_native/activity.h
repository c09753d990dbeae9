/* What a thread of a process does, as the kernel says. No Python here.
 *
 * The kernel says of a thread that it is runnable, not whether it runs. Its times on processors and
 * of waiting for one are exact, but up to date only when the thread gets or leaves a processor, and
 * at ticks. So looks at a runnable thread are divided as these times are, over all looks so far. */
#ifndef TAUPY_ACTIVITY_H
#define TAUPY_ACTIVITY_H

#include <stdint.h>

enum Does { CPU, GIL, LOCK, WAIT, DISK, RUNNABLE, ACTIVE }; /* `STATES` of state/lines.py */

/* A thread's times on processors, and of waiting for one [ns]. */
typedef struct ProcessorTimes {
    int64_t ran, waited;
    int are_known;
} ProcessorTimes;

/* The looks at one thread that was runnable. */
typedef struct Processor {
    ProcessorTimes first;       /* at the first look */
    int64_t counted_ns;         /* time on processors at the last look */
    int64_t runnable_ns, ran_ns; /* what the looks stand for in all, and those that found it running */
} Processor;

void processor_begin(Processor *processor, ProcessorTimes first);

/* Whether a look at the runnable thread found it running; -1: it is not known.
 *
 * now: its times. took: the time since the previous look [ns]. */
int processor_runs(Processor *processor, ProcessorTimes now, int64_t took);

enum { TASK_FILES = 3 };

/* A thread whose looks are divided. */
typedef struct Activity {
    int64_t pid, tid;
    int tasks;
    int files[TASK_FILES]; /* kept open; -1: not yet */
    int keeps, has_begun;  /* whether they are; whether that is decided */
    Processor processor;
} Activity;

/* tasks: the folder of the process's threads in /proc; -1: it is found by its name. */
void activity_begin(Activity *activity, int64_t pid, int64_t tid, int tasks);

/* Looks stand for the time from now on. From the first time on, its files in /proc are kept open,
 * if not too many are. */
void activity_from_now(Activity *activity);

/* The same, from the thread's beginning on: it was not there at the look before. */
void activity_from_beginning(Activity *activity);

/* What it does; -1: there is no such thread any more.
 *
 * gil, gil_size: where the interpreter's lock lies. took: the time since the previous look [ns].
 * Of a process that may not be dumped, the file `syscall` is root's: then waits for the GIL and
 * for locks are WAIT. */
int activity_now(Activity *activity, uint64_t gil, uint64_t gil_size, int64_t took);

/* Close its files. */
void activity_end(Activity *activity);

/* Its descriptors are gone: whoever looks has a new table of them, with this folder. */
void activity_forget(Activity *activity, int tasks);

#endif
