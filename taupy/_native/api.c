/* Timers, events, metadata and snapshots of the in-code API. */
#include "api.h"
#include "awaits.h"
#include "carry.h"
#include "events.h"
#include "gpu.h"
#include "hooks.h"
#include "phases.h"
#include "process.h"
#include "steps.h"
#include "steps_window.h"
#include "thread.h"
#include "timers.h"
#include "timing.h"
#include <unistd.h>

/* Begin or end counting of a whole region on the GPU. */
static void gpu_region(const NamedTimer *timer, int begins)
{
    void (*region)(int) = host_read(&taupy_gpu_host, region);
    if (timer->region == REGION_COUNTED && region != NULL) {
        Py_BEGIN_ALLOW_THREADS
        region(begins);
        Py_END_ALLOW_THREADS
    }
}

PyObject *timer_enter(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *group;
    if (!PyArg_ParseTuple(args, "ss", &name, &group))
        return NULL;
    Thread *thread = thread_here();
    if (thread == NULL || group_disabled(group))
        Py_RETURN_NONE;
    void *key = timer_key(name, group);
    if (key == NULL) { /* out of memory: not the program's concern */
        PyErr_Clear();
        call_fold(thread);
        Py_RETURN_NONE;
    }
    if (((NamedTimer *)KEY_POINTER(key))->region)
        TELL(on_region);
    NamedTimer *timer = KEY_POINTER(key);
    if (timer->range == RANGE_NONE && !timer->is_routine && !timer->brief && !timer->import) {
        timer->range = RANGE_TIMER;
        timers_used = 1;
    }
    await_begin(key);
    enter(key, 0, Py_None, NULL, 1);
    gpu_region(KEY_POINTER(key), 1);
    Py_RETURN_NONE;
}

/* A stop that does not end the innermost timer. */
static void overlap(const char *name)
{
    part->overlaps++;
    timer_note(name, NULL);
}

PyObject *timer_leave(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *group;
    if (!PyArg_ParseTuple(args, "ss", &name, &group))
        return NULL;
    Thread *thread = thread_here();
    if (thread == NULL || group_disabled(group))
        Py_RETURN_TRUE;
    if (thread->cursor == &thread->hidden) {
        unhide(thread);
        Py_RETURN_TRUE;
    }
    void *key = timer_key(name, group);
    if (key == NULL) {
        PyErr_Clear();
        overlap(name);
        Py_RETURN_FALSE;
    }
    await_end(key, name);
    gpu_region(KEY_POINTER(key), 0);
    if (((NamedTimer *)KEY_POINTER(key))->region)
        TELL(on_region);
    Node *node = thread->cursor;
    while (node->parent != NULL && node->key != key)
        node = node->parent;
    if (node->parent == NULL) {
        overlap(name);
        Py_RETURN_FALSE;
    }
    if (node != thread->cursor) {
        /* Timers started later are closed with it; routines go on. */
        for (Node *open = thread->cursor; open != node; open = open->parent)
            if (key_is_routine(open->key)) {
                int has_ended = range_close(thread, node);
                if (!has_ended)
                    overlap(name);
                return PyBool_FromLong(has_ended);
            }
        if (!key_is_brief(thread->cursor->key))
            overlap(name);
        close_down_to(thread, node, clock_ticks());
        steps_window_look(thread, NULL);
        Py_RETURN_TRUE;
    }
    leave(key, 1);
    Py_RETURN_TRUE;
}

PyObject *step_begins(PyObject *module, PyObject *args)
{
    (void)module;
    int is_validation;
    if (!PyArg_ParseTuple(args, "p", &is_validation))
        return NULL;
    Thread *thread = thread_here();
    if (thread != NULL) {
        step_begin(thread, is_validation ? STEP_VALIDATION : STEP_TRAINING);
        steps_window_look(thread, NULL);
    }
    Py_RETURN_NONE;
}

PyObject *step_ends(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Thread *thread = thread_here();
    if (thread != NULL) {
        step_end(thread);
        steps_window_look(thread, NULL);
    }
    Py_RETURN_NONE;
}

PyObject *note_event(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *unit;
    double value;
    if (!PyArg_ParseTuple(args, "ssd", &name, &unit, &value))
        return NULL;
    Thread *thread = thread_here();
    if (thread != NULL) {
        Node *node = visible(thread);
        if (sample(name, unit, value, thread, node->parent == NULL ? NULL : node) != 0)
            part->calls_over_limit++;
        int work = step_work_of(name, unit);
        if (work >= 0)
            step_work_add(work, value);
        else
            step_value(thread, name, value);
    }
    Py_RETURN_NONE;
}

PyObject *set_metadata(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &value))
        return NULL;
    if (thread_here() != NULL)
        metadata_write(name, value);
    Py_RETURN_NONE;
}

PyObject *set_node(PyObject *module, PyObject *number)
{
    (void)module;
    long node = PyLong_AsLong(number);
    if (node == -1 && PyErr_Occurred())
        return NULL;
    if (node < 0) {
        PyErr_SetString(PyExc_ValueError, "a node number is 0 or more");
        return NULL;
    }
    if (thread_here() != NULL)
        part->node = node;
    Py_RETURN_NONE;
}

PyObject *set_group(PyObject *module, PyObject *args)
{
    (void)module;
    const char *group;
    int enabled;
    if (!PyArg_ParseTuple(args, "sp", &group, &enabled))
        return NULL;
    if (!active)
        Py_RETURN_NONE;
    if (strcmp(group, "PYTHON") == 0) {
        if (enabled == python_disabled) /* else already in that state */
            hooks_python_enabled(enabled);
    } else if (group_enable(group, enabled) != 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *take_snapshot(PyObject *module, PyObject *label)
{
    (void)module;
    static unsigned count;
    char path[4096], gpu_path[4096], line[4096];
    const char *text = PyUnicode_AsUTF8(label), *missing = NULL;
    if (text == NULL)
        return NULL;
    if (thread_here() == NULL || run_folder == NULL)
        Py_RETURN_NONE;
    unsigned number = ++count;
    int is_timed = timer_begin(thread_here(), timer_key("(snapshot)", OVERHEAD_GROUP));
    snprintf(path, sizeof path, "%s/%ld-%u.snapshot", run_folder, (long)getpid(), number);
    snprintf(gpu_path, sizeof gpu_path, "%s/%ld-%u.gpucopy", run_folder, (long)getpid(), number);
    /* Copy the GPU's part first, so that ours contains everything it refers to. */
    Py_BEGIN_ALLOW_THREADS
    missing = gpu_snapshot(gpu_path);
    Py_END_ALLOW_THREADS
    if (thread_here() == NULL)
        Py_RETURN_NONE; /* the engine has been stopped meanwhile */
    if (missing != NULL) {
        snprintf(line, sizeof line, "GPU work is not in the snapshot '%.200s': %s", text, missing);
        metadata_write("taupy.health.snapshot_gpu", line);
    }
    metadata_write("taupy.snapshot", text);
    TELL(on_finish, 0);
    pthread_mutex_lock(&ended_lock); /* ending threads wait: no thread is copied half-finished */
    int failed = part_copy(part, path, PART_SNAPSHOT);
    pthread_mutex_unlock(&ended_lock);
    if (is_timed)
        leave(timer_key("(snapshot)", OVERHEAD_GROUP), 1);
    if (failed)
        metadata_write("taupy.health.snapshot", "a snapshot could not be written");
    Py_RETURN_NONE;
}
