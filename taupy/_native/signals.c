/* The functions that send signals, wrapped. */
#define _GNU_SOURCE
#include "signals.h"
#include "confined.h"
#include "exit.h"
#include "gpu.h"
#include "process.h"
#include "thread.h"
#include "wrap.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define NOTES_AT_MOST 4096

typedef PyObject *(*FastCall)(PyObject *, PyObject *const *, Py_ssize_t);

static PyCFunction real_kill, real_killpg, real_raise, real_thread_kill;

/* The signals by which a program is asked to end. */
static int stops(long number) { return number == SIGTERM || number == SIGINT || number == SIGHUP; }

/* Whether this process ends at once if it gets this signal in this thread. */
static int is_fatal(long number)
{
    struct sigaction action;
    sigset_t blocked;
    return stops(number) && !is_filtered() && getpid() != 1 && /* the kernel spares the first process of a namespace */
           sigaction((int)number, NULL, &action) == 0 && action.sa_handler == SIG_DFL &&
           pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 &&
           !sigismember(&blocked, (int)number);
}

static void end_by(long number)
{
    int saved = errno;
    if (!process_ends())
        return;
    exit_begins((int)number);
    gpu_end_released(1);
    finish(1, -number, PART_ENDED);
    fold();
    store();
    errno = saved;
}

static void note_stop(long pid, long number)
{
    static int count;
    char name[40], text[24];
    int saved = errno;
    if (!is_measured() || waiting || part == NULL || !stops(number) || count >= NOTES_AT_MOST)
        return;
    count++;
    snprintf(name, sizeof name, "taupy.stopped.%ld", pid);
    snprintf(text, sizeof text, "%ld", number);
    metadata_write(name, text);
    errno = saved;
}

/* The integer, -1 if it is none. Subclasses are left to the real function: they may run code. */
static long number_of(PyObject *value)
{
    int overflow;
    return PyLong_CheckExact(value) ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
}

/* signal.SIGTERM and the like are members of an enumeration: ints with the plain value. */
static long signal_of(PyObject *value)
{
    int overflow;
    return PyLong_Check(value) ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
}

static PyObject *wrapped_kill(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    long pid = n == 2 ? number_of(args[0]) : -1, number = n == 2 ? signal_of(args[1]) : -1;
    if (is_fatal(number) && (pid == getpid() || pid == 0))
        end_by(number);
    PyObject *result = ((FastCall)(void *)real_kill)(module, args, n);
    if (result != NULL && pid > 0)
        note_stop(pid, number);
    return result;
}

static PyObject *wrapped_killpg(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    long group = n == 2 ? number_of(args[0]) : -1;
    if (n == 2 && is_fatal(signal_of(args[1])) && (group == 0 || group == getpgrp()))
        end_by(signal_of(args[1]));
    return ((FastCall)(void *)real_killpg)(module, args, n);
}

static PyObject *wrapped_raise(PyObject *module, PyObject *number)
{
    if (is_fatal(signal_of(number)))
        end_by(signal_of(number));
    return real_raise(module, number);
}

static PyObject *wrapped_thread_kill(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n == 2 && PyLong_CheckExact(args[0]) &&
        PyLong_AsUnsignedLongMask(args[0]) == (unsigned long)pthread_self() &&
        is_fatal(signal_of(args[1])))
        end_by(signal_of(args[1]));
    return ((FastCall)(void *)real_thread_kill)(module, args, n);
}

void wrap_signals(void)
{
    PyObject *posix = PyImport_ImportModule("posix");
    if (posix != NULL) {
        wrap(posix, "kill", &real_kill, (void *)wrapped_kill, METH_FASTCALL);
        wrap(posix, "killpg", &real_killpg, (void *)wrapped_killpg, METH_FASTCALL);
        Py_DECREF(posix);
    }
    PyErr_Clear();
    PyObject *module = PyImport_ImportModule("_signal"); /* imported at the interpreter's start */
    if (module != NULL) {
        wrap(module, "raise_signal", &real_raise, (void *)wrapped_raise, METH_O);
        wrap(module, "pthread_kill", &real_thread_kill, (void *)wrapped_thread_kill, METH_FASTCALL);
        Py_DECREF(module);
    }
    PyErr_Clear();
}
