/* The Python frame at work, as seen from a callback of the interpreter's hooks.
 *
 * Up to 3.13 its variables are read where the interpreter keeps them; later versions are asked
 * by the public functions, which make a frame object for it. */
#ifndef TAUPY_FRAMES_H
#define TAUPY_FRAMES_H

#include <Python.h>

typedef struct FrameAtWork {
    const void *id;   /* the same one as long as it runs */
    PyObject *self;   /* its first variable: a new reference, or NULL */
} FrameAtWork;

/* The frame at work, if it runs this code; else all NULL. No code of the program runs. */
FrameAtWork frame_at_work(PyObject *code);
/* A variable of it by its place among the names of the code's variables, from 0: a new reference,
 * or NULL. */
PyObject *frame_variable(PyObject *code, int at);
/* The same of a frame that is known by its id. */
PyObject *frame_argument(const void *id, PyObject *code, int at);

/* Frames from the one at work outwards, which `frame_next_code` goes on to: the code of the frame,
 * borrowed, or NULL at the end. Before the end, drop what is left. */
void *frame_first(void);
const void *frame_next_code(void **frame);
void frame_drop(void *frame);

#endif
