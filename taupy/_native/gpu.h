/* The engine's side of GPU measurement: where a launch comes from, and when to begin and end.
 *
 * The collector is a library of its own (cupti.c). The driver loads it at the program's
 * first cuInit, since CUDA_INJECTION64_PATH names it; where another tool's stands there, or
 * a driver does not look at it, new call paths are the moments to notice a driver at work. */
#ifndef TAUPY_GPU_H
#define TAUPY_GPU_H

#include "gpu_host.h"
#include "listeners.h"

extern GpuHost taupy_gpu_host;
extern Listener gpu_listener;
extern char *gpu_collector; /* path of the library; NULL: GPU work is not measured */

/* Called by the launching thread, with or without the GIL; takes no lock, writes nothing
 * that another thread reads but a hint. Other threads' cursors may move meanwhile: any
 * value that they have had is a node, and nodes stay where they are. */
GpuPlace gpu_place(void);
/* The driver is to load the collector at the program's first cuInit. */
void gpu_arm(void);
/* Children that inherit the environment are not to find our variables there: the path may
 * mean nothing where they run. What the program has put in their place stays. Returns what
 * is hidden, for `gpu_show`. */
int gpu_hide(void);
void gpu_show(int hidden);
/* The environment without our variables, for a child that inherits it; NULL: as it is. */
PyObject *gpu_environment(void);
/* Deliver what GPUs have done. Waits for them: the caller holds no GIL. */
void gpu_end(int last);
/* Waiting for a GPU may mean waiting for Python code that it calls. */
void gpu_end_released(int last);
/* What GPU measurement has to say at the end of a process in which it did not begin. */
void gpu_note(void);
/* What is complete on the GPUs goes into a file of its own; NULL, or why it is not there. The
 * caller holds no GIL. */
const char *gpu_snapshot(const char *path);
/* The program's own torch.profiler is about to begin, or has ended. */
void gpu_lend(int begins);

#endif
