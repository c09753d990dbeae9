/* Reading the options of start() from a dict. */
#include "options.h"
#include "names.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_doc[] = PyDoc_STR(
"start(options: dict) -> None\n\n"
"Begin to record. Options: run_folder (bytes; absent: memory only), spill_prefix (bytes; of the\n"
"path of a part that the folder has no room for), root_pid, reader_pid (of a process that must be\n"
"permitted to read this one; 0: none), ancestors\n"
"(bytes: process ids up to the root's), rank (bytes: see rank_variables.py), c_calls, mpi (record collectives of mpi4py), depth, include, exclude, our_files,\n"
"layers, plumbing (FILE:NAME of routines that call modules of networks, and of those between\n"
"them and the modules' own code), known (\"ROLE KIND FIRST SECOND FILE:NAME\", see known.h),\n"
"throttle,\n"
"throttle_calls, throttle_ns_per_call, max_callpaths, steps_first, steps_last (the window of\n"
"steps whose details are recorded; 0: of all), spans (so many are kept, see spans.h),\n"
"metrics (names of metric_sources()), counters [(type, config, weight, metric)], counters_at_calls, counters_by_rdpmc,\n"
"counters_whole (once more, over all threads), "
"blas (bytes: the library that tells of operations), autograd (bytes: the one that tells of\n"
"nodes; as for the next two, its SHA-256, a blank, and its path), collectives (bytes: the one that tells of those), operators (bytes: the one that tells of\n"
"operators), line_routines (PATH:NAME of those with exact lines), lines_of_all (1: all of the\n"
"program's), lines_inside (1: a thread here looks at lines, see line_thread.h), own_libraries (folders, each ended by a slash), own_texts (files that are none, with\n"
"code of the program), operator_calls (1: record them; 2: with the sizes and types of their inputs),\n"
"sample_ms, wait_for_main, helper, quiet,\n"
"threads_apart (ended threads of one beginning that are not added up, see thread_rows.h; -1: all),\n"
"early (ticks, ns), rights (of the launcher, see rights()), storer_argv, storer_env,\n"
"gpu_collector (bytes: the collector's path; absent: no GPU), gpu_libraries, gpu_trace,\n"
"library_folders (each ended by a slash; with them an import is one row),\n"
"gpu_flush_ms, gpu_end_ms, gpu_save (bytes: a folder for CUPTI's own buffers),\n"
"gpu_modules (bytes: a folder for modules that are loaded), gpu_modules_bytes.");

enum Kind { NUMBER, TEXT, TEXTS };

static const struct {
    const char *name;
    enum Kind kind;
    size_t offset;
    long long otherwise;
} taken[] = {
#define OPTION(name, kind, otherwise) {#name, kind, offsetof(Options, name), otherwise}
    OPTION(run_folder, TEXT, 0),
    OPTION(spill_prefix, TEXT, 0),
    OPTION(ancestors, TEXT, 0),
    OPTION(rank, TEXT, 0),
    OPTION(gpu_collector, TEXT, 0),
    OPTION(gpu_save, TEXT, 0),
    OPTION(gpu_modules, TEXT, 0),
    OPTION(blas, TEXT, 0),
    OPTION(autograd, TEXT, 0),
    OPTION(collectives, TEXT, 0),
    OPTION(operators, TEXT, 0),
    OPTION(include, TEXTS, 0),
    OPTION(exclude, TEXTS, 0),
    OPTION(our_files, TEXTS, 0),
    OPTION(layers, TEXTS, 0),
    OPTION(plumbing, TEXTS, 0),
    OPTION(known, TEXTS, 0),
    OPTION(metrics, TEXTS, 0),
    OPTION(line_routines, TEXTS, 0),
    OPTION(own_libraries, TEXTS, 0),
    OPTION(own_texts, TEXTS, 0),
    OPTION(storer_argv, TEXTS, 0),
    OPTION(storer_env, TEXTS, 0),
    OPTION(gpu_libraries, TEXTS, 0),
    OPTION(library_folders, TEXTS, 0),
    OPTION(root_pid, NUMBER, 0),
    OPTION(reader_pid, NUMBER, 0),
    OPTION(c_calls, NUMBER, 0),
    OPTION(mpi, NUMBER, 0),
    OPTION(depth, NUMBER, 0),
    OPTION(max_callpaths, NUMBER, 8 << 20),
    OPTION(helper, NUMBER, 0),
    OPTION(quiet, NUMBER, 0),
    OPTION(wait_for_main, NUMBER, 0),
    OPTION(sample_ms, NUMBER, 0),
    OPTION(operator_calls, NUMBER, 0),
    OPTION(lines_of_all, NUMBER, 0),
    OPTION(lines_inside, NUMBER, 0),
    OPTION(throttle, NUMBER, 0),
    OPTION(throttle_calls, NUMBER, 100000),
    OPTION(throttle_ns_per_call, NUMBER, 10000),
    OPTION(threads_apart, NUMBER, -1),
    OPTION(steps_first, NUMBER, 0),
    OPTION(steps_last, NUMBER, -1),
    OPTION(spans, NUMBER, 0),
    OPTION(counters_at_calls, NUMBER, 0),
    OPTION(counters_by_rdpmc, NUMBER, 0),
    OPTION(counters_whole, NUMBER, 0),
    OPTION(gpu_modules_bytes, NUMBER, 0),
    OPTION(gpu_trace, NUMBER, 0),
    OPTION(gpu_flush_ms, NUMBER, 1000),
    OPTION(gpu_end_ms, NUMBER, 30000),
#undef OPTION
};

/* Convert a list of str or bytes to a NULL-terminated array of C strings; NULL for an absent or
 * empty list, and, with an exception set, if memory runs out. */
static char **texts_of(PyObject *list)
{
    if (list == NULL || !PyList_Check(list) || PyList_GET_SIZE(list) == 0)
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **texts = calloc((size_t)n + 1, sizeof *texts);
    for (Py_ssize_t i = 0; texts != NULL && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        texts[i] = PyBytes_Check(item) ? strdup(PyBytes_AS_STRING(item)) : text_of(item);
    }
    return texts != NULL ? texts : (char **)PyErr_NoMemory();
}

static void take(void *at, enum Kind kind, PyObject *value, long long otherwise)
{
    if (kind == NUMBER)
        *(long long *)at =
            value == NULL || value == Py_None ? otherwise : PyLong_AsLongLong(value);
    else if (kind == TEXT)
        *(char **)at =
            value != NULL && PyBytes_Check(value) ? strdup(PyBytes_AS_STRING(value)) : NULL;
    else
        *(char ***)at = texts_of(value);
}

int options_take(PyObject *given, Options *options)
{
    memset(options, 0, sizeof *options);
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "start() takes a dict of options");
        return -1;
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken && !PyErr_Occurred(); i++)
        take((char *)options + taken[i].offset, taken[i].kind,
             PyDict_GetItemString(given, taken[i].name), taken[i].otherwise);
    if (PyErr_Occurred())
        return -1;
    options->counters = PyDict_GetItemString(given, "counters");
    PyObject *pair = PyDict_GetItemString(given, "early");
    if (pair != NULL && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        options->early.ticks = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(pair, 0));
        options->early.ns = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
    }
    PyObject *rights = PyDict_GetItemString(given, "rights");
    const char *digits = rights != NULL && PyUnicode_Check(rights) ? PyUnicode_AsUTF8(rights) : "";
    options->has_rights = digits != NULL && strlen(digits) == 2 * sizeof(Rights);
    for (size_t i = 0; options->has_rights && i < sizeof(Rights); i++)
        if (sscanf(digits + 2 * i, "%2hhx", (unsigned char *)&options->rights + i) != 1)
            options->has_rights = 0;
    return PyErr_Occurred() ? -1 : 0;
}
