/* The interpreter's hooks over the call-path tree, one way per Python version.
 *
 * 3.11: the frame-evaluation hook (PEP 523): called instead of the interpreter's loop, so
 *       entry and return are one C function. C functions come by the profile function.
 * 3.12: sys.monitoring (PEP 669) with callables of a type of our own, whose vectorcall
 *       is a C function. It sees all threads, and others may use it at the same time.
 *
 * Every callback leaves the interpreter's error state and errno alone. */
#ifndef TAUPY_HOOKS_H
#define TAUPY_HOOKS_H

#include "listeners.h"

extern int python_disabled; /* the program disabled the group PYTHON */
extern int record_c_calls;
extern Listener hooks_listener;

/* Not 0, and a Python error, if they cannot be installed or removed. */
int hooks_install(void);
int hooks_remove(void);
/* Record Python routines, or none of them from now on. */
void hooks_python_enabled(int enabled);
const char *hooks_name(void);
/* Do we record C calls on this thread, and has the program no profile function there? */
int hooks_have_c_calls_alone(const PyThreadState *state);

/* Does the in-code API's own code call this? Usually the caller is the current routine. */
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
