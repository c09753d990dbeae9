/* The collector's one thread: it sums up what is in buffers, asks for more once a second,
 * copies the part for snapshots, and delivers everything at the end. */
#ifndef TAUPY_CUPTI_WORKER_H
#define TAUPY_CUPTI_WORKER_H

/* Before anything else. */
void worker_prepare(void);

/* With the first context, not before: a program that only asks whether there is a GPU, and
 * then forks, gets no thread from us. */
void worker_begin(void);

/* Asked for by a thread of the program, which holds no GIL: see gpu_host.h. */
int worker_snapshot(const char *path);
void worker_end(int last);

/* What is counted elsewhere goes into the part; by the worker, or in a replay. */
void worker_housekeeping(void);

#endif
