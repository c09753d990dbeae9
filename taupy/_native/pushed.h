/* NVTX push/pop ranges as phases of the call path. */
#ifndef TAUPY_PUSHED_H
#define TAUPY_PUSHED_H

/* 0: the phase is open. Otherwise, this thread cannot have ranges here. */
int range_push(const char *name);
void range_pop(void);

#endif
