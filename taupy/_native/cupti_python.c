/* The start and the end of the debugging GPU collector (`taupy run --cupti-backend python`).
 *
 * The CUDA driver loads this library in place of the native collector (cupti.c). It only takes
 * the GIL and runs collectors/cupti_python_start.py: what is recorded there comes from NVIDIA's
 * cupti-python. NVTX's ranges go to the native collector, whichever backend is used. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define START "collectors/cupti_python_start.py"
#define END_FUNCTION "end"

static int begun;           /* once a process */
static PyObject *namespace; /* in which the start has run */

static int python_lives(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/* The path of a file of the package; `name` begins in its folder. 0 if there is no room. */
static int path_in_package(const char *name, char *path, size_t room)
{
    Dl_info here;
    if (dladdr((void *)path_in_package, &here) == 0 || here.dli_fname == NULL)
        return 0;
    const char *end = strstr(here.dli_fname, "_native/cupti_python.");
    return end != NULL && snprintf(path, room, "%.*s%s", (int)(end - here.dli_fname),
                                   here.dli_fname, name) < (int)room;
}

static void run_start(void)
{
    char path[PATH_MAX];
    FILE *file = path_in_package(START, path, sizeof path) ? fopen(path, "rbe") : NULL;
    if (file == NULL)
        return;
    if ((namespace = PyDict_New()) != NULL &&
        PyDict_SetItemString(namespace, "__builtins__", PyEval_GetBuiltins()) == 0)
        Py_XDECREF(PyRun_FileExFlags(file, path, Py_file_input, namespace, namespace, 0, NULL));
    PyErr_Clear();
    fclose(file);
}

/* With the GIL, and with the thread's own exception as it was. */
static void with_python(void (*run)(int), int value)
{
    PyObject *type, *problem, *trace;
    int saved = errno;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &problem, &trace);
    run(value);
    PyErr_Restore(type, problem, trace);
    PyGILState_Release(state);
    errno = saved;
}

static void start(int unused)
{
    (void)unused;
    run_start();
}

static void begin(void)
{
    int expected = 0;
    if (python_lives() && __atomic_compare_exchange_n(&begun, &expected, 1, 0, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_RELAXED))
        with_python(start, 0);
}

static void call_end(int last)
{
    PyObject *function = PyDict_GetItemString(namespace, END_FUNCTION); /* borrowed */
    if (function != NULL)
        Py_XDECREF(PyObject_CallFunction(function, "i", last));
    PyErr_Clear();
}

/* Of GpuHost: called by the engine, without the GIL or with it. Where Python has ended, its
 * exit function has delivered everything before. */
EXPORT void taupy_python_end(int last)
{
    if (namespace != NULL && python_lives())
        with_python(call_end, last);
}

/* Of GpuHost: in a forked child, where the GIL may be nobody's. The child's own exit function
 * knows that it is one. */
EXPORT void taupy_python_forked(void) { begun = -1; }

/* The driver calls this from the program's first cuInit: the program goes on whatever happens. */
EXPORT int InitializeInjection(void)
{
    begin();
    return 1;
}

/* The engine calls this where it sees a driver at work that has not called us. */
EXPORT void taupy_gpu_begin(void *asking)
{
    (void)asking;
    begin();
}

/* NVTX calls this at the program's first range. 0: no injection, ranges do nothing. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    Dl_info here;
    char path[PATH_MAX];
    const char *name = dladdr((void *)path_in_package, &here) && here.dli_fname != NULL
                           ? strstr(here.dli_fname, "/cupti_python.")
                           : NULL;
    if (name == NULL || snprintf(path, sizeof path, "%.*s/cupti.%s", (int)(name - here.dli_fname),
                                 here.dli_fname, name + strlen("/cupti_python.")) >=
                            (int)sizeof path)
        return 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*ranges)(const void *(*)(uint32_t)) =
        library != NULL ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    return ranges != NULL ? ranges(export_table) : 0;
}
