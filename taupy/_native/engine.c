/* Python interface of the compiled engine: start, stop, and the module.
 *
 * All state is per process, in static variables: the program may import this module again after
 * boot has removed it from sys.modules, and must get the same engine. */
#include "allocator.h"
#include "api.h"
#include "autograd.h"
#include "carry.h"
#include "codes.h"
#include "collectives.h"
#include "confined.h"
#include "confined_calls.h"
#include "counters.h"
#include "counters_python.h"
#include "exit.h"
#include "exit_row.h"
#include "flat.h"
#include "fork.h"
#include "gpu.h"
#include "growth.h"
#include "greenlets.h"
#include "guard.h"
#include "hooks.h"
#include "imports.h"
#include "interpreter.h"
#include "known.h"
#include "layer_facts.h"
#include "layers.h"
#include "line_events.h"
#include "line_thread.h"
#include "memory.h"
#include "metrics.h"
#include "mpi.h"
#include "natives.h"
#include "operations.h"
#include "operators.h"
#include "options.h"
#include "origin.h"
#include "own_files.h"
#include "phases.h"
#include "process.h"
#include "pushed.h"
#include "ranges.h"
#include "run_delay.h"
#include "selection.h"
#include "sha256.h"
#include "setprofile.h"
#include "signals.h"
#include "spans.h"
#include "steps.h"
#include "steps_window.h"
#include "thread.h"
#include "thread_rows.h"
#include "timing.h"
#include "wrap.h"
#include <dlfcn.h>

/* ------------------------------------------------------------------ start */

/* Additional metrics: those of sources, then counters, read at calls or at regions. */
static int start_metrics(const Options *options)
{
    const char *refused = metrics_choose(options->metrics);
    counter_event_count = counter_metric_count = 0;
    if (refused != NULL) {
        PyErr_Format(PyExc_ValueError, "no metric, or one too many: %s", refused);
        return -1;
    }
    if (options->counters != NULL && counters_wanted(options->counters) != 0)
        return -1;
    metric_count = source_count + counter_metric_count;
    if (metric_count > METRICS_AT_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d further metrics, got %d", METRICS_AT_MOST,
                     metric_count);
        return -1;
    }
    if (options->counters_at_calls)
        call_metrics = metric_count;
    counter_rdpmc_wanted = options->counters_by_rdpmc != 0;
    node_stride = metric_count ? 2 : 1;
    natives_start(options->counters_whole != 0);
    return 0;
}

static void start_process(const Options *options)
{
    free(run_folder);
    free(spill_prefix);
    free(ancestors);
    free(rank_place);
    run_folder = options->run_folder;
    spill_prefix = options->spill_prefix;
    ancestors = options->ancestors;
    rank_place = options->rank;
    helper = options->helper != 0;
    waiting = options->wait_for_main != 0;
    root_pid = (pid_t)options->root_pid;
    reader_pid = (long)options->reader_pid;
    storer_argv = options->storer_argv;
    storer_env = options->storer_env;
    stderr_keep(options->quiet != 0);
}

static void start_gpu(const Options *options)
{
    free(gpu_collector);
    gpu_collector = options->gpu_collector;
    taupy_gpu_host.libraries = options->gpu_libraries;
    taupy_gpu_host.save_folder = options->gpu_save;
    taupy_gpu_host.modules_folder = options->gpu_modules;
    taupy_gpu_host.modules_bytes = (uint64_t)options->gpu_modules_bytes;
    taupy_gpu_host.trace = options->gpu_trace != 0;
    taupy_gpu_host.flush_ms = (uint32_t)options->gpu_flush_ms;
    taupy_gpu_host.end_ms = (uint32_t)options->gpu_end_ms;
    taupy_gpu_host.range_push = range_push;
    taupy_gpu_host.range_pop = range_pop;
    taupy_gpu_host.range_start = range_start;
    taupy_gpu_host.range_end = range_end;
    taupy_gpu_host.mark = range_mark;
}

#define CLOCK_LOOKS 4000000
#define TICKS_PER_MS_UNKNOWN 2e6

/* Ticks per millisecond, from the launcher's reading if there is one. Sets `early`. */
static double ticks_per_ms(const Options *options)
{
    ClockPair now = clock_pair();
    int is_told = options->early.ns != 0;
    early = is_told ? options->early : now;
    if (!clock_uses_tsc)
        return 1e6;
    ClockPair before = early;
    if (now.ns - early.ns < 2000000) {
        before = now;
        for (int looks = 0; looks < CLOCK_LOOKS; looks++) /* the clock may stand still */
            if (clock_true_ns(CLOCK_MONOTONIC) - before.ns >= 2000000)
                break;
        now = clock_pair();
        if (now.ns <= before.ns)
            return TICKS_PER_MS_UNKNOWN;
        if (!is_told)
            early = before;
    }
    return (double)(now.ticks - before.ticks) * 1e6 / (double)(now.ns - before.ns);
}

static void start_timing(const Options *options)
{
    double per_ms = ticks_per_ms(options);
    depth_limit = (uint64_t)options->depth;
    spans_limit = (uint64_t)options->spans;
    spans_long = (uint64_t)(LONG_CALL_MS * per_ms);
    callpath_limit = (uint64_t)options->max_callpaths;
    throttling = options->throttle != 0;
    throttle_calls = (uint64_t)options->throttle_calls;
    throttle_ticks = (uint64_t)((double)options->throttle_ns_per_call * per_ms / 1e6);
    sample_ticks = (uint64_t)((double)options->sample_ms * per_ms);
    ticks_per_ns = per_ms / 1e6;
    long_call_ticks = counter_event_count ? (uint64_t)per_ms : UINT64_MAX;
    memory_start();
    allocator_start();
    growth_start();
}

static void start_routines(const Options *options)
{
    record_c_calls = options->c_calls != 0;
    include_patterns = options->include;
    exclude_patterns = options->exclude;
    our_files = options->our_files;
    library_folders = options->library_folders;
    layer_codes = options->layers;
    plumbing_codes = options->plumbing;
    autograd_library = options->autograd;
    collectives_library = options->collectives;
    mpi_wanted = options->mpi != 0;
    operators_library = options->operators;
    operators_wanted = (int)options->operator_calls;
    program_files = (OwnFiles){options->own_libraries, options->own_texts};
    line_thread_wanted = options->lines_inside != 0;
    lines_start(options->line_routines, options->lines_of_all != 0);
    threads_apart = lines_used || spans_limit ? UINT64_MAX : (uint64_t)options->threads_apart;
    known_start(options->known);
    routine_watch_add(&selection_watch);
    routine_watch_add(&codes_watcher);
    routine_watch_add(&thread_names_watch);
    routine_watch_add(&lines_watch);
    imports_start();
    steps_window_start((uint64_t)options->steps_first, (uint64_t)options->steps_last);
    counter_descriptors_begin();
    layers_start();
    known_watch_start();
    phases_start();
    exit_row_start(options->wait_for_main != 0);
    routines_restart();
    codes_watch();
}

/* In the order in which they are notified. */
static void start_listeners(void)
{
    Listener *all[] = {&fork_listener, &greenlets_listener,  &hooks_listener,   &natives_listener,
                       &lines_listener, &memory_listener,     &allocator_listener, &gpu_listener,
                       &carry_listener,      &steps_window_listener, &phases_listener, &layers_listener,  &steps_listener,
                       &operations_listener, &ranges_listener,
                       &operators_listener, &autograd_listener,
                       &collectives_listener, &layer_facts_listener,
                       &exit_row_listener, &line_thread_listener, &run_delay_listener};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        listener_add(all[i]);
}

static int stop_recording(uint64_t state);

/* Changes to the process that are never undone, made only when a run is recorded. */
static void start_run(const Options *options)
{
    static int is_done;
    gpu_arm();
    confinement_start(options->has_rights ? &options->rights : NULL);
    if (is_done)
        return;
    is_done = 1;
    guard_start();
    exit_watch();
    wrap_functions();
    wrap_signals();
    wrap_setprofile();
    calls_watch(stop_recording);
}

static PyObject *start(PyObject *module, PyObject *given)
{
    (void)module;
    Options options;
    if (active) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is running already");
        return NULL;
    }
    if (options_take(given, &options) != 0)
        return NULL;
    clock_choose();
    threads_watch();
    forks_watch();
    start_listeners();
    generation++;
    if (start_metrics(&options) != 0)
        return NULL;
    start_process(&options);
    start_gpu(&options);
    start_timing(&options);
    start_routines(&options);
    if (options.blas != NULL && operations_start(options.blas) != 0) {
        PyErr_Format(PyExc_OSError, "%s", dlerror());
        return NULL;
    }
    thread_count = 0;
    forked = 0;
    if (part_begin() != 0)
        return PyErr_NoMemory();
    interpreter_describe();
    active = 1;
    if (hooks_install() != 0) {
        active = 0;
        return NULL;
    }
    if (run_folder != NULL)
        start_run(&options);
    line_thread_begin();
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ stop */

static int stop_recording(uint64_t state)
{
    if (!active)
        return 0;
    gpu_end_released(1);
    if (hooks_remove() != 0)
        return -1;
    close_all(clock_ticks());
    finish(0, 0, state);
    pthread_mutex_lock(&tree_lock);
    active = 0;
    pthread_mutex_unlock(&tree_lock);
    operations_stop();
    counters_stop();
    threads_leave();
    return 0;
}

PyDoc_STRVAR(stop_doc, "stop() -> None\n\nStop recording and close the part; nothing is stored.");

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return stop_recording(PART_ENDED) != 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *is_active(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(active);
}

static PyObject *metric_sources(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *units = PyDict_New();
    const MetricSource *source;
    for (int i = 0; units != NULL && (source = metrics_source(i)) != NULL; i++) {
        PyObject *unit = PyUnicode_FromString(source->unit);
        if (unit == NULL || PyDict_SetItemString(units, source->name, unit) != 0)
            Py_CLEAR(units);
        Py_XDECREF(unit);
    }
    return units;
}

static PyObject *describe(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    clock_choose();
    return Py_BuildValue("{ssss}", "hook", hooks_name(), "clock",
                         clock_uses_tsc ? "time-stamp counter" : "CLOCK_MONOTONIC");
}

static PyObject *read_clock(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    clock_choose();
    ClockPair now = clock_pair();
    return Py_BuildValue("KL", (unsigned long long)now.ticks, (long long)now.ns);
}

static PyObject *hexadecimal(const void *bytes, size_t size)
{
    char digits[2 * sizeof(Rights) + 1];
    for (size_t i = 0; i < size; i++)
        snprintf(digits + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
    return PyUnicode_FromStringAndSize(digits, 2 * (Py_ssize_t)size);
}

static PyObject *digest(PyObject *module, PyObject *content)
{
    (void)module;
    uint8_t bytes[SHA256_BYTES];
    if (!PyBytes_Check(content))
        return PyErr_Format(PyExc_TypeError, "digest() takes bytes");
    sha256(PyBytes_AS_STRING(content), (size_t)PyBytes_GET_SIZE(content), bytes);
    return hexadecimal(bytes, sizeof bytes);
}

static PyObject *rights(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Rights now;
    rights_read(&now);
    return hexadecimal(&now, sizeof now);
}

static PyMethodDef methods[] = {
    {"start", start, METH_O, options_doc},
    {"stop", stop, METH_NOARGS, stop_doc},
    {"active", is_active, METH_NOARGS, "Is the engine recording?"},
    {"describe", describe, METH_NOARGS, "The hook and the clock in use, as a dict."},
    {"metric_sources", metric_sources, METH_NOARGS, "{metric of calls: its unit}."},
    {"read_clock", read_clock, METH_NOARGS, "(ticks, CLOCK_MONOTONIC ns) of one moment."},
    {"digest", digest, METH_O, "digest(bytes): their SHA-256, in hexadecimal digits."},
    {"interpreter_layout", interpreter_layout, METH_NOARGS, "See interpreter.h."},
    {"rights", rights, METH_NOARGS, "This process's rights, the option `rights`: see confined.h."},
    {"timer_enter", timer_enter, METH_VARARGS, "timer_enter(name, group): begin a timer."},
    {"timer_leave", timer_leave, METH_VARARGS, "timer_leave(name, group) -> was it open?"},
    {"step_begin", step_begins, METH_VARARGS, "step_begin(is_validation): a step begins."},
    {"step_end", step_ends, METH_NOARGS, "step_end(): it ends."},
    {"event", note_event, METH_VARARGS, "event(name, unit, value): sample a user event."},
    {"set_metadata", set_metadata, METH_VARARGS, "set_metadata(name, value)"},
    {"set_node", set_node, METH_O, "set_node(number): this process's node."},
    {"set_group", set_group, METH_VARARGS, "set_group(group, enabled)"},
    {"snapshot", take_snapshot, METH_O, "snapshot(label): keep a copy of the profile so far."},
    {"counters_try", counters_try, METH_VARARGS, counters_try_doc},
    {"tables", tables, METH_NOARGS, "{table: (entries, slots, steps), rekeyed}: for tests."},
    {"flat", flat, METH_NOARGS, "[(name, calls, inclusive_ns, exclusive_ns, kind)] so far."},
    {NULL, NULL, 0, NULL},
};

/* No per-module state: the object boot removes from sys.modules is gone, and a later import creates
 * another one for the same engine. */
static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "taupy._native.engine", "taupy's call-path engine.", 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_engine(void)
{
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_ImportError, "taupy's compiled engine needs an interpreter with a GIL");
    return NULL;
#endif
    return PyModuleDef_Init(&definition);
}
