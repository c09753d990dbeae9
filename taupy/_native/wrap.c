/* Wrapping functions that end the process or start others; see wrap.h. */
#define _GNU_SOURCE
#include "wrap.h"
#include "children.h"
#include "environment.h"
#include "exit.h"
#include "gpu.h"
#include "line_thread.h"
#include "process.h"
#include "thread.h"
#include <unistd.h>

typedef PyObject *(*FastCall)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyCFunction real_exit, real_system, real_execv, real_execve, real_fork_exec, real_spawn,
    real_spawnp, real_fork, real_forkpty;

#define ARGUMENTS_AT_MOST 32

static PyObject *wrapped_exit(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t total = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (total == 1 && PyLong_CheckExact(args[0])) {
        int overflow;
        long value = PyLong_AsLongAndOverflow(args[0], &overflow);
        if (!overflow && value >= INT_MIN && value <= INT_MAX && process_ends()) {
            exit_begins(0);
            gpu_end_released(1);
            finish(1, value & 0xff, PART_ENDED);
            fold();
            if (store() && (value & 0xff) == 0)
                _exit(EXIT_FAILURE);
        }
    }
    return ((FastCall)(void *)real_exit)(module, args, n, names);
}

/* Index of the argument `env` of posix.execve and similar functions, the third one; -1 if
 * absent. */
static Py_ssize_t environment_at(Py_ssize_t n, PyObject *names)
{
    if (n > 2)
        return 2;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "env") == 0)
            return n + i;
    return -1;
}

static PyObject *call_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *names, Py_ssize_t at, PyObject *changed)
{
    PyObject *result, *with[ARGUMENTS_AT_MOST];
    Py_ssize_t total = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (changed != NULL && total <= ARGUMENTS_AT_MOST) {
        memcpy(with, args, (size_t)total * sizeof *with);
        with[at] = changed;
        args = with;
    }
    result = ((FastCall)(void *)real)(module, args, n, names);
    Py_XDECREF(changed);
    return result;
}

static PyObject *exec_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *names, Py_ssize_t at, PyObject *environment)
{
    if (n >= 2) /* of several notes the last one counts: the earlier attempts failed */
        note_child(getpid(), clock_ns(CLOCK_MONOTONIC), 0, args[0], args[1], NULL);
    int ends = process_ends();
    if (ends) {
        gpu_end_released(0);
        finish(0, 0, PART_EXEC);
    }
    int hidden = gpu_hide();
    PyObject *result = call_with(real, module, args, n, names, at, environment);
    gpu_show(hidden); /* still here, so it failed */
    if (ends && active && part != NULL)
        part_resume(part);
    line_thread_begin();
    return result;
}

static PyObject *wrapped_execv(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    return exec_with(real_execv, module, args, n, NULL, -1, NULL); /* it takes no keywords */
}

static PyObject *wrapped_execve(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t at = environment_at(n, names);
    PyObject *environment = at >= 0 ? mapping_with_variable(args[at]) : NULL;
    return exec_with(real_execve, module, args, n, names, at, environment);
}

static PyObject *wrapped_system(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                PyObject *names)
{
    int hidden = gpu_hide();
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = ((FastCall)(void *)real_system)(module, args, n, names);
    gpu_show(hidden);
    if (result != NULL && n == 1)
        note_child(0, began_ns, clock_ns(CLOCK_MONOTONIC), NULL, args[0], NULL);
    return result;
}

/* With None, allowed from 3.13 on, the environment is inherited. */
static PyObject *spawn_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    Py_ssize_t at = environment_at(n, names);
    PyObject *environment = at >= 0 ? mapping_with_variable(args[at]) : NULL;
    int hidden = gpu_hide();
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = call_with(real, module, args, n, names, at, environment);
    gpu_show(hidden);
    return n >= 2 ? noted(result, began_ns, args[0], args[1], NULL) : result;
}

static PyObject *wrapped_spawn(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawn_with(real_spawn, module, args, n, names);
}

static PyObject *wrapped_spawnp(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawn_with(real_spawnp, module, args, n, names);
}

/* A child has a part from the start, so one that is killed at once is not lost. */
static PyObject *forked_with(PyCFunction real, PyObject *module)
{
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    line_thread_end(); /* from 3.12 on, Python warns of other threads of a process that forks */
    PyObject *result = real(module, NULL);
    PyObject *pid = result != NULL && PyTuple_Check(result) ? PyTuple_GET_ITEM(result, 0) : result;
    if (pid != NULL && PyLong_CheckExact(pid)) {
        pid_t child = (pid_t)PyLong_AsLong(pid);
        if (child == 0)
            thread_here();
        else
            note_fork(child, began_ns);
    }
    line_thread_begin();
    return result;
}

static PyObject *wrapped_fork(PyObject *module, PyObject *unused)
{
    (void)unused;
    return forked_with(real_fork, module);
}

static PyObject *wrapped_forkpty(PyObject *module, PyObject *unused)
{
    (void)unused;
    return forked_with(real_forkpty, module);
}

/* args, executables, close_fds, pass_fds, cwd, env, ..., umask, preexec_fn; up to 3.13 allow_vfork */
#define CWD_OF_FORK_EXEC 4
#define ENVIRONMENT_OF_FORK_EXEC 5
#define PREEXEC_OF_FORK_EXEC 21

static PyObject *fork_exec_environment(PyObject *const *args, Py_ssize_t n)
{
    if (n <= PREEXEC_OF_FORK_EXEC)
        return NULL;
    return list_with_variable(args[ENVIRONMENT_OF_FORK_EXEC], args[PREEXEC_OF_FORK_EXEC]);
}

#if PY_VERSION_HEX < 0x030C0000
static PyObject *fork_exec(PyObject *module, PyObject *args)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *changed = fork_exec_environment(&PyTuple_GET_ITEM(args, 0), n);
    if (changed == NULL)
        return real_fork_exec(module, args);
    PyObject *with = PyTuple_New(n), *result = NULL;
    for (Py_ssize_t i = 0; with != NULL && i < n; i++)
        PyTuple_SET_ITEM(with, i, Py_NewRef(i == ENVIRONMENT_OF_FORK_EXEC ? changed
                                                                          : PyTuple_GET_ITEM(args, i)));
    if (with != NULL)
        result = real_fork_exec(module, with);
    Py_XDECREF(with);
    Py_DECREF(changed);
    return result;
}

static PyObject *wrapped_fork_exec(PyObject *module, PyObject *args)
{
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = fork_exec(module, args);
    return PyTuple_GET_SIZE(args) <= ENVIRONMENT_OF_FORK_EXEC
               ? result
               : noted(result, began_ns, PyTuple_GET_ITEM(args, 1), PyTuple_GET_ITEM(args, 0),
                       PyTuple_GET_ITEM(args, CWD_OF_FORK_EXEC));
}
#define FLAGS_OF_FORK_EXEC METH_VARARGS
#else
static PyObject *wrapped_fork_exec(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = call_with(real_fork_exec, module, args, n, NULL, ENVIRONMENT_OF_FORK_EXEC,
                                 fork_exec_environment(args, n));
    return n <= ENVIRONMENT_OF_FORK_EXEC
               ? result
               : noted(result, began_ns, args[1], args[0], args[CWD_OF_FORK_EXEC]);
}
#define FLAGS_OF_FORK_EXEC METH_FASTCALL
#endif

void wrap(PyObject *module, const char *name, PyCFunction *real, void *ours, int flags)
{
    PyObject *function = PyObject_GetAttrString(module, name);
    if (function != NULL && PyCFunction_Check(function) && *real == NULL) {
        PyMethodDef *method = ((PyCFunctionObject *)function)->m_ml;
        int convention = METH_FASTCALL | METH_KEYWORDS | METH_VARARGS | METH_O | METH_NOARGS;
        if ((method->ml_flags & convention) == flags) {
            *real = method->ml_meth;
            method->ml_meth = (PyCFunction)ours;
        }
    }
    PyErr_Clear();
    Py_XDECREF(function);
}

/* A function's hash is the address of its C function: sets of functions, such as os.supports_fd, no
 * longer find the wrapped ones. Rebuild those sets. */
static void hash_again(PyObject *modules)
{
    PyObject *os = PyDict_GetItemString(modules, "os"), *name, *set;
    Py_ssize_t at = 0;
    while (os != NULL && PyModule_Check(os) && PyDict_Next(PyModule_GetDict(os), &at, &name, &set)) {
        if (!PySet_CheckExact(set))
            continue;
        PyObject *members = PySequence_Tuple(set);
        Py_ssize_t n = members != NULL ? PyTuple_GET_SIZE(members) : 0;
        if (n > 0 && PySet_Clear(set) == 0)
            for (Py_ssize_t i = 0; i < n; i++)
                PySet_Add(set, PyTuple_GET_ITEM(members, i));
        Py_XDECREF(members);
    }
}

void wrap_functions(void)
{
    PyObject *posix = PyImport_ImportModule("posix");
    if (posix != NULL) {
        wrap(posix, "_exit", &real_exit, (void *)wrapped_exit, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "execv", &real_execv, (void *)wrapped_execv, METH_FASTCALL);
        wrap(posix, "execve", &real_execve, (void *)wrapped_execve, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "fork", &real_fork, (void *)wrapped_fork, METH_NOARGS);
        wrap(posix, "forkpty", &real_forkpty, (void *)wrapped_forkpty, METH_NOARGS);
        wrap(posix, "system", &real_system, (void *)wrapped_system, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "posix_spawn", &real_spawn, (void *)wrapped_spawn,
             METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "posix_spawnp", &real_spawnp, (void *)wrapped_spawnp,
             METH_FASTCALL | METH_KEYWORDS);
        Py_DECREF(posix);
    }
    PyErr_Clear();
    PyObject *modules = PyImport_GetModuleDict();
    hash_again(modules);
    int known = PyDict_GetItemString(modules, "_posixsubprocess") != NULL;
    PyObject *subprocess = PyImport_ImportModule("_posixsubprocess");
    if (subprocess != NULL) {
        wrap(subprocess, "fork_exec", &real_fork_exec, (void *)wrapped_fork_exec,
             FLAGS_OF_FORK_EXEC);
        if (!known)
            PyDict_DelItemString(modules, "_posixsubprocess");
        Py_DECREF(subprocess);
    }
    PyErr_Clear();
}
