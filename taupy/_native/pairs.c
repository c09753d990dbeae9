/* With whom point-to-point operations are done; see pairs.h. */
#include "pairs.h"
#include "collectives.h"
#include "frames.h"
#include "process.h"

enum { PEER = 1, GROUP = 2, TAG = 3, GROUP_PEER = 4 }; /* variables of isend and irecv */

static PyObject *variable(const Routine *routine, const void *frame, int at)
{
    PyObject *code = routine->key;
    if (at >= ((PyCodeObject *)code)->co_argcount)
        return NULL;
    return frame != NULL ? frame_argument(frame, code, at) : frame_variable(code, at);
}

/* A small whole number, or -1. */
static long number(PyObject *object)
{
    long value = object != NULL && PyLong_CheckExact(object) ? PyLong_AsLong(object) : -1;
    PyErr_Clear();
    return value;
}

/* The rank in the job, given the rank in a group. */
static long rank_in_job(PyObject *ranks, long rank)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (ranks != NULL && PyDict_Check(ranks) && PyDict_Next(ranks, &at, &key, &value))
        if (number(value) == rank)
            return number(key);
    return -1;
}

/* Whether a routine of this name, which waits for the operation, issues it. */
static int is_issued_by(const Thread *thread, const char *name)
{
    const Node *node = thread->asking;
    const Routine *routine = node != NULL ? routine_find(node->key) : NULL;
    return routine != NULL && strcmp(routine->name, name) == 0;
}

void pairs_called(Thread *thread, const Routine *routine, const void *frame)
{
    PyObject *values[GROUP_PEER + 1];
    for (int i = PEER; i <= GROUP_PEER; i++)
        values[i] = variable(routine, frame, i);
    PyObject *group = values[GROUP] != NULL && values[GROUP] != Py_None
                          ? Py_NewRef(values[GROUP])
                          : collectives_default_group();
    int sends = strcmp(routine->name, "isend") == 0;
    PairCall call = {.peer = number(values[PEER]), .tag = number(values[TAG]), .sends = sends};
    call.is_waited_for = is_issued_by(thread, sends ? "send" : "recv");
    if (number(values[GROUP_PEER]) >= 0)
        call.peer = rank_in_job(collectives_group_fact("_pg_group_ranks", group),
                                number(values[GROUP_PEER]));
    PyObject *name = collectives_group_fact("_pg_names", group);
    call.group = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    collectives_pair(&call);
    for (int i = PEER; i <= GROUP_PEER; i++)
        Py_XDECREF(values[i]);
    Py_XDECREF(group);
    PyErr_Clear();
}
