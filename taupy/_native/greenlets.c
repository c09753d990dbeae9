/* Swapping call paths when greenlets switch; see greenlets.h. */
#include "greenlets.h"
#include "process.h"
#include "timing.h"

typedef struct Stack { /* of one greenlet while it is switched out */
    void *greenlet;
    Node *cursor, *base, *hidden_parent;
    uint64_t hide;
} Stack;

typedef struct Stacks { /* of one thread */
    Table table; /* Stack entries by greenlet */
    Node *base;  /* start of the running greenlet's path */
} Stacks;

static PyObject *greenlet_callback;

static int stack_is(const void *entry, const void *greenlet)
{
    return ((const Stack *)entry)->greenlet == greenlet;
}

static Stack *stack_find(Stacks *stacks, void *greenlet)
{
    return table_find(&stacks->table, table_hash((uint64_t)greenlet), stack_is, greenlet);
}

static Stack *stack_make(Stacks *stacks, void *greenlet)
{
    Stack *stack = stack_find(stacks, greenlet);
    if (stack != NULL || (stack = calloc(1, sizeof *stack)) == NULL)
        return stack;
    stack->greenlet = greenlet;
    if (table_put(&stacks->table, table_hash((uint64_t)greenlet), stack) == 0)
        return stack;
    free(stack);
    return NULL;
}

static void stack_drop(Stacks *stacks, void *greenlet)
{
    Stack *stack = stack_find(stacks, greenlet);
    if (stack != NULL)
        table_remove(&stacks->table, table_hash((uint64_t)greenlet), stack);
    free(stack);
}

/* A greenlet is switched out: keep what is open in it, if anything. */
static void stack_keep(Thread *thread, void *greenlet)
{
    Stacks *stacks = thread->stacks;
    Stack *kept;
    if (visible(thread) == stacks->base) /* it has ended, or nothing is open in it */
        stack_drop(stacks, greenlet);
    else if ((kept = stack_make(stacks, greenlet)) != NULL) {
        kept->cursor = thread->cursor;
        kept->hidden_parent = thread->hidden.parent;
        kept->hide = thread->hide;
        kept->base = stacks->base;
    }
}

/* A greenlet resumes, or starts where it is switched to. */
static void stack_take(Thread *thread, void *greenlet)
{
    Stacks *stacks = thread->stacks;
    Stack *kept = stack_find(stacks, greenlet);
    if (kept != NULL) {
        hidden_under(thread, kept->hidden_parent);
        cursor_set(thread, kept->cursor);
        thread->hide = kept->hide;
        stacks->base = kept->base;
        return;
    }
    stacks->base = visible(thread);
    if (thread->cursor == &thread->hidden) {
        cursor_set(thread, stacks->base);
        thread->hide = 0;
    }
}

static PyObject *greenlet_switched(PyObject *self, PyObject *args)
{
    (void)self;
    Thread *thread = thread_mine();
    PyObject *pair;
    if (!active || thread == NULL || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) != 2 ||
        !PyTuple_Check(pair = PyTuple_GET_ITEM(args, 1)) || PyTuple_GET_SIZE(pair) != 2)
        Py_RETURN_NONE;
    uint64_t now = clock_ticks();
    if (thread->stacks == NULL) {
        if ((thread->stacks = calloc(1, sizeof *thread->stacks)) == NULL)
            Py_RETURN_NONE;
        thread->stacks->base = &thread->root;
    }
    part->greenlets++;
    Node *from = visible(thread);
    stack_keep(thread, PyTuple_GET_ITEM(pair, 0));
    stack_take(thread, PyTuple_GET_ITEM(pair, 1));
    exchange(thread, from, visible(thread), now);
    Py_RETURN_NONE;
}

/* Claim this thread's trace function, unless the program uses it. */
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

static void on_lookup(Thread *thread)
{
    if (unlikely(greenlet_loaded && !thread->greenlet_seen))
        greenlet_take(thread);
}

Listener greenlets_listener = {.on_lookup = on_lookup};
