/* The compiled engine's Python face: start, stop, and what the in-code API calls.
 *
 * All state is the process's, in static variables: the program may import this module
 * again after boot has taken it out of sys.modules, and must find the same engine. */
#define _GNU_SOURCE
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <stddef.h>
#include "hooks_312.c"
#include "counters_python.c"
#include "ranges.c"

static NamedTimer **timers;
static size_t timers_count;
static PyObject *timer_keys; /* (name, group) -> key as an int */
static PyObject *disabled_groups;
static int installed_at_exit;

/* ------------------------------------------------------------------ options */

static PyObject *option(PyObject *options, const char *name)
{
    return PyDict_GetItemString(options, name); /* borrowed; NULL if absent */
}

static long long int_option(PyObject *options, const char *name, long long otherwise)
{
    PyObject *value = option(options, name);
    return value == NULL || value == Py_None ? otherwise : PyLong_AsLongLong(value);
}

/* A list of str or bytes as C strings, ended by NULL; NULL for an absent or empty list. */
static char **strings_option(PyObject *options, const char *name)
{
    PyObject *list = option(options, name);
    if (list == NULL || !PyList_Check(list) || PyList_GET_SIZE(list) == 0)
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **strings = calloc((size_t)n + 1, sizeof *strings);
    for (Py_ssize_t i = 0; strings != NULL && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        strings[i] = PyBytes_Check(item) ? strdup(PyBytes_AS_STRING(item)) : text_of(item);
    }
    return strings;
}

static void open_ended_thread_key(void)
{
    static int made;
    if (!made) {
        pthread_key_create(&thread_key, thread_ended);
        pthread_atfork(NULL, NULL, fork_child);
        made = 1;
    }
}

/* The further metrics: the thread's CPU time, then counters, read at calls or at regions. */
static int metrics_start(PyObject *options)
{
    PyObject *list = option(options, "counters");
    cpu_time_wanted = int_option(options, "cpu_time", 0) != 0;
    counter_event_count = counter_metric_count = 0;
    if (list != NULL && counters_wanted(list) != 0)
        return -1;
    metric_count = cpu_time_wanted + counter_metric_count;
    if (metric_count > METRICS_AT_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d further metrics, got %d", METRICS_AT_MOST,
                     metric_count);
        return -1;
    }
    call_metrics = int_option(options, "counters_at_calls", 0) ? metric_count : cpu_time_wanted;
    counter_rdpmc_wanted = int_option(options, "counters_by_rdpmc", 0) != 0;
    node_stride = metric_count ? 2 : 1;
    whole_wanted = int_option(options, "counters_whole", 0) != 0;
    natives = NULL;
    natives_nlink = 0;
    return 0;
}

static int range_push(const char *name);
static void range_pop(void);

PyDoc_STRVAR(start_doc,
"start(options: dict) -> None\n\n"
"Begin to record. Options: run_folder (bytes; absent: memory only), spill_prefix (bytes; of the\n"
"path of a part that the folder has no room for), root_pid, ancestors\n"
"(bytes: process ids up to the root's), c_calls, depth, include, exclude, our_files, throttle, throttle_calls, throttle_ns_per_call, max_callpaths,\n"
"cpu_time, counters [(type, config, weight, metric)], counters_at_calls, counters_by_rdpmc,\n"
"counters_whole (once more, over all threads), "
"blas (bytes: the library that tells of operations), sample_ms, wait_for_main, helper, quiet,\n"
"early (ticks, ns), storer_argv, storer_env,\n"
"gpu_collector (bytes: the collector's path; absent: no GPU), gpu_libraries, gpu_trace,\n"
"gpu_flush_ms, gpu_end_ms, gpu_save (bytes: a folder for CUPTI's own buffers).");

static PyObject *start(PyObject *module, PyObject *options)
{
    (void)module;
    if (!PyDict_Check(options)) {
        PyErr_SetString(PyExc_TypeError, "start() takes a dict of options");
        return NULL;
    }
    if (active) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is running already");
        return NULL;
    }
    clock_choose();
    open_ended_thread_key();
    generation++;
    PyObject *folder = option(options, "run_folder");
    free(run_folder);
    run_folder = folder != NULL && PyBytes_Check(folder) ? strdup(PyBytes_AS_STRING(folder)) : NULL;
    PyObject *spill = option(options, "spill_prefix");
    free(spill_prefix);
    spill_prefix = spill != NULL && PyBytes_Check(spill) ? strdup(PyBytes_AS_STRING(spill)) : NULL;
    root_pid = (pid_t)int_option(options, "root_pid", 0);
    PyObject *above = option(options, "ancestors");
    free(ancestors);
    ancestors = above != NULL && PyBytes_Check(above) ? strdup(PyBytes_AS_STRING(above)) : NULL;
    record_c_calls = int_option(options, "c_calls", 0) != 0;
    depth_limit = (uint64_t)int_option(options, "depth", 0);
    include_patterns = strings_option(options, "include");
    exclude_patterns = strings_option(options, "exclude");
    our_files = strings_option(options, "our_files");
    throttling = int_option(options, "throttle", 0) != 0;
    throttle_calls = (uint64_t)int_option(options, "throttle_calls", 100000);
    callpath_limit = (uint64_t)int_option(options, "max_callpaths", 8 << 20);
    if (metrics_start(options) != 0)
        return NULL;
    helper = int_option(options, "helper", 0) != 0;
    waiting = int_option(options, "wait_for_main", 0) != 0;
    PyObject *collector = option(options, "gpu_collector");
    free(gpu_collector);
    gpu_collector = collector != NULL && PyBytes_Check(collector)
                        ? strdup(PyBytes_AS_STRING(collector))
                        : NULL;
    taupy_gpu_host.libraries = strings_option(options, "gpu_libraries");
    PyObject *save = option(options, "gpu_save");
    taupy_gpu_host.save_folder =
        save != NULL && PyBytes_Check(save) ? strdup(PyBytes_AS_STRING(save)) : NULL;
    taupy_gpu_host.trace = int_option(options, "gpu_trace", 0) != 0;
    taupy_gpu_host.flush_ms = (uint32_t)int_option(options, "gpu_flush_ms", 1000);
    taupy_gpu_host.end_ms = (uint32_t)int_option(options, "gpu_end_ms", 30000);
    storer_argv = strings_option(options, "storer_argv");
    storer_env = strings_option(options, "storer_env");
    has_first_stderr = !int_option(options, "quiet", 0) && fstat(2, &first_stderr) == 0;
    ClockPair now = clock_pair();
    PyObject *pair = option(options, "early");
    early = now;
    if (pair != NULL && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        early.ticks = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(pair, 0));
        early.ns = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
    }
    /* Ticks a millisecond: from the launcher's reading if there is one. */
    double ticks_per_ms = 1e6;
    if (clock_uses_tsc) {
        ClockPair before = early;
        if (now.ns - early.ns < 2000000) {
            before = now;
            while (clock_ns(CLOCK_MONOTONIC) - before.ns < 2000000)
                ;
            now = clock_pair();
            if (pair == NULL)
                early = before;
        }
        ticks_per_ms = (double)(now.ticks - before.ticks) * 1e6 / (double)(now.ns - before.ns);
    }
    throttle_ticks =
        (uint64_t)((double)int_option(options, "throttle_ns_per_call", 10000) * ticks_per_ms / 1e6);
    sample_ticks = (uint64_t)((double)int_option(options, "sample_ms", 0) * ticks_per_ms);
    long_call_ticks = counter_event_count ? (uint64_t)ticks_per_ms : UINT64_MAX;
    resident_before = 0;
    if (PyErr_Occurred())
        return NULL;
    for (uint64_t i = 0; routines.slots != NULL && i <= routines.mask; i++)
        if (routines.slots[i].entry != NULL) /* selection may have changed; names stay */
            ((Routine *)routines.slots[i].entry)->flags &= ROUTINE_OURS | ROUTINE_PHASE;
    codes_watch();
    PyObject *blas = option(options, "blas");
    if (blas != NULL && PyBytes_Check(blas) && operations_start(PyBytes_AS_STRING(blas)) != 0) {
        PyErr_Format(PyExc_OSError, "%s", dlerror());
        return NULL;
    }
    thread_count = 0;
    forked = 0;
    if (part_begin() != 0)
        return PyErr_NoMemory();
    active = 1;
    if (hooks_install() != 0) {
        active = 0;
        return NULL;
    }
    if (run_folder != NULL) {
        taupy_gpu_host.range_push = range_push;
        taupy_gpu_host.range_pop = range_pop;
        taupy_gpu_host.range_start = range_start;
        taupy_gpu_host.range_end = range_end;
        taupy_gpu_host.mark = range_mark;
        gpu_arm();
        if (!installed_at_exit) {
            installed_at_exit = 1;
            Py_AtExit(python_ended);
            on_exit(process_exits, NULL);
            wrap_functions();
            wrap_setprofile();
        }
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(stop_doc, "stop() -> None\n\nStop recording and close the part; nothing is stored.");

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (!active)
        Py_RETURN_NONE;
    gpu_end_released(1);
    if (hooks_remove() != 0)
        return NULL;
    uint64_t now = clock_ticks();
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        if (visible(thread)->parent != NULL) {
            Node *outermost = visible(thread);
            while (outermost->parent->parent != NULL)
                outermost = outermost->parent;
            uint64_t repairs = part->repairs;
            close_down_to(thread, outermost, now);
            part->repairs = repairs;
            phases_closed(thread);
        }
    finish(0, 0, PART_ENDED);
    active = 0;
    operations_stop();
    counters_stop();
    this_thread = NULL; /* other threads' stay, but the hooks that use them are gone */
    pthread_setspecific(thread_key, NULL);
    threads = thread_hint = NULL;
    Py_RETURN_NONE;
}

static PyObject *is_active(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(active);
}

static PyObject *describe(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    clock_choose();
    return Py_BuildValue("{ssss}", "hook", hooks_name(), "clock",
                         clock_uses_tsc ? "time-stamp counter" : "CLOCK_MONOTONIC");
}

static PyObject *read_clock(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    clock_choose();
    ClockPair now = clock_pair();
    return Py_BuildValue("KL", (unsigned long long)now.ticks, (long long)now.ns);
}

/* ------------------------------------------------------------------ in-code API */

static void *timer_key(const char *name, const char *group)
{
    if (timer_keys == NULL && (timer_keys = PyDict_New()) == NULL)
        return NULL;
    PyObject *pair = Py_BuildValue("ss", name, group);
    PyObject *known = pair ? PyDict_GetItemWithError(timer_keys, pair) : NULL;
    void *key = known ? PyLong_AsVoidPtr(known) : NULL;
    if (pair != NULL && known == NULL && !PyErr_Occurred()) {
        NamedTimer *timer = aligned_alloc(16, 32);
        NamedTimer **more = realloc(timers, (timers_count + 1) * sizeof *more);
        if (timer == NULL || more == NULL) {
            free(timer);
            PyErr_NoMemory();
        } else {
            timer->name = strdup(name);
            timer->group = strdup(group);
            int recorded = strcmp(group, PHASE_GROUP) == 0;
            timer->range = recorded ? 2 : strcmp(group, "PHASE|NVTX") == 0;
            timer->region =
                strcmp(group, "REGION") == 0 ? 2 : recorded || strcmp(group, "PHASE") == 0;
            timers = more;
            timers[timers_count++] = timer;
            key = (char *)timer + KEY_TIMER;
            known = PyLong_FromVoidPtr(key);
            if (known == NULL || PyDict_SetItem(timer_keys, pair, known) != 0)
                key = NULL;
            Py_XDECREF(known);
        }
    }
    Py_XDECREF(pair);
    return key;
}

static int group_disabled(const char *group)
{
    if (disabled_groups == NULL)
        return 0;
    PyObject *name = PyUnicode_FromString(group);
    int found = name ? PySet_Contains(disabled_groups, name) : 0;
    Py_XDECREF(name);
    return found > 0;
}

static Thread *thread_here(void)
{
    if (!active || waiting)
        return NULL;
    return this_thread != NULL ? this_thread : thread_new();
}

/* Counters of GPUs over whole regions. */
static void gpu_region(const NamedTimer *timer, int begins)
{
    if (timer->region == 2 && taupy_gpu_host.region != NULL) {
        Py_BEGIN_ALLOW_THREADS
        taupy_gpu_host.region(begins);
        Py_END_ALLOW_THREADS
    }
}

static PyObject *timer_enter(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *group;
    if (!PyArg_ParseTuple(args, "ss", &name, &group))
        return NULL;
    if (thread_here() == NULL || group_disabled(group))
        Py_RETURN_NONE;
    void *key = timer_key(name, group);
    if (key == NULL)
        return NULL;
    if (((NamedTimer *)KEY_POINTER(key))->region)
        region_boundary();
    enter(key, 0, Py_None, NULL, 1);
    gpu_region(KEY_POINTER(key), 1);
    Py_RETURN_NONE;
}

static PyObject *timer_leave(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *group;
    if (!PyArg_ParseTuple(args, "ss", &name, &group))
        return NULL;
    Thread *thread = thread_here();
    if (thread == NULL || group_disabled(group))
        Py_RETURN_TRUE;
    void *key = timer_key(name, group);
    if (key == NULL)
        return NULL;
    if (thread->cursor == &thread->hidden) {
        unhide(thread);
        Py_RETURN_TRUE;
    }
    gpu_region(KEY_POINTER(key), 0);
    if (((NamedTimer *)KEY_POINTER(key))->region)
        region_boundary();
    /* Open here, with no routine in between that has not returned? */
    Node *node = thread->cursor;
    while (node->parent != NULL && node->key != key)
        node = node->parent;
    if (node->parent == NULL) {
        part->overlaps++;
        Py_RETURN_FALSE;
    }
    if (node != thread->cursor) {
        /* Timers that began later are closed with it; a routine cannot be. */
        for (Node *open = thread->cursor; open != node; open = open->parent)
            if (KEY_KIND(open->key) != KEY_TIMER) {
                part->overlaps++;
                Py_RETURN_FALSE;
            }
        part->overlaps++;
        close_down_to(thread, node, clock_ticks());
        Py_RETURN_TRUE;
    }
    leave(key, 1);
    Py_RETURN_TRUE;
}

/* NVTX's ranges. 0: the phase is open. Anything else: this thread has no business here. */
static int range_push(const char *name)
{
    static unsigned names;
    int saved = errno, failed = -1;
    if (!active || waiting || !Py_IsInitialized() || !PyGILState_Check())
        return -1;
    Thread *thread = thread_here();
    if (thread == NULL || thread->cursor == &thread->hidden)
        return -1;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    size_t before = timers_count;
    void *key = names < RANGE_NAMES_AT_MOST ? timer_key(name, "PHASE|NVTX")
                                            : timer_key("(other NVTX ranges)", "PHASE|NVTX");
    if (key != NULL) {
        names += timers_count > before;
        if (timer_begin(thread, key)) {
            ranges_open++;
            failed = 0;
        }
    }
    PyErr_Restore(type, value, trace);
    errno = saved;
    return failed;
}

static void range_pop(void)
{
    Thread *thread = this_thread;
    if (!active || thread == NULL || !Py_IsInitialized() || !PyGILState_Check())
        return;
    ranges_open--;
    if (thread->cursor == &thread->hidden)
        return; /* the routine that it began in closes it */
    Node *inner = thread->cursor, *node = inner;
    int saved = errno, frames = 0;
    while (node->parent != NULL && is_range(node->key) != 1 && frames++ < RANGE_FRAMES)
        node = node->parent;
    if (node->parent == NULL || is_range(node->key) != 1)
        return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (node == inner)
        leave(node->key, 1);
    else { /* routines that have not returned go on where the range had begun */
        uint64_t now = clock_ticks();
        close_down_to(thread, node, now);
        go_on(thread, inner, node, 0, now);
    }
    PyErr_Restore(type, value, trace);
    errno = saved;
}

static PyObject *event(PyObject *module, PyObject *args)
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
    }
    Py_RETURN_NONE;
}

static PyObject *set_metadata(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &value))
        return NULL;
    if (thread_here() != NULL)
        metadata_write(name, value);
    Py_RETURN_NONE;
}

static PyObject *set_node(PyObject *module, PyObject *number)
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

static PyObject *set_group(PyObject *module, PyObject *args)
{
    (void)module;
    const char *group;
    int enabled;
    if (!PyArg_ParseTuple(args, "sp", &group, &enabled))
        return NULL;
    if (!active)
        Py_RETURN_NONE;
    if (strcmp(group, "PYTHON") == 0) {
        if (enabled == python_disabled) /* else it stands so already */
            hooks_python_enabled(enabled);
        Py_RETURN_NONE;
    }
    if (disabled_groups == NULL && (disabled_groups = PySet_New(NULL)) == NULL)
        return NULL;
    PyObject *name = PyUnicode_FromString(group);
    if (name == NULL ||
        (enabled ? PySet_Discard(disabled_groups, name) : PySet_Add(disabled_groups, name)) < 0) {
        Py_XDECREF(name);
        return NULL;
    }
    Py_DECREF(name);
    Py_RETURN_NONE;
}

static PyObject *snapshot(PyObject *module, PyObject *label)
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
    snprintf(path, sizeof path, "%s/%ld-%u.snapshot", run_folder, (long)getpid(), number);
    snprintf(gpu_path, sizeof gpu_path, "%s/%ld-%u.gpucopy", run_folder, (long)getpid(), number);
    /* The GPU's part first: whatever it names is in ours then. */
    Py_BEGIN_ALLOW_THREADS
    missing = gpu_snapshot(gpu_path);
    Py_END_ALLOW_THREADS
    if (thread_here() == NULL)
        Py_RETURN_NONE; /* somebody has stopped the engine meanwhile */
    if (missing != NULL) {
        snprintf(line, sizeof line, "GPU work is not in the snapshot '%.200s': %s", text, missing);
        metadata_write("taupy.health.snapshot_gpu", line);
    }
    metadata_write("taupy.snapshot", text);
    counters_finish();
    ranges_finish(0);
    pthread_mutex_lock(&ended_lock); /* whoever ends meanwhile waits: no thread is half there */
    int failed = part_copy(part, path, PART_SNAPSHOT);
    pthread_mutex_unlock(&ended_lock);
    if (failed)
        metadata_write("taupy.health.snapshot", "a snapshot could not be written");
    Py_RETURN_NONE;
}

/* What flat() sums a routine under: [0] its plain name, apart for timers and routines;
 * [1] a Python routine's full name. */
enum FlatKind { FLAT_ROUTINE, FLAT_TIMER, FLAT_FULL_NAME };

static Routine *routine_of(const Node *node) /* NULL: of the root */
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

/* Adds to the sums [calls, inclusive, exclusive] of a routine's name. Errors are left out. */
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

/* Add a node's sums. What is inside another of its name and kind adds no inclusive time. */
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

/* [(name, calls, inclusive_ns, exclusive_ns, kind)] of all threads so far, kind as FlatKind. Open
 * activations count up to now. */
static PyObject *flat(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *rows = PyDict_New();
    if (rows == NULL || !active || part == NULL)
        goto out;
    ClockPair now = clock_pair();
    double ns_per_tick = !clock_uses_tsc || now.ticks == early.ticks
                             ? 1.0
                             : (double)(now.ns - early.ns) / (double)(now.ticks - early.ticks);
    for (uint64_t i = 0; i < table_slots(&routines); i++) {
        Routine *routine = routines.slots[i].entry;
        if (routine == NULL || routine->generation != generation ||
            routines.slots[i].hash != key_hash(routine->node_key)) /* there are two entries */
            continue;
        for (uint64_t j = 0; j < routine->node_count; j++) {
            Node *node = routine->nodes[j];
            flat_node(rows, routine, node, (double)node->calls, (double)node->inclusive);
        }
    }
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        for (Node *node = thread_is_over(thread) ? &thread->root : visible(thread);
             node->parent != NULL; node = node->parent) {
            Routine *routine = routine_of(node);
            if (routine != NULL)
                flat_node(rows, routine, node, 0, (double)(now.ticks - node->t0));
        }
    {
        PyObject *list = PyList_New(0), *key, *row;
        Py_ssize_t at = 0;
        while (list != NULL && PyDict_Next(rows, &at, &key, &row)) {
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
        Py_DECREF(rows);
        return list;
    }
out:
    Py_XDECREF(rows);
    return PyList_New(0);
}

/* What the hash tables hold and what their searches cost, see table_steps. */
static PyObject *tables(PyObject *module, PyObject *unused)
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

static PyMethodDef methods[] = {
    {"start", start, METH_O, start_doc},
    {"stop", stop, METH_NOARGS, stop_doc},
    {"active", is_active, METH_NOARGS, "Is the engine recording?"},
    {"describe", describe, METH_NOARGS, "The hook and the clock in use, as a dict."},
    {"read_clock", read_clock, METH_NOARGS, "(ticks, CLOCK_MONOTONIC ns) of one moment."},
    {"timer_enter", timer_enter, METH_VARARGS, "timer_enter(name, group): begin a timer."},
    {"timer_leave", timer_leave, METH_VARARGS, "timer_leave(name, group) -> was it open?"},
    {"event", event, METH_VARARGS, "event(name, unit, value): sample a user event."},
    {"set_metadata", set_metadata, METH_VARARGS, "set_metadata(name, value)"},
    {"set_node", set_node, METH_O, "set_node(number): this process's node."},
    {"set_group", set_group, METH_VARARGS, "set_group(group, enabled)"},
    {"snapshot", snapshot, METH_O, "snapshot(label): keep a copy of the profile so far."},
    {"counters_try", counters_try, METH_VARARGS, counters_try_doc},
    {"tables", tables, METH_NOARGS, "{table: (entries, slots, steps), rekeyed}: for tests."},
    {"flat", flat, METH_NOARGS, "[(name, calls, inclusive_ns, exclusive_ns, kind)] so far."},
    {NULL, NULL, 0, NULL},
};

/* Nothing of a module object's own: what boot takes out of sys.modules is gone, and a later
 * import makes another one with the same engine behind it. */
static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "taupy._native.engine", "taupy's call-path engine.", 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_engine(void)
{
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_ImportError, "taupy's compiled engine needs an interpreter with a GIL");
    return NULL;
#endif
    return PyModuleDef_Init(&definition);
}
