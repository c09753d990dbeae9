/* Reading the running frame; see frames.h. */
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

static PyObject *variable(_PyInterpreterFrame *frame, int at)
{
    PyObject *found = at >= 0 && at < code_of(frame)->co_nlocalsplus ? frame->localsplus[at] : NULL;
    if (found != NULL && PyCell_Check(found)) /* a variable shared with inner functions */
        found = PyCell_GET(found);
    return Py_XNewRef(found);
}

FrameAtWork frame_at_work(PyObject *code)
{
    _PyInterpreterFrame *frame = innermost();
    if (frame == NULL || (PyObject *)code_of(frame) != code)
        return (FrameAtWork){NULL, NULL};
    int has_one = ((PyCodeObject *)code)->co_argcount > 0;
    return (FrameAtWork){frame, has_one ? variable(frame, 0) : NULL};
}

PyObject *frame_variable(PyObject *code, int at)
{
    _PyInterpreterFrame *frame = innermost();
    return frame != NULL && (PyObject *)code_of(frame) == code ? variable(frame, at) : NULL;
}

PyObject *frame_argument(const void *id, PyObject *code, int at)
{
    (void)code;
    return variable((_PyInterpreterFrame *)id, at);
}

void *frame_first(void) { return innermost(); }

void frame_settle(void **at)
{
#if PY_VERSION_HEX >= 0x030C0000
    _PyInterpreterFrame *frame = *at;
    while (frame != NULL && frame->owner == FRAME_OWNED_BY_CSTACK) /* none of the program's code */
        frame = frame->previous;
    *at = frame;
#else
    (void)at;
#endif
}

const void *frame_next_code(void **at)
{
    frame_settle(at);
    _PyInterpreterFrame *frame = *at;
    *at = frame != NULL ? frame->previous : NULL;
    return frame != NULL ? code_of(frame) : NULL;
}

void frame_drop(void *frame) { (void)frame; }

#else

/* The frame object of the running frame, if it runs this code: borrowed, or NULL. */
static PyFrameObject *frame_of(PyObject *code)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *at_work = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    int is_it = (PyObject *)at_work == code;
    Py_XDECREF(at_work);
    return is_it ? frame : NULL;
}

static PyObject *variable(PyFrameObject *frame, PyObject *code, int at)
{
    PyObject *names = PyCode_GetVarnames((PyCodeObject *)code), *found = NULL;
    if (names != NULL && at >= 0 && at < PyTuple_GET_SIZE(names))
        found = PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, at));
    Py_XDECREF(names);
    PyErr_Clear();
    return found;
}

FrameAtWork frame_at_work(PyObject *code)
{
    PyFrameObject *frame = frame_of(code);
    if (frame == NULL)
        return (FrameAtWork){NULL, NULL};
    int has_one = ((PyCodeObject *)code)->co_argcount > 0;
    return (FrameAtWork){frame, has_one ? variable(frame, code, 0) : NULL};
}

PyObject *frame_variable(PyObject *code, int at)
{
    PyFrameObject *frame = at >= 0 ? frame_of(code) : NULL;
    return frame != NULL ? variable(frame, code, at) : NULL;
}

PyObject *frame_argument(const void *id, PyObject *code, int at)
{
    return variable((PyFrameObject *)id, code, at);
}

void *frame_first(void) { return Py_XNewRef(PyEval_GetFrame()); }

void frame_settle(void **at) { (void)at; }

const void *frame_next_code(void **at)
{
    PyFrameObject *frame = *at;
    if (frame == NULL)
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame); /* kept alive by the frame */
    *at = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    Py_DECREF(code);
    return code;
}

void frame_drop(void *frame) { Py_XDECREF((PyObject *)frame); }

#endif
