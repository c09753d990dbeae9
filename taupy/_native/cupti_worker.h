/* The collector's only thread: it sums the records in the buffers, requests more once a second,
 * copies the part for snapshots, and delivers everything at the end. */
#ifndef TAUPY_CUPTI_WORKER_H
#define TAUPY_CUPTI_WORKER_H

/* Call first. */
void worker_prepare(void);

/* Called at the first context, not earlier: a program that only checks whether there is a GPU, and
 * then forks, gets no thread from us. */
void worker_begin(void);

/* Called on a program thread that does not hold the GIL; see gpu_host.h. */
int worker_snapshot(const char *path);
void worker_end(int last);

/* Called within CUPTI's callback for a context that is about to be destroyed: CUPTI forgets the
 * records that it has not delivered by then. */
void worker_context_ends(void);

/* Copy counts kept elsewhere into the part. Called by the worker, or in a replay. */
void worker_housekeeping(void);

#endif
