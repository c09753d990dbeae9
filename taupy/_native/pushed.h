/* NVTX's pushed and popped ranges: phases of the call path. */
#ifndef TAUPY_PUSHED_H
#define TAUPY_PUSHED_H

/* NVTX's ranges. 0: the phase is open. Anything else: this thread has no business here. */
int range_push(const char *name);
void range_pop(void);

#endif
