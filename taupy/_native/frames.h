/* The running Python frame, as seen from a callback of the interpreter's hooks. Up to 3.13, its
 * variables are read directly from the interpreter's structures; later versions are queried through
 * the public API, which creates a frame object. */
#ifndef TAUPY_FRAMES_H
#define TAUPY_FRAMES_H

#include <Python.h>

typedef struct FrameAtWork {
    const void *id;   /* unchanged as long as the frame runs */
    PyObject *self;   /* its first local variable: a new reference, or NULL */
} FrameAtWork;

/* The running frame if it runs this code; else all NULL. None of the program's code runs. */
FrameAtWork frame_at_work(PyObject *code);
/* A local variable of that frame, by index into the code's variable names: a new reference, or
 * NULL. */
PyObject *frame_variable(PyObject *code, int at);
/* The same for a frame given by its id. */
PyObject *frame_argument(const void *id, PyObject *code, int at);

/* Walk frames outwards from the running one. `frame_next_code` returns the next frame's code,
 * borrowed, or NULL at the end. To stop earlier, call `frame_drop`. */
void *frame_first(void);
const void *frame_next_code(void **frame);
void frame_drop(void *frame);
/* Pass over frames of the interpreter itself: `*frame` is then the one whose code comes next, and
 * names it as long as its function runs or is suspended. */
void frame_settle(void **frame);

#endif
