/* The options of start(), in C form. */
#ifndef TAUPY_OPTIONS_H
#define TAUPY_OPTIONS_H

#include "clock.h"
#include "confined.h"
#include <Python.h>

/* Absent options are NULL, 0, or the default in options.c. Strings and NULL-terminated lists become
 * the engine's; objects are borrowed. */
typedef struct Options {
    char *run_folder, *spill_prefix, *ancestors, *rank, *gpu_collector, *gpu_save, *gpu_modules, *blas,
        *autograd, *collectives, *operators;
    char **include, **exclude, **our_files, **storer_argv, **storer_env, **gpu_libraries;
    char **library_folders, **layers, **plumbing, **known, **metrics;
    char **line_routines, **own_libraries, **own_texts;
    PyObject *counters;
    long long root_pid, reader_pid, c_calls, mpi, depth, max_callpaths, helper, quiet, wait_for_main, sample_ms;
    long long operator_calls, lines_of_all, lines_inside;
    long long throttle, throttle_calls, throttle_ns_per_call;
    long long threads_apart;
    long long steps_first, steps_last, spans;
    long long counters_at_calls, counters_by_rdpmc, counters_whole;
    long long gpu_modules_bytes, gpu_trace, gpu_flush_ms, gpu_end_ms;
    int has_rights;
    Rights rights;   /* of the launcher */
    ClockPair early; /* all 0: none */
} Options;

extern const char options_doc[];

/* Returns -1, with an exception set, if an option is invalid. */
int options_take(PyObject *given, Options *options);

#endif
