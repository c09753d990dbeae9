/* Totals by name, with open activations counted up to now. */
#include "flat.h"
#include "process.h"
#include "routine.h"

/* How flat() groups: [0] by plain name, timers and routines apart; [1] a Python routine by its full
 * name. */
enum FlatKind { FLAT_ROUTINE, FLAT_TIMER, FLAT_FULL_NAME };

static Routine *routine_of(const Node *node) /* NULL for the root */
{
    return node->parent == NULL ? NULL
                                : routine_find((void *)((uint64_t)node->key & ~KEY_THROTTLED));
}

static int flat_same(const Routine *a, const Routine *b, int full)
{
    return a == b || ((KEY_KIND(a->key) == KEY_TIMER) == (KEY_KIND(b->key) == KEY_TIMER) &&
                      strcmp(a->name, b->name) == 0 &&
                      (!full || (a->line == b->line && strcmp(a->file, b->file) == 0)));
}

/* Add to the sums [calls, inclusive, exclusive] of a routine's name. Errors are ignored. */
static void flat_add(PyObject *rows, const Routine *routine, int full, double more_calls,
                     double more_inclusive, double more_exclusive)
{
    if (full && routine->file[0] == 0)
        return;
    int kind = full                                    ? FLAT_FULL_NAME
               : KEY_KIND(routine->key) == KEY_TIMER ? FLAT_TIMER
                                                       : FLAT_ROUTINE;
    PyObject *name = PyUnicode_DecodeUTF8(routine->name, (Py_ssize_t)strlen(routine->name),
                                          "replace");
    if (name != NULL && full) {
        PyObject *file = PyUnicode_DecodeUTF8(routine->file, (Py_ssize_t)strlen(routine->file),
                                              "replace");
        PyObject *whole = file == NULL ? NULL
                                       : PyUnicode_FromFormat("%U [{%U}{%lld}]", name, file,
                                                              (long long)routine->line);
        Py_XDECREF(file);
        Py_SETREF(name, whole);
    }
    PyObject *key = name == NULL ? NULL : Py_BuildValue("Oi", name, kind);
    PyObject *old = key == NULL ? NULL : PyDict_GetItem(rows, key);
    double calls = 0, inclusive = 0, exclusive = 0;
    if (old != NULL)
        PyArg_ParseTuple(old, "ddd", &calls, &inclusive, &exclusive);
    PyObject *row = Py_BuildValue("ddd", calls + more_calls, inclusive + more_inclusive,
                                  exclusive + more_exclusive);
    if (row == NULL || key == NULL || PyDict_SetItem(rows, key, row) != 0)
        PyErr_Clear();
    Py_XDECREF(row);
    Py_XDECREF(key);
    Py_XDECREF(name);
}

/* Add a node's values. If it is below a node of the same name and kind, it adds no inclusive
 * time. */
static void flat_node(PyObject *rows, const Routine *routine, const Node *node, double calls,
                      double ticks)
{
    int outermost[2] = {1, 1};
    for (Node *up = node->parent; outermost[0] + outermost[1] > 0 && up->parent != NULL;
         up = up->parent) {
        Routine *above = routine_of(up);
        for (int full = 0; above != NULL && full < 2; full++)
            outermost[full] &= !flat_same(above, routine, full);
    }
    Routine *parent = routine_of(node->parent);
    for (int full = 0; full < 2; full++) {
        flat_add(rows, routine, full, calls, outermost[full] ? ticks : 0, ticks);
        if (parent != NULL)
            flat_add(rows, parent, full, 0, 0, -ticks);
    }
}

/* Sums over everything that has ended. */
static void flat_ended(PyObject *rows)
{
    for (uint64_t i = 0; i < table_slots(&routines); i++) {
        Routine *routine = routines.slots[i].entry;
        if (routine == NULL || routine->generation != generation ||
            routines.slots[i].hash != key_hash(routine->node_key)) /* has two entries */
            continue;
        for (uint64_t j = 0; j < routine->node_count; j++) {
            Node *node = routine->nodes[j];
            flat_node(rows, routine, node, (double)node->calls, (double)node->inclusive);
        }
    }
}

static void flat_open(PyObject *rows, uint64_t now)
{
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        for (Node *node = thread_is_over(thread) ? &thread->root : visible(thread);
             node->parent != NULL; node = node->parent) {
            Routine *routine = routine_of(node);
            if (routine != NULL)
                flat_node(rows, routine, node, 0, (double)(now - node->t0));
        }
}

PyObject *flat(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *rows = PyDict_New(), *list = PyList_New(0), *key, *row;
    Py_ssize_t at = 0;
    if (rows != NULL && list != NULL && is_measured() && part != NULL) {
        ClockPair now = clock_pair();
        double ns_per_tick = !clock_uses_tsc || now.ticks == early.ticks
                                 ? 1.0
                                 : (double)(now.ns - early.ns) / (double)(now.ticks - early.ticks);
        flat_ended(rows);
        flat_open(rows, now.ticks);
        while (PyDict_Next(rows, &at, &key, &row)) {
            double calls, inclusive, exclusive;
            if (!PyArg_ParseTuple(row, "ddd", &calls, &inclusive, &exclusive))
                break;
            PyObject *item = Py_BuildValue("OLLLO", PyTuple_GET_ITEM(key, 0), (long long)calls,
                                           (long long)(inclusive * ns_per_tick),
                                           (long long)(exclusive * ns_per_tick),
                                           PyTuple_GET_ITEM(key, 1));
            if (item == NULL || PyList_Append(list, item) != 0)
                PyErr_Clear();
            Py_XDECREF(item);
        }
    }
    Py_XDECREF(rows);
    return list;
}

PyObject *tables(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Table nodes = {0};
    uint64_t node_slots = 0, node_steps = 0;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        nodes.count += thread->nodes.count;
        node_slots += table_slots(&thread->nodes);
        node_steps += table_steps(&thread->nodes);
    }
    return Py_BuildValue(
        "{s(KKK)s(KKK)s(KKK)sK}", "routines", (unsigned long long)routines.count,
        (unsigned long long)table_slots(&routines), (unsigned long long)table_steps(&routines),
        "retired", (unsigned long long)retired.count, (unsigned long long)table_slots(&retired),
        (unsigned long long)table_steps(&retired), "nodes", (unsigned long long)nodes.count,
        (unsigned long long)node_slots, (unsigned long long)node_steps, "rekeyed",
        (unsigned long long)nodes_rekeyed);
}
