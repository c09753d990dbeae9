/* Reading the frame at work; see frames.h. */
#define Py_BUILD_CORE_MODULE 1
#include "frames.h"

#if PY_VERSION_HEX < 0x030E0000
#include <internal/pycore_frame.h>

static _PyInterpreterFrame *innermost(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}

static PyCodeObject *code_of(const _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

FrameAtWork frame_at_work(PyObject *code)
{
    _PyInterpreterFrame *frame = innermost();
    if (frame == NULL || (PyObject *)code_of(frame) != code)
        return (FrameAtWork){NULL, NULL};
    PyObject *first = ((PyCodeObject *)code)->co_argcount > 0 ? frame->localsplus[0] : NULL;
    if (first != NULL && PyCell_Check(first)) /* a variable that inner functions share */
        first = PyCell_GET(first);
    return (FrameAtWork){frame, Py_XNewRef(first)};
}

#else

FrameAtWork frame_at_work(PyObject *code)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *at_work = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    FrameAtWork found = {NULL, NULL};
    if (at_work != NULL && (PyObject *)at_work == code) {
        PyObject *names = at_work->co_argcount > 0 ? PyCode_GetVarnames(at_work) : NULL;
        found.id = frame;
        if (names != NULL)
            found.self = PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, 0));
        Py_XDECREF(names);
        PyErr_Clear();
    }
    Py_XDECREF(at_work);
    return found;
}

#endif
