/* Selecting the events to count, and trying them out.
 *
 * `counters_try` runs a known number of operations between two readings, so that the launcher can
 * tell before the program starts whether counters are reliable here, how to read them, and what a
 * reading costs. */
#define _GNU_SOURCE
#include "counters_python.h"
#include "clock.h"
#include "counters.h"
#include "known_work.h"
#include "process.h"
#include <sys/mman.h>
#include <unistd.h>

int counters_wanted(PyObject *list)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_GET_SIZE(list) : -1;
    counter_event_count = counter_metric_count = 0;
    if (n < 0 || n > COUNTER_EVENTS_AT_MOST) {
        PyErr_Format(PyExc_ValueError, "counters are a list of at most %d events",
                     COUNTER_EVENTS_AT_MOST);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        CounterEvent *event = &counter_events[i];
        unsigned long long config, weight;
        unsigned type, metric;
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyTuple_Check(item) ||
            !PyArg_ParseTuple(item, "IKKI", &type, &config, &weight, &metric))
            return -1;
        if (metric >= COUNTER_METRICS_AT_MOST) {
            PyErr_Format(PyExc_ValueError, "at most %d metrics of counters",
                         COUNTER_METRICS_AT_MOST);
            return -1;
        }
        *event = (CounterEvent){type, metric, config, weight};
        if ((int)metric >= counter_metric_count)
            counter_metric_count = (int)metric + 1;
    }
    counter_event_count = (int)n;
    return 0;
}

const char counters_try_doc[] = PyDoc_STR(
"counters_try(events, work, count, rounds, rdpmc) -> dict | None\n\n"
"Count known work in this thread. `work`: none, scalar, fma256, fma512, lines, pages; None if\n"
"this processor cannot do it. Gives values (one list of events' values a round), enabled_ns,\n"
"running_ns, rdpmc (was it used?), ns (cost of a reading). Not while the engine is running.\n"
"OSError: the event at position `filename` cannot be opened.");

PyObject *counters_try(PyObject *module, PyObject *args)
{
    static const char *const names[] = {"none", "scalar", "fma256", "fma512", "lines", "pages"};
    (void)module;
    PyObject *list, *rounds = NULL;
    const char *name;
    unsigned long long count;
    int times, rdpmc, work = -1, failed = 0;
    if (!PyArg_ParseTuple(args, "OsKip", &list, &name, &count, &times, &rdpmc))
        return NULL;
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0)
            work = i;
    if (active || work < 0) {
        PyErr_Format(PyExc_ValueError, "%s", active ? "the engine is running" : "unknown work");
        return NULL;
    }
    if (!known_work_possible((enum KnownWork)work))
        Py_RETURN_NONE;
    if (counters_wanted(list) != 0)
        return NULL;
    size_t size = work == WORK_LINES ? count * 64 : work == WORK_PAGES ? count * 4096 : 4096;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        counter_event_count = 0;
        return PyErr_NoMemory();
    }
    madvise(memory, size, MADV_NOHUGEPAGE);
    counter_rdpmc_wanted = rdpmc;
    CounterGroup *group = counter_open(0, &failed);
    if (group == NULL) {
        PyObject *where = PyLong_FromLong(failed);
        munmap(memory, size);
        counter_event_count = 0;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, where);
        Py_XDECREF(where);
        return NULL;
    }
    uint64_t before[COUNTER_EVENTS_AT_MOST], after[COUNTER_EVENTS_AT_MOST];
    int broken = 0;
    rounds = PyList_New(0);
    for (int round = 0; rounds != NULL && round < times && !broken; round++) {
        if (work == WORK_LINES)
            known_lines_prepare(memory, count);
        else if (work == WORK_PAGES)
            madvise(memory, size, MADV_DONTNEED);
        broken |= counter_values(group, 1, before);
        known_work((enum KnownWork)work, count, memory);
        broken |= counter_values(group, 1, after);
        PyObject *row = PyList_New(counter_event_count);
        for (int i = 0; row != NULL && i < counter_event_count; i++)
            PyList_SET_ITEM(row, i, PyLong_FromUnsignedLongLong(after[i] - before[i]));
        if (row == NULL || PyList_Append(rounds, row) != 0)
            Py_CLEAR(rounds);
        Py_XDECREF(row);
    }
    int64_t best = INT64_MAX;
    for (int round = 0; round < 20; round++) {
        int64_t start = clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < 50; i++)
            counter_values(group, 1, after);
        int64_t took = clock_ns(CLOCK_MONOTONIC) - start;
        best = took < best ? took : best;
    }
    uint64_t data[3 + COUNTER_EVENTS_AT_MOST] = {0};
    broken |= read(group->descriptors[0], data, sizeof data) <= 0;
    int used = group->by_rdpmc;
    munmap(memory, size);
    counter_close(group, 0);
    counter_event_count = counter_metric_count = 0;
    if (rounds == NULL || broken) {
        Py_XDECREF(rounds);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_OSError, "counters were opened, but cannot be read");
        return NULL;
    }
    return Py_BuildValue("{sNsKsKsOsd}", "values", rounds, "enabled_ns",
                         (unsigned long long)data[1], "running_ns", (unsigned long long)data[2],
                         "rdpmc", used ? Py_True : Py_False, "ns", (double)best / 50.0);
}
