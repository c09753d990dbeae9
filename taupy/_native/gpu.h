/* The engine's side of GPU measurement: the call path of a launch, and when to start and stop.
 *
 * The collector is a separate library (cupti.c). The driver loads it at the program's first cuInit,
 * because CUDA_INJECTION64_PATH names it. If that variable names another tool's library, or the
 * driver ignores it, we check for an active driver whenever a new call path appears. */
#ifndef TAUPY_GPU_H
#define TAUPY_GPU_H

#include "gpu_host.h"
#include "listeners.h"

extern GpuHost taupy_gpu_host;
extern Listener gpu_listener;
extern char *gpu_collector; /* path of the library; NULL: do not measure GPU work */

/* Called by the launching thread, with or without the GIL; takes no lock, and writes nothing that
 * other threads read except a hint. Other threads' cursors may move meanwhile: any value they have
 * had is a node, and nodes never move. */
GpuPlace gpu_place(void);
/* Have the driver load the collector at the program's first cuInit. */
void gpu_arm(void);
/* Hide our variables from children that inherit the environment: the path may be invalid where they
 * run. Variables that the program has changed are left alone. Returns what was hidden, for
 * `gpu_show`. */
int gpu_hide(void);
void gpu_show(int hidden);
/* A copy of the environment without our variables, for a child that would inherit it; NULL: use it
 * as it is. */
PyObject *gpu_environment(void);
/* Deliver the records of all GPU work. Waits for the GPUs, so call without the GIL. */
void gpu_end(int last);
/* Releases the GIL: the GPU may be waiting for Python code it calls. */
void gpu_end_released(int last);
/* At the end of a process in which GPU measurement did not start, note why. */
void gpu_note(void);
/* Write the completed GPU work to a separate file. Returns NULL, or why the file is missing.
 * Call without the GIL. */
const char *gpu_snapshot(const char *path);
/* The program's own torch.profiler is about to start, or has ended. */
void gpu_lend(int begins);

#endif
