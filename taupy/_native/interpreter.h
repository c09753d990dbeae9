/* What the watch needs to read this process's Python frames from outside (remote.h). */
#ifndef TAUPY_INTERPRETER_H
#define TAUPY_INTERPRETER_H

#include <Python.h>
#include <stdint.h>

struct RemoteLayout;

/* The watch's process id, if each measured process must permit it to read (Yama's ptrace_scope is
 * 1); else 0. */
extern long reader_pid;

/* Where the fields lie in this interpreter's structures; all zero: it cannot be read. */
void interpreter_fields(struct RemoteLayout *layout);

/* Write into the new part where the fields lie in this interpreter's structures, and permit the
 * reader: a forked child has not inherited that. */
void interpreter_describe(void);

/* So many threads have begun: whoever reads the part finds all of them in it. */
void interpreter_threads(uint64_t count);

/* The address of the running thread's state; 0 if it has none. */
uint64_t interpreter_thread(void);

/* (a RemoteLayout without addresses; offsets of the main interpreter in the runtime, of the first
 * thread in an interpreter, of the next one in a thread; and of the lock, in the runtime or, by its
 * address, in the interpreter): what another process of this very Python is read by. */
PyObject *interpreter_layout(PyObject *module, PyObject *unused);

#endif
