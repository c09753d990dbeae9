/* Note child processes with their commands, so that a child without a part is listed in the trial
 * (record, children.py).
 *
 * A note is metadata of the part: process id (0: unknown; our own: we become it), and start and end
 * in ns of CLOCK_MONOTONIC; then folder, executable and the words of the command, each preceded by
 * a NUL. Long commands are truncated. */
#ifndef TAUPY_CHILDREN_H
#define TAUPY_CHILDREN_H

#include <Python.h>
#include <stdint.h>
#include <sys/types.h>

/* Note a fork of this process, of which only the child's pid is known. If the child cannot open a
 * file for its part, its data is lost. */
void note_fork(pid_t pid, int64_t began_ns);

/* `paths`: the executable, or several candidates of which the first that can be run is used; NULL:
 * unknown. `cwd`: the child's, if different from ours. */
void note_child(pid_t pid, int64_t began_ns, int64_t ended_ns, PyObject *paths, PyObject *command,
                PyObject *cwd);

/* Note the child whose pid a function has returned; passes the result through. */
PyObject *noted(PyObject *result, int64_t began_ns, PyObject *paths, PyObject *command,
                PyObject *cwd);

#endif
