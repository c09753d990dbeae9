/* Whether the calling thread may use Python's objects. */
#ifndef TAUPY_GIL_H
#define TAUPY_GIL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* PyGILState_Check is no use: once a second interpreter has existed, it always returns true. */
static inline int holds_gil(void)
{
    if (!Py_IsInitialized())
        return 0;
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != NULL;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != NULL;
#else /* one for all threads: the state of the thread that holds it */
    PyThreadState *holder = _PyThreadState_UncheckedGet();
    return holder != NULL && holder == PyGILState_GetThisThreadState();
#endif
}

#endif
