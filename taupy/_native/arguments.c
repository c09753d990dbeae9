/* See arguments.h. Everything here runs under the GIL. */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include "arguments.h"
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <math.h>
#include <opcode.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#endif

#define FRAMES_AT_MOST 64
#define SEEN_AT_MOST 8192  /* then no further call is looked at */
#define BYTES_AT_MOST 1024 /* of the texts in one call's arguments, */
#define VALUES_AT_MOST 64  /* and values, */
#define DEPTH_AT_MOST 4    /* and tuples in tuples */
#define IS_GENERATOR_LIKE (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

enum { ASSIGNS_UNKNOWN = 0, ASSIGNS_NONE = 1, ASSIGNS_SOME = 2 };

const void *frame_apart;
static Table seen;

/* ---------------------------------------------------------------- frames */

static const _PyInterpreterFrame *running(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}

/* NULL: it is none of the program's code. */
static const PyCodeObject *code_of(const _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *code = (PyObject *)(frame->f_executable.bits & ~(uintptr_t)3);
#elif PY_VERSION_HEX >= 0x030D0000
    PyObject *code = frame->f_executable;
#else
    PyObject *code = (PyObject *)frame->f_code;
#endif
    return code != NULL && PyCode_Check(code) ? (const PyCodeObject *)code : NULL;
}

static PyObject *local(const _PyInterpreterFrame *frame, int at)
{
#if PY_VERSION_HEX >= 0x030E0000
    uintptr_t bits = frame->localsplus[at].bits;
    return bits & 2 ? NULL : (PyObject *)(bits & ~(uintptr_t)3); /* 2: of the interpreter's own */
#else
    return frame->localsplus[at];
#endif
}

OpenFrames open_frames(void)
{
    const void *frame = frame_apart != NULL ? frame_apart : running();
    return (OpenFrames){frame, FRAMES_AT_MOST};
}

static void next_frame(OpenFrames *frames)
{
    const _PyInterpreterFrame *frame = frames->frame;
    frames->frame = frame == frame_apart ? running() : frame->previous;
    if (--frames->rest == 0)
        frames->frame = NULL;
}

/* ---------------------------------------------------------------- what a routine does with them */

static int argument_count(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}

static int is_cell(const PyCodeObject *code, int at)
{
    return (PyBytes_AS_STRING(code->co_localspluskinds)[at] & CO_FAST_CELL) != 0;
}

/* Whether the code may assign to one of its first `own` variables, or to one of the first `shared`
 * that it shares with functions. Extended numbers of variables are taken for smaller ones. */
static int assigns(PyCodeObject *code, int own, int shared)
{
    PyObject *text = PyCode_GetCode(code);
    if (text == NULL)
        return 1;
    const unsigned char *at = (const unsigned char *)PyBytes_AS_STRING(text);
    const unsigned char *end = at + PyBytes_GET_SIZE(text);
    int is_found = 0;
    for (; at + 1 < end && !is_found; at += 2)
        switch (at[0]) {
        case STORE_FAST:
        case DELETE_FAST:
#if PY_VERSION_HEX >= 0x030C0000
        case LOAD_FAST_AND_CLEAR:
#endif
            is_found = at[1] < own;
            break;
        case STORE_DEREF:
        case DELETE_DEREF:
            is_found = at[1] < shared;
            break;
#if PY_VERSION_HEX >= 0x030D0000
        case STORE_FAST_LOAD_FAST:
            is_found = at[1] >> 4 < own;
            break;
        case STORE_FAST_STORE_FAST:
            is_found = at[1] >> 4 < own || (at[1] & 15) < own;
            break;
#endif
        default:
            break;
        }
    Py_DECREF(text);
    return is_found;
}

/* Whether functions within it may assign to variables that they share with it. */
static int assigns_inside(const PyCodeObject *code)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i);
        if (PyCode_Check(inner) && (assigns((PyCodeObject *)inner, 0, INT_MAX) ||
                                    assigns_inside((PyCodeObject *)inner)))
            return 1;
    }
    return 0;
}

/* Whether arguments are what they were when the call began. */
static int keeps_arguments(Routine *routine, PyCodeObject *code)
{
    if (routine->assigns == ASSIGNS_UNKNOWN) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        int count = argument_count(code), shares = 0;
        for (int i = 0; i < count; i++)
            shares |= is_cell(code, i);
        int is_some = assigns(code, count, count) || (shares && assigns_inside(code));
        PyErr_Restore(type, value, trace);
        routine->assigns = is_some ? ASSIGNS_SOME : ASSIGNS_NONE;
    }
    return routine->assigns == ASSIGNS_NONE;
}

/* ---------------------------------------------------------------- values */

typedef struct Sum {
    uint64_t hash;
    Py_ssize_t bytes, values; /* that there is still room for */
} Sum;

static void add_word(Sum *sum, uint64_t word)
{
    sum->hash = (sum->hash ^ word) * 0x9FB21C651E98DF25ull;
    sum->hash ^= sum->hash >> 32;
}

static int add_bytes(Sum *sum, const void *text, Py_ssize_t size)
{
    if (size > sum->bytes)
        return -1;
    sum->bytes -= size;
    add_word(sum, (uint64_t)size);
    for (Py_ssize_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)text + at, (size_t)(size - at < 8 ? size - at : 8));
        add_word(sum, word);
    }
    return 0;
}

/* Returns -1 if it is not compared. */
static int add_value(Sum *sum, PyObject *value, int depth)
{
    if (value == NULL || sum->values-- == 0)
        return -1;
    add_word(sum, (uint64_t)(uintptr_t)Py_TYPE(value));
    if (value == Py_None)
        return 0;
    if (PyBool_Check(value)) {
        add_word(sum, value == Py_True);
        return 0;
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        add_word(sum, (uint64_t)PyLong_AsLongLongAndOverflow(value, &overflow));
        return overflow ? -1 : 0;
    }
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t word;
        memcpy(&word, &number, sizeof word);
        add_word(sum, word);
        return isnan(number) ? -1 : 0; /* it is equal to nothing */
    }
    if (PyUnicode_CheckExact(value)) {
        int kind = (int)PyUnicode_KIND(value);
        add_word(sum, (uint64_t)kind);
        return add_bytes(sum, PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value) * kind);
    }
    if (PyBytes_CheckExact(value))
        return add_bytes(sum, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    if (!PyTuple_CheckExact(value) || depth == DEPTH_AT_MOST)
        return -1;
    add_word(sum, (uint64_t)PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
        if (add_value(sum, PyTuple_GET_ITEM(value, i), depth + 1) != 0)
            return -1;
    return 0;
}

static int add_arguments(Sum *sum, const _PyInterpreterFrame *frame, const PyCodeObject *code)
{
    for (int i = 0; i < argument_count(code); i++) {
        PyObject *value = local(frame, i);
        if (value != NULL && PyCell_Check(value) && is_cell(code, i))
            value = PyCell_GET(value);
        if (add_value(sum, value, 0) != 0)
            return -1;
    }
    return 0;
}

static int is_same(const void *entry, const void *wanted) { return entry == wanted; }

/* ---------------------------------------------------------------- looks */

void arguments_look(OpenFrames *frames, const Thread *thread, const Node *node, Routine *routine,
                    int begins, ArgumentCounts *counts)
{
    PyCodeObject *code = node->key;
    while (frames->frame != NULL && code_of(frames->frame) != code)
        next_frame(frames);
    const _PyInterpreterFrame *frame = frames->frame;
    if (frame == NULL)
        return;
    next_frame(frames);
    if (code->co_flags & IS_GENERATOR_LIKE || argument_count(code) == 0 ||
        counts->call == node->calls || seen.count >= SEEN_AT_MOST ||
        !(begins || keeps_arguments(routine, code)))
        return;
    counts->call = node->calls;
    Sum sum = {(uint64_t)(uintptr_t)code ^ thread->index, BYTES_AT_MOST, VALUES_AT_MOST};
    if (add_arguments(&sum, frame, code) != 0) {
        counts->others++;
        return;
    }
    const void *wanted = (const void *)(uintptr_t)sum.hash;
    uint64_t hash = table_hash(sum.hash);
    if (table_find(&seen, hash, is_same, wanted) == NULL && wanted != NULL) {
        if (table_put(&seen, hash, (void *)wanted) != 0)
            return;
        counts->different++;
    }
    counts->compared++;
}

void arguments_forget(void) { table_clear(&seen); }
