/* The interpreter hooks that drive the call-path tree, by Python version.
 *
 * 3.11: the frame-evaluation hook (PEP 523): called in place of the interpreter's loop, so
 *       entry and return are one C function. C calls come through the profile function.
 * 3.12: sys.monitoring (PEP 669), with callables of our own type whose vectorcall is a C
 *       function. It covers all threads, and other tools may use it at the same time.
 *
 * Callbacks preserve the interpreter's error state and errno. */
#ifndef TAUPY_HOOKS_H
#define TAUPY_HOOKS_H

#include "listeners.h"

extern int python_disabled; /* the program disabled the group PYTHON */
extern int record_c_calls;
extern Listener hooks_listener;

/* Return nonzero, with a Python exception set, on failure. */
int hooks_install(void);
int hooks_remove(void);
/* Record Python routines from now on, or stop doing so. */
void hooks_python_enabled(int enabled);
/* Have the code object's lines told to `line_begins` and `line_resumes`. */
void hooks_lines(PyObject *code);
const char *hooks_name(void);
/* Whether we record C calls on this thread and the program has set no profile function there. */
int hooks_have_c_calls_alone(const PyThreadState *state);

/* Whether the caller is code of the in-code API itself. Usually the caller is the current
 * routine. */
static inline int called_by_us(const PyCodeObject *caller)
{
    Thread *thread = this_thread;
    if (likely(thread == NULL || thread->cursor->key == (const void *)caller))
        return 0;
    Routine *routine = routine_find(caller);
    return routine != NULL && routine->flags & ROUTINE_OURS;
}

static inline void *key_of_c(PyObject *callable)
{
    if (PyCFunction_Check(callable))
        return (char *)((PyCFunctionObject *)callable)->m_ml + KEY_C;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        return (char *)((PyMethodDescrObject *)callable)->d_method + KEY_C;
    return NULL;
}

#endif
