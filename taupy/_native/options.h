/* The options of start(), as C. */
#ifndef TAUPY_OPTIONS_H
#define TAUPY_OPTIONS_H

#include "clock.h"
#include <Python.h>

/* What is absent is NULL or 0, or what options.c says. Texts and lists (ended by NULL) are the
 * engine's own from here on; objects are borrowed. */
typedef struct Options {
    char *run_folder, *spill_prefix, *ancestors, *gpu_collector, *gpu_save, *gpu_modules, *blas,
        *autograd, *autograd_lock, *collectives, *operators;
    char **include, **exclude, **our_files, **storer_argv, **storer_env, **gpu_libraries;
    char **library_folders, **layers, **plumbing, **known;
    PyObject *counters;
    long long root_pid, c_calls, depth, max_callpaths, helper, quiet, wait_for_main, sample_ms;
    long long throttle, throttle_calls, throttle_ns_per_call;
    long long steps_first, steps_last, spans;
    long long cpu_time, counters_at_calls, counters_by_rdpmc, counters_whole;
    long long gpu_modules_bytes, gpu_trace, gpu_flush_ms, gpu_end_ms;
    ClockPair early; /* all 0: there is none */
} Options;

extern const char options_doc[];

/* -1, and a Python error: one of them is not what it should be. */
int options_take(PyObject *given, Options *options);

#endif
