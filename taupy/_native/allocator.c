/* See allocator.h. */
#include "allocator.h"
#include "events.h"
#include "gil.h"
#include "memory.h"
#include "process.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define TIMES_OF_COST 200 /* interval between readings, in multiples of a reading's cost */
#define READINGS_PER_SAMPLE 5
#define ALONE_SAMPLES 100 /* readings without the main thread before other threads' are compared */

static const char GROWTH[] = "PyTorch CUDA Memory Growth", UNIT[] = "KiB";
static const char DOUBT[] = "PyTorch CUDA Memory Growth in Doubt";
static const char BETWEEN[] = "PyTorch CUDA Memory Growth between Looks";
static const char RELEASED[] = "PyTorch CUDA Memory Given Back";
static const char PEAK[] = "PyTorch CUDA Memory Peak";

static uint64_t unused_ticks; /* the last time that CUDA was found unused */
static uint64_t cost_ticks;   /* of the last reading */
static struct {
    AllocatorRecord *record; /* in the part of `generation` */
    uint64_t generation;
    uint64_t allocated, peak, compared_ticks; /* at the last comparison; 0: none yet */
} devices[ALLOCATOR_DEVICES];

static int is_main(const Thread *thread) { return thread->native_id == (uint64_t)getpid(); }

/* Borrowed; NULL, without an exception, if there is no such module or name. None of the program's
 * code runs. */
static PyObject *in_module(const char *module, const char *name)
{
    PyObject *modules = python_is_there() ? PyImport_GetModuleDict() : NULL;
    if (modules == NULL || !PyDict_Check(modules))
        return NULL;
    PyObject *found = PyDict_GetItemString(modules, module);
    if (found == NULL || !PyModule_Check(found))
        return NULL;
    return PyDict_GetItemString(PyModule_GetDict(found), name);
}

static int uses_cuda(void) { return in_module("torch.cuda", "_initialized") == Py_True; }

/* A new reference. Only C functions are called, which run none of the program's code. */
static PyObject *called(const char *name, PyObject *argument)
{
    PyObject *function = in_module("torch._C", name);
    if (function == NULL || !PyCFunction_Check(function))
        return NULL;
    return argument != NULL ? PyObject_CallOneArg(function, argument)
                            : PyObject_CallNoArgs(function);
}

/* -1 if there is no such entry. */
static long long number(PyObject *stats, const char *what, const char *which)
{
    const char *keys[] = {what, "all", which};
    PyObject *found = stats;
    for (int i = 0; i < 3 && found != NULL; i++)
        found = PyDict_Check(found) ? PyDict_GetItemString(found, keys[i]) : NULL;
    return found != NULL && PyLong_Check(found) ? PyLong_AsLongLong(found) : -1;
}

static int take(PyObject *stats, AllocatorRecord *read)
{
    long long taken[] = {
        number(stats, "allocated_bytes", "current"), number(stats, "reserved_bytes", "current"),
        number(stats, "allocated_bytes", "peak"), number(stats, "reserved_bytes", "peak")};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (taken[i] < 0)
            return -1;
    *read = (AllocatorRecord){(uint64_t)taken[0], (uint64_t)taken[1], (uint64_t)taken[2],
                              (uint64_t)taken[3]};
    return 0;
}

/* Whether the allocator may be queried: not in a process forked after CUDA was initialised, where
 * that may be unsafe. */
static int may_ask(void)
{
    PyObject *in_bad_fork = called("_cuda_isInBadFork", NULL);
    Py_XDECREF(in_bad_fork);
    return in_bad_fork == Py_False;
}

/* The calling thread's device, or -1 if unavailable. */
static long device_read(AllocatorRecord *read)
{
    long device = -1;
    PyObject *ordinal = may_ask() ? called("_cuda_getDevice", NULL) : NULL;
    PyObject *stats = ordinal != NULL ? called("_cuda_memoryStats", ordinal) : NULL;
    if (stats != NULL && PyLong_Check(ordinal) && take(stats, read) == 0)
        device = PyLong_AsLong(ordinal);
    Py_XDECREF(stats);
    Py_XDECREF(ordinal);
    return device < ALLOCATOR_DEVICES ? device : -1;
}

/* The same, safe at any point of the program: garbage collection, which could run the program's
 * code, is disabled meanwhile. */
static long device_read_aside(AllocatorRecord *read)
{
    int saved = errno, collects = PyGC_Disable();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    long device = device_read(read);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    if (collects)
        PyGC_Enable();
    errno = saved;
    return device;
}

/* Write the reading into the part. */
static void keep(long device, const AllocatorRecord *read)
{
    if (devices[device].generation != generation) {
        Block *block = part_block(part, BLOCK_ALLOCATOR, (uint32_t)device, sizeof *read);
        devices[device].record = block != NULL ? (AllocatorRecord *)(block + 1) : NULL;
        devices[device].generation = generation;
    }
    if (devices[device].record != NULL)
        *devices[device].record = *read;
}

static void note(long device, const char *what, uint64_t bytes, Thread *thread)
{
    char name[64];
    snprintf(name, sizeof name, "PyTorch CUDA Memory %s, GPU %ld", what, device);
    sample(name, UNIT, (double)bytes / 1024, thread, NULL);
}

/* Whether nothing else has been entered below the node since `from`. */
static int is_alone(const Node *node, uint64_t from)
{
    return node->parent != NULL && node->t0 <= from && node->last->t0 <= from;
}

static void charge(Thread *thread, Node *node, double kib, uint64_t from)
{
    int is_known = node != NULL && is_alone(node, from);
    Node *since = node != NULL ? open_since(node, from) : NULL;
    sample(is_known ? GROWTH : BETWEEN, UNIT, kib, thread, since);
    if (is_known && memory_has_others(thread))
        sample(DOUBT, UNIT, kib, thread, since);
}

static void release(Thread *thread, Node *node, double kib, uint64_t from)
{
    int is_known = node != NULL && !memory_has_others(thread);
    sample(RELEASED, UNIT, kib, thread, is_known ? open_since(node, from) : NULL);
}

/* Record growth or release since the last comparison. `node` NULL: the open routines are
 * unknown. */
static void compare(Thread *thread, Node *node, long device, const AllocatorRecord *read)
{
    uint64_t from = devices[device].compared_ticks ? devices[device].compared_ticks : unused_ticks;
    double kib = ((double)read->allocated - (double)devices[device].allocated) / 1024;
    if (kib > 0)
        charge(thread, node, kib, from);
    else if (kib < 0)
        release(thread, node, -kib, from);
    if (read->allocated_peak > devices[device].peak)
        sample(PEAK, UNIT, (double)read->allocated_peak / 1024, thread,
               node != NULL ? open_since(node, from) : NULL);
    devices[device].allocated = read->allocated;
    devices[device].peak = read->allocated_peak;
    devices[device].compared_ticks = clock_ticks();
}

/* Keep a reading. Only the main thread's are charged to routines: those of other threads, such as a
 * DataLoader's or a progress bar's, do not allocate. */
static void take_note(Thread *thread, Node *node, long device, const AllocatorRecord *read)
{
    uint64_t compared = devices[device].compared_ticks;
    keep(device, read);
    note(device, "Allocated", read->allocated, thread);
    note(device, "Reserved", read->reserved, thread);
    if (is_main(thread))
        compare(thread, node, device, read);
    else if (clock_ticks() - compared > ALONE_SAMPLES * sample_ticks)
        compare(thread, NULL, device, read);
}

static WindowWatch watch;

static void look(Thread *thread, Node *node, Node *begins, uint64_t now)
{
    (void)begins;
    AllocatorRecord read;
    if (!holds_gil() || (!is_main(thread) && now < watch.next_ticks + sample_ticks))
        return; /* autograd's nodes and CUDA calls start without the GIL */
    int is_used = uses_cuda();
    long device = is_used ? device_read_aside(&read) : -1;
    if (device >= 0)
        take_note(thread, node, device, &read);
    uint64_t after = clock_ticks(), cost = after - now;
    /* A single long reading was probably interrupted by other processes. */
    uint64_t rest = (cost < cost_ticks ? cost : cost_ticks) * TIMES_OF_COST;
    cost_ticks = cost;
    uint64_t apart = sample_ticks / READINGS_PER_SAMPLE;
    watch.next_ticks = after + (rest > apart ? rest : apart);
    if (!is_used)
        unused_ticks = after;
}

void allocator_start(void)
{
    memset(devices, 0, sizeof devices);
    unused_ticks = cost_ticks = 0;
    watch.look = look;
    watch.next_ticks = sample_ticks ? 0 : UINT64_MAX;
    window_watch_add(&watch);
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    allocator_start();
}

Listener allocator_listener = {.on_fork = on_fork};
