/* Children are noted with their commands: one that leaves no part is named in the trial (record,
 * children.py). A note is metadata of the part: process id (0: unknown; our own: we become it) and
 * when it began and ended, in ns of CLOCK_MONOTONIC; then folder, executable and the words of the
 * command, each after a zero byte. A long command is cut. */
#ifndef TAUPY_CHILDREN_H
#define TAUPY_CHILDREN_H

#include <Python.h>
#include <stdint.h>
#include <sys/types.h>

/* Note a fork of ours, from which nothing is known but the child's number. If it leaves no part,
 * where it could open no file, what it did is lost. */
void note_fork(pid_t pid, int64_t began_ns);

/* `paths`: the executable, or several of which the first that can be run is it; NULL: unknown.
 * `cwd`: of the child, if it is another than ours. */
void note_child(pid_t pid, int64_t began_ns, int64_t ended_ns, PyObject *paths, PyObject *command,
                PyObject *cwd);

/* Note the child whose number a function has returned; returns the result. */
PyObject *noted(PyObject *result, int64_t began_ns, PyObject *paths, PyObject *command,
                PyObject *cwd);

#endif
