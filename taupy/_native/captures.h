/* Streams that are being captured into CUDA graphs: what is launched meanwhile is recorded in the
 * graph, not run.
 *
 * Learnt from the callbacks of the calls that begin and end captures, since CUPTI forbids asking the
 * driver within a callback. A capture spreads to other streams through events, so whether a single
 * launch is captured is not known while any capture is under way. */
#ifndef TAUPY_CAPTURES_H
#define TAUPY_CAPTURES_H

/* Whether this API function, by its name, begins or ends captures. */
int captures_by(const char *function);

/* The end of such a call, with its parameters and the driver's or runtime's result. */
void captures_hear(const char *function, const void *parameters, int result);

int captures_under_way(void);

#endif
