/* Greenlets: many stacks on one thread.
 *
 * The cursor belongs to a stack, so it is exchanged when greenlets switch. greenlet tells
 * of switches through its trace function (one a thread), which we take as soon as the
 * module is there and nobody else has it. A greenlet's path hangs where it was first
 * switched to. While it is switched out, its open routines' clocks stand still, as a
 * suspended generator's do; those it shares with the running one go on. */
#ifndef TAUPY_GREENLETS_H
#define TAUPY_GREENLETS_H

#include "process.c"
#include "operations.c"

typedef struct Stack { /* of one greenlet, while it is switched out */
    void *greenlet;    /* NULL: free slot */
    Node *cursor, *base, *hidden_parent;
    uint64_t hide;
} Stack;

typedef struct Stacks { /* of one thread */
    uint64_t mask, used; /* used counts the left ones, too */
    Stack *table;
    Node *base; /* where the running greenlet's path begins */
} Stacks;

#define LEFT ((void *)1) /* a slot that was used: a search goes on past it */

static PyObject *greenlet_callback;

static Stack *stack_of(Stacks *stacks, void *greenlet, int make)
{
    if (make && (stacks->table == NULL || stacks->used * 2 > stacks->mask)) {
        uint64_t mask = stacks->table == NULL ? 15 : stacks->mask * 2 + 1, used = 0;
        Stack *table = calloc(mask + 1, sizeof *table);
        if (table == NULL)
            return NULL;
        for (uint64_t i = 0; stacks->table != NULL && i <= stacks->mask; i++)
            if (stacks->table[i].greenlet != NULL && stacks->table[i].greenlet != LEFT) {
                uint64_t j = ((uint64_t)stacks->table[i].greenlet >> 4) & mask;
                while (table[j].greenlet != NULL)
                    j = (j + 1) & mask;
                table[j] = stacks->table[i];
                used++;
            }
        free(stacks->table);
        stacks->table = table;
        stacks->mask = mask;
        stacks->used = used;
    }
    if (stacks->table == NULL)
        return NULL;
    uint64_t i = ((uint64_t)greenlet >> 4) & stacks->mask;
    for (; stacks->table[i].greenlet != NULL; i = (i + 1) & stacks->mask)
        if (stacks->table[i].greenlet == greenlet)
            return &stacks->table[i];
    if (!make)
        return NULL;
    stacks->used++;
    stacks->table[i].greenlet = greenlet;
    return &stacks->table[i];
}

/* The clocks of the one path stop, those of the other run; shared nodes go on. */
static void exchange(Thread *thread, Node *from, Node *to, uint64_t now)
{
    while (from != to) {
        if (from->depth >= to->depth) {
            from->inclusive += now - from->t0;
            if (metric_count)
                metrics_leave(thread, from, 0);
            from = from->parent;
        } else {
            to->t0 = now;
            if (metric_count)
                metrics_enter(thread, to);
            to = to->parent;
        }
    }
}

static PyObject *greenlet_switched(PyObject *self, PyObject *args)
{
    (void)self;
    Thread *thread = this_thread;
    PyObject *pair;
    if (!active || thread == NULL || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) != 2 ||
        !PyTuple_Check(pair = PyTuple_GET_ITEM(args, 1)) || PyTuple_GET_SIZE(pair) != 2)
        Py_RETURN_NONE;
    uint64_t now = clock_ticks();
    void *origin = PyTuple_GET_ITEM(pair, 0), *target = PyTuple_GET_ITEM(pair, 1);
    Stacks *stacks = thread->stacks;
    if (stacks == NULL) {
        if ((stacks = thread->stacks = calloc(1, sizeof *stacks)) == NULL)
            Py_RETURN_NONE;
        stacks->base = &thread->root;
    }
    part->greenlets++;
    Node *from = visible(thread), *base = stacks->base;
    Stack *kept;
    if (from == base) { /* nothing open: it has ended, or is as good as new */
        if ((kept = stack_of(stacks, origin, 0)) != NULL)
            kept->greenlet = LEFT;
    } else if ((kept = stack_of(stacks, origin, 1)) != NULL) {
        kept->cursor = thread->cursor;
        kept->hidden_parent = thread->hidden.parent;
        kept->hide = thread->hide;
        kept->base = base;
    }
    kept = stack_of(stacks, target, 0);
    if (kept == NULL) { /* its first time: it begins where it is switched to */
        stacks->base = from;
        if (thread->cursor == &thread->hidden) {
            thread->cursor = from;
            thread->hide = 0;
        }
    } else {
        thread->cursor = kept->cursor;
        thread->hidden.parent = kept->hidden_parent;
        thread->hide = kept->hide;
        stacks->base = kept->base;
    }
    exchange(thread, from, visible(thread), now);
    Py_RETURN_NONE;
}

/* Take the trace function of this thread, unless the program has it. */
static void greenlet_take(Thread *thread)
{
    static PyMethodDef method = {"taupy", greenlet_switched, METH_VARARGS, NULL};
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "greenlet");
    PyObject *settrace = NULL, *before = NULL, *result = NULL;
    if (module == NULL || !PyModule_Check(module))
        return;
    settrace = PyDict_GetItemString(PyModule_GetDict(module), "settrace"); /* borrowed */
    if (settrace == NULL || !PyCFunction_Check(settrace))
        return; /* still being imported */
    thread->greenlet_seen = 1;
    if (greenlet_callback == NULL)
        greenlet_callback = PyCFunction_New(&method, NULL);
    if (greenlet_callback != NULL)
        before = PyObject_CallOneArg(settrace, greenlet_callback);
    if (before != NULL && before != Py_None && before != greenlet_callback) {
        result = PyObject_CallOneArg(settrace, before);
        part->greenlets_untraced = 1;
    }
    PyErr_Clear();
    Py_XDECREF(before);
    Py_XDECREF(result);
}

#endif
