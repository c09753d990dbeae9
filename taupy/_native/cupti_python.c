/* The native half of the debugging GPU collector (`taupy run --cupti-backend python`).
 *
 * The CUDA driver loads this library in place of the native collector (cupti.c). It takes the GIL
 * and runs collectors/cupti_python_start.py; what is recorded there comes from NVIDIA's
 * cupti-python. The functions that cupti-python calls back are implemented here: in a Python
 * function, signal handlers could raise in the middle of a CUDA call, and the engine would record
 * it. Call paths are noted as by the native collector (cupti_calls.c); records are only passed
 * on. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "clock.h"
#include "collector.h"
#include "cupti_interest.h"
#include "cupti_records.h"
#include "engine_host.h"
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define START "collectors/cupti_python_start.py"
#define BUFFER_BYTES (2u << 20)

static int begun; /* once per process; -1: in a forked child of a process that had begun */
static GpuHost *host;
static PyObject *put_records, *end_function, *snapshot_function, *start_thread, *work_function;
static __thread const char *snapshot_path;
static __thread int snapshot_result;

/* ---------------------------------------------------------------- called by cupti-python */

static uint64_t number_of(PyObject *data, const char *name)
{
    PyObject *value = PyObject_GetAttrString(data, name);
    uint64_t number = value != NULL ? PyLong_AsUnsignedLongLongMask(value) : 0;
    Py_XDECREF(value);
    return number;
}

/* (user data, domain, callback id, data) */
static PyObject *on_call(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    int saved = errno;
    if (n == 4 && !calls.closed) {
        int domain = (int)PyLong_AsLong(args[1]);
        uint32_t id = (uint32_t)PyLong_AsUnsignedLongMask(args[2]);
        if (domain == DOMAIN_RESOURCE) {
            ResourceData resource = {(void *)(uintptr_t)number_of(args[3], "context")};
            calls_on_callback(NULL, domain, id, &resource);
        } else {
            CallbackData call = {.site = (int)number_of(args[3], "callback_site"),
                                 .correlation = (uint32_t)number_of(args[3], "correlation_id")};
            calls_on_callback(NULL, domain, id, &call);
        }
        PyErr_Clear();
    }
    errno = saved;
    Py_RETURN_NONE;
}

/* () -> (buffer size in bytes, number of records; 0: as many as fit) */
static PyObject *on_request(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("Ii", BUFFER_BYTES, 0);
}

/* (list of records): pass on to the worker; CUPTI calls this on any thread */
static PyObject *on_records(PyObject *module, PyObject *records)
{
    (void)module;
    if (begun == 1) {
        GpuCounters *counters = collector.sums.counters;
        counters->told = __atomic_load_n(&counters->launches, __ATOMIC_RELAXED);
        counters->buffers++;
        Py_XDECREF(PyObject_CallOneArg(put_records, records));
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

/* ---------------------------------------------------------------- for collectors/cupti_python.py */

static void begin_unified_memory(void) {} /* cupti-python requests it at the start */

/* On the first CUDA API call, on the calling thread. */
static void begin_worker(void)
{
    sigset_t all, before;
    calls.worker_begun = 1; /* protected by the GIL */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* it must not get the program's signals */
    Py_XDECREF(PyObject_CallFunction(start_thread, "O()", work_function));
    PyErr_Clear();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* () -> the engine's settings as a dict; None: nothing is to be measured */
static PyObject *prepare(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if ((host = engine_host()) == NULL)
        Py_RETURN_NONE;
    host_write(host, tried, 1);
    collector.host = calls.host = host;
    if (collector_begin_sums(host->run_folder) != 0)
        return PyErr_NoMemory();
    collector.part->start_ticks = host->part_start();
    calls.begin_worker = begin_worker;
    calls.begin_unified_memory = begin_unified_memory;
    PyObject *libraries = PyList_New(0);
    for (char **at = host->libraries; libraries != NULL && at != NULL && *at != NULL; at++) {
        PyObject *item = PyUnicode_DecodeFSDefault(*at);
        if (item == NULL || PyList_Append(libraries, item) != 0)
            Py_CLEAR(libraries);
        Py_XDECREF(item);
    }
    return Py_BuildValue("{sNsOsIsI}", "libraries", libraries, "trace",
                         host->trace ? Py_True : Py_False, "flush_ms", host->flush_ms, "end_ms",
                         host->end_ms);
}

/* (domain, id, name) -> 0: not recorded; & 2: it starts work. Its name is now in the part. */
static PyObject *interest(PyObject *module, PyObject *args)
{
    int domain, id, found;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "iis", &domain, &id, &name))
        return NULL;
    found = interest_in(domain, name);
    if (domain > 0 && domain < 3 && id > 0 && id < IDS_AT_MOST)
        calls.interest[domain][id] = (uint8_t)found;
    if (found && collector.part != NULL) /* else nothing is recorded */
        gpu_part_text(collector.part, GPU_CALL_NAME, (uint64_t)domain << 12 | (uint32_t)id, name);
    return PyLong_FromLong(found);
}

/* Called by the engine; see gpu_host.h. */
static int python_lives(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/* Run with the GIL held and the thread's pending exception preserved. Exceptions that are not our
 * errors, such as Ctrl-C, are raised again once the thread is back in its own code. */
static void with_python(void (*run)(int), int value)
{
    PyObject *type, *problem, *trace;
    int saved = errno;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &problem, &trace);
    run(value);
    PyObject *raised = PyErr_Occurred(); /* borrowed */
    if (raised != NULL && !PyErr_GivenExceptionMatches(raised, PyExc_Exception))
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), raised);
    PyErr_Restore(type, problem, trace);
    PyGILState_Release(state);
    errno = saved;
}

static void call_end(int last)
{
    Py_XDECREF(PyObject_CallFunction(end_function, "i", last));
}

/* Called with or without the GIL. If Python has been finalised, its exit function has already
 * run. */
static void python_end(int last)
{
    if (begun == 1 && python_lives())
        with_python(call_end, last);
}

static void call_snapshot(int unused)
{
    (void)unused;
    PyObject *result = PyObject_CallFunction(snapshot_function, "y", snapshot_path);
    snapshot_result = result != NULL && PyObject_IsTrue(result) == 1 ? 0 : -1;
    Py_XDECREF(result);
}

static int python_snapshot(const char *path)
{
    if (begun != 1 || !python_lives())
        return -1;
    if (!calls.worker_begun)
        return 0; /* nothing was launched */
    snapshot_path = path;
    with_python(call_snapshot, 0);
    return snapshot_result;
}

/* In a forked child, where possibly no thread holds the GIL. */
static void python_forked(void)
{
    calls.closed = 1;
    begun = -1;
}

/* (functions for records, for the end, for a snapshot, of the worker, start_new_thread): callbacks
 * count from now on */
static PyObject *connect_host(PyObject *module, PyObject *args)
{
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO", &put_records, &end_function, &snapshot_function,
                          &work_function, &start_thread))
        return NULL;
    Py_INCREF(args); /* keeps its items alive, too, for good */
    host_write(host, snapshot, python_snapshot);
    host_write(host, forked, python_forked);
    host_write(host, end, python_end);
    collector.sums.counters->state = GPU_RUNNING;
    calls.closed = 0;
    Py_RETURN_NONE;
}

static PyObject *close_calls(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    calls.closed = 1;
    Py_RETURN_NONE;
}

/* Do not count the calling thread's CUDA API calls as the program's. */
static PyObject *be_ours(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    calls_be_ours();
    Py_RETURN_NONE;
}

/* (list of records): add to the sums. Each object holds a record as written by CUPTI. */
static PyObject *add(PyObject *module, PyObject *records)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records); i++) {
        PyObject *place = PyObject_GetAttrString(PyList_GET_ITEM(records, i), "ptr");
        const void *record = place != NULL ? PyLong_AsVoidPtr(place) : NULL;
        Py_XDECREF(place);
        if (record == NULL)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a record at 0");
        sums_add(&collector.sums, record, calls_node);
    }
    Py_RETURN_NONE;
}

/* (name, value): a fact or a problem */
static PyObject *note(PyObject *module, PyObject *args)
{
    const char *name, *value;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &name, &value))
        return NULL;
    gpu_part_note(collector.part, name, value);
    Py_RETURN_NONE;
}

/* (step, CUPTI's result, text): it cannot start */
static PyObject *problem(PyObject *module, PyObject *args)
{
    const char *step, *text;
    int code;
    (void)module;
    if (!PyArg_ParseTuple(args, "sis", &step, &code, &text))
        return NULL;
    collector_problem(step, code, text);
    Py_RETURN_NONE;
}

/* (number of records CUPTI dropped): make the files current; enlarge the call table when the newest
 * one is half full */
static PyObject *keep(PyObject *module, PyObject *dropped)
{
    (void)module;
    GpuCounters *counters = collector.sums.counters;
    counters->dropped += PyLong_AsUnsignedLongMask(dropped);
    if (__atomic_load_n(&calls.table->used, __ATOMIC_RELAXED) * 2 > calls.table->mask) {
        CallTable *larger = collector_call_table((calls.table->mask + 1) * 2);
        if (larger != NULL)
            __atomic_store_n(&calls.table, larger, __ATOMIC_RELEASE);
    }
    collector.part->start_ticks = host->part_start();
    counters->realtime_end = clock_ns(CLOCK_REALTIME);
    counters->monotonic_end = clock_ns(CLOCK_MONOTONIC);
    trace_flush(&collector.sums.trace);
    Py_RETURN_NONE;
}

/* (path) -> whether the part, as it is now, was copied there */
static PyObject *copy(PyObject *module, PyObject *path)
{
    (void)module;
    if (!PyBytes_Check(path))
        return PyErr_Format(PyExc_TypeError, "a path in bytes");
    return PyBool_FromLong(part_copy(collector.part, PyBytes_AS_STRING(path), PART_SNAPSHOT) == 0);
}

/* (was it too late?): nothing more will come */
static PyObject *finish_part(PyObject *module, PyObject *late)
{
    (void)module;
    collector.sums.counters->flush_timed_out = (uint64_t)PyObject_IsTrue(late);
    if (collector.sums.counters->state == GPU_RUNNING)
        collector.sums.counters->state = GPU_ENDED;
    collector.part->state = PART_ENDED;
    part_save(collector.part);
    Py_RETURN_NONE;
}

/* () -> (launches so far, has the worker begun, contexts) */
static PyObject *progress(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *contexts = PyList_New(0);
    for (size_t i = 0; contexts != NULL && i < sizeof calls.contexts / sizeof *calls.contexts; i++) {
        void *context = __atomic_load_n(&calls.contexts[i], __ATOMIC_ACQUIRE);
        PyObject *one = context != NULL ? PyLong_FromVoidPtr(context) : NULL;
        if (one != NULL)
            PyList_Append(contexts, one);
        Py_XDECREF(one);
    }
    return Py_BuildValue("KiN", collector.sums.counters->launches, calls.worker_begun, contexts);
}

static PyMethodDef methods[] = {
    {"on_call", (PyCFunction)(void *)on_call, METH_FASTCALL, NULL},
    {"on_request", on_request, METH_NOARGS, NULL},
    {"on_records", on_records, METH_O, NULL},
    {"prepare", prepare, METH_NOARGS, NULL},
    {"interest", interest, METH_VARARGS, NULL},
    {"connect", connect_host, METH_VARARGS, NULL},
    {"close", close_calls, METH_NOARGS, NULL},
    {"be_ours", be_ours, METH_NOARGS, NULL},
    {"add", add, METH_O, NULL},
    {"note", note, METH_VARARGS, NULL},
    {"problem", problem, METH_VARARGS, NULL},
    {"keep", keep, METH_O, NULL},
    {"copy", copy, METH_O, NULL},
    {"finish", finish_part, METH_O, NULL},
    {"progress", progress, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "taupy._native.cupti_python", "The debugging GPU collector's native half.",
    0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_cupti_python(void) { return PyModuleDef_Init(&definition); }

/* ---------------------------------------------------------------- entry points */

/* Path of a file in the package; `name` is relative to its folder. 0 if it does not fit. */
static int path_in_package(const char *name, char *path, size_t room)
{
    Dl_info here;
    if (dladdr((void *)path_in_package, &here) == 0 || here.dli_fname == NULL)
        return 0;
    const char *end = strstr(here.dli_fname, "_native/cupti_python.");
    return end != NULL && snprintf(path, room, "%.*s%s", (int)(end - here.dli_fname),
                                   here.dli_fname, name) < (int)room;
}

static void run_start(int unused)
{
    (void)unused;
    char path[PATH_MAX];
    FILE *file = path_in_package(START, path, sizeof path) ? fopen(path, "rbe") : NULL;
    PyObject *namespace = file != NULL ? PyDict_New() : NULL;
    if (namespace != NULL &&
        PyDict_SetItemString(namespace, "__builtins__", PyEval_GetBuiltins()) == 0)
        Py_XDECREF(PyRun_FileExFlags(file, path, Py_file_input, namespace, namespace, 0, NULL));
    Py_XDECREF(namespace);
    if (file != NULL)
        fclose(file);
}

static void begin(void)
{
    int expected = 0;
    if (python_lives() && __atomic_compare_exchange_n(&begun, &expected, 1, 0, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_RELAXED))
        with_python(run_start, 0);
}

/* The driver calls this from the program's first cuInit: the program continues in any case. */
EXPORT int InitializeInjection(void)
{
    begin();
    return 1;
}

/* The engine calls this when it finds an active driver that has not called us. */
EXPORT void taupy_gpu_begin(void *asking)
{
    (void)asking;
    begin();
}

/* An entry point of the native collector, which handles ranges with either backend; NULL: there is
 * none. */
static void *native_entry(const char *entry)
{
    Dl_info here;
    char path[PATH_MAX];
    static const char ours[] = "/cupti_python.";
    if (dladdr((void *)path_in_package, &here) == 0 || here.dli_fname == NULL)
        return NULL;
    const char *name = strstr(here.dli_fname, ours);
    if (name == NULL || snprintf(path, sizeof path, "%.*s/cupti.%s", (int)(name - here.dli_fname),
                                 here.dli_fname, name + sizeof ours - 1) >= (int)sizeof path)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? dlsym(library, entry) : NULL;
}

/* NVTX calls this at the program's first range. 0: not injected, ranges do nothing. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    int (*ranges)(const void *(*)(uint32_t)) = native_entry("InitializeInjectionNvtx2");
    return ranges != NULL ? ranges(export_table) : 0;
}

EXPORT int InitializeInjectionNvtxExtension(void *extension)
{
    int (*take)(void *) = native_entry("InitializeInjectionNvtxExtension");
    return take != NULL ? take(extension) : 0;
}
