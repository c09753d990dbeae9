/* The life of a measured process: its part, its threads, forks, and its end. */
#ifndef TAUPY_PROCESS_H
#define TAUPY_PROCESS_H

#include "gpu.c"
#include "natives.c"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int active;            /* started, and not stopped */
static int helper;            /* this process serves multiprocessing; its forks do not */
static int waiting;           /* recording begins with the program's first frame */
static pid_t root_pid;        /* the process that stores the run when it ends; 0: nobody */
static char *ancestors;       /* ids of the processes between this one and the root; NULL: none */
static char **storer_argv, **storer_env;
static struct stat first_stderr;
static int has_first_stderr;
static pthread_key_t thread_key;
static ClockPair early;       /* a reading of the launcher's, to know a tick's length early */

/* A fork's child begins a part of its own when it first enters or leaves anything. */
static int forked;
static ClockPair fork_pair;
static int64_t fork_epoch_ns;
static void **forked_path;    /* keys open in the forking thread, outermost first */
static uint64_t forked_depth, forked_hide;

static uint64_t process_start_time(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *field = strrchr(text, ')'); /* the name may hold blanks and brackets */
    for (int i = 0; field != NULL && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}

static int part_begin(void)
{
    char path[4096], spill[4096];
    ClockPair now = clock_pair();
    unsigned long long ticks = now.ticks;
    long pid = getpid();
    int has_path = run_folder != NULL && snprintf(path, sizeof path, "%s/%ld-%llx.part", run_folder,
                                                  pid, ticks) < (int)sizeof path;
    int has_spill = spill_prefix != NULL && snprintf(spill, sizeof spill, "%s%ld-%llx.part",
                                                     spill_prefix, pid, ticks) < (int)sizeof spill;
    part = part_open(has_path ? path : NULL, has_spill ? spill : NULL);
    if (part == NULL)
        return -1;
    part->pid = getpid();
    part->parent_pid = getppid();
    part->process_start = process_start_time();
    part->uses_tsc = (uint64_t)clock_uses_tsc;
    part->early_ticks = early.ticks;
    part->early_ns = early.ns;
    part->forked = (uint64_t)forked;
    part->helper = helper && !forked;
    part->start_ticks = forked ? fork_pair.ticks : now.ticks;
    part->start_ns = forked ? fork_pair.ns : now.ns;
    part->start_epoch_ns = forked ? fork_epoch_ns : clock_ns(CLOCK_REALTIME);
    part->last_ticks = now.ticks;
    part->metric_count = (uint64_t)metric_count;
    callpath_count = 0;
    if (ancestors != NULL && !forked)
        metadata_write("taupy.ancestors", ancestors);
    if (counter_event_count)
        metadata_write(cpu_time_wanted ? "taupy.counters.after_cpu_time" : "taupy.counters.at",
                       call_metrics == metric_count ? "calls" : "regions");
    return 0;
}

/* Something was seen to happen now; threads say so without the GIL, too. */
static void part_moment(uint64_t now)
{
    __atomic_store_n(&part->last_ticks, now, __ATOMIC_RELAXED);
}

static void thread_ended(void *value)
{
    Thread *thread = value;
    if (part == NULL || thread != this_thread)
        return;
    pthread_mutex_lock(&ended_lock);
    counters_end(thread);
    part_moment(thread->ended_ticks);
    pthread_mutex_unlock(&ended_lock);
}

/* Begin to record on this thread. NULL if that cannot be. Needs the GIL, or a process
 * in which nobody else runs (a fork's child, the end). */
static Thread *thread_new(void)
{
    int saved = errno;
    Thread *thread = NULL;
    if (part == NULL && part_begin() != 0) {
        active = 0;
        goto out;
    }
    Block *block = part_block(part, BLOCK_THREAD, (uint32_t)thread_count, sizeof(Thread));
    if (block == NULL) {
        part->calls_over_limit++;
        goto out;
    }
    thread = (Thread *)(block + 1);
    thread->index = thread_count++;
    thread->native_id = (uint64_t)syscall(SYS_gettid);
    thread->pthread = pthread_self();
    thread->stack_low = STACK_UNKNOWN;
    thread->cpu_start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (thread->native_id == (uint64_t)getpid())
        strcpy(thread->name, "MainThread");
    thread->root.last = thread->hidden.last = &nowhere;
    thread->root.calls = 1;
    thread->root.region = 1;
    thread->cursor = &thread->root;
    pthread_setspecific(thread_key, thread);
    this_thread = thread;
    if (counter_event_count)
        counters_begin(thread);
    if (metric_count)
        metrics_enter(thread, &thread->root);
    thread->root.t0 = clock_ticks();
    thread->next = threads;
    __atomic_store_n(&threads, thread, __ATOMIC_RELEASE); /* gpu_place looks without the GIL */
    if (forked_path != NULL) {
        /* The frames that were open when the parent forked are open here too. */
        for (uint64_t i = 0; i < forked_depth; i++) {
            Node *node = node_new(thread, thread->cursor, forked_path[i]);
            if (node == NULL)
                break;
            Routine *routine = routine_find(forked_path[i]);
            if (routine != NULL && routine->generation != generation)
                routine_record(routine);
            if (routine != NULL)
                routine_add_node(routine, node);
            if (metric_count)
                metrics_enter(thread, node);
            node->t0 = fork_pair.ticks;
            thread->cursor = node;
        }
        thread->root.t0 = fork_pair.ticks;
        if (forked_hide) {
            hide(thread);
            thread->hide = forked_hide;
        }
        free(forked_path);
        forked_path = NULL;
    }
out:
    errno = saved;
    return thread;
}

static void ranges_forked(void); /* ranges.h */
static void phases_forked(const Thread *thread); /* phases.h */

static void fork_child(void)
{
    if (!active || part == NULL)
        return;
    Thread *thread = this_thread;
    free(forked_path);
    forked_path = NULL;
    forked_depth = forked_hide = 0;
    if (thread != NULL) {
        for (Node *node = visible(thread); node->parent != NULL; node = node->parent)
            forked_depth++;
        forked_path = malloc((forked_depth + 1) * sizeof *forked_path);
        uint64_t i = forked_depth;
        for (Node *node = visible(thread); forked_path && node->parent != NULL;
             node = node->parent)
            forked_path[--i] = node->key;
        if (thread->cursor == &thread->hidden)
            forked_hide = thread->hide;
    }
    gpu_forked();
    ranges_forked();
    phases_forked(thread);
    part_forget(part);
    counters_forget();
    natives_forget();
    pthread_setspecific(thread_key, NULL);
    part = NULL;
    threads = thread_hint = NULL;
    this_thread = NULL;
    thread_count = 0;
    generation++;
    forked = 1;
    fork_pair = clock_pair();
    fork_epoch_ns = clock_ns(CLOCK_REALTIME);
}

/* ---------------------------------------------------------------- user events */

typedef struct EventRecord {
    uint64_t id, name_size, unit_size; /* then name, unit, each with a zero byte */
} EventRecord;

typedef struct SampleRecord {
    uint64_t event, thread;
    Node *node; /* NULL: of the thread as a whole */
    uint64_t count;
    double minimum, maximum, sum, sum_squares;
} SampleRecord;

typedef struct Event {
    char *name, *unit;
    uint64_t generation;
    struct Event *next;
    uint64_t id;
} Event;

static Event *events;
static SampleRecord **samples; /* hash of (event, thread, node) in this part */
static uint64_t samples_mask, samples_count, samples_generation;

static Event *event_of(const char *name, const char *unit)
{
    Event *event;
    for (event = events; event != NULL; event = event->next)
        if (strcmp(event->name, name) == 0 && strcmp(event->unit, unit) == 0)
            break;
    if (event == NULL) {
        if ((event = calloc(1, sizeof *event)) == NULL)
            return NULL;
        event->name = strdup(name);
        event->unit = strdup(unit);
        event->id = events != NULL ? events->id + 1 : 1;
        event->next = events;
        events = event;
    }
    if (event->generation != generation) {
        uint64_t n = strlen(name), u = strlen(unit);
        Block *block = part_block(part, BLOCK_EVENT, 0, sizeof(EventRecord) + n + u + 2);
        if (block == NULL)
            return NULL;
        EventRecord *record = (EventRecord *)(block + 1);
        memcpy((char *)(record + 1), name, n);
        memcpy((char *)(record + 1) + n + 1, unit, u);
        record->name_size = n;
        record->unit_size = u;
        record->id = event->id;
        event->generation = generation;
    }
    return event;
}

static uint64_t sample_hash(uint64_t event, uint64_t thread, const Node *node)
{
    return (((uint64_t)node >> 6) * 31 + event * 1000003 + thread) * 0x9E3779B97F4A7C15ull >> 20;
}

/* Where samples of an event at a place are summed; NULL if there is no room. Under the GIL. */
static SampleRecord *sample_record(const char *name, const char *unit, Thread *thread, Node *node)
{
    Event *event = event_of(name, unit);
    if (event == NULL)
        return NULL;
    if (samples == NULL || samples_generation != generation || samples_count * 2 > samples_mask) {
        int grow = samples != NULL && samples_generation == generation;
        uint64_t mask = grow ? samples_mask * 2 + 1 : 63;
        SampleRecord **table = calloc(mask + 1, sizeof *table);
        if (table == NULL)
            return NULL;
        for (uint64_t i = 0; grow && i <= samples_mask; i++)
            if (samples[i] != NULL) {
                uint64_t j = sample_hash(samples[i]->event, samples[i]->thread, samples[i]->node);
                for (j &= mask; table[j] != NULL; j = (j + 1) & mask)
                    ;
                table[j] = samples[i];
            }
        free(samples);
        samples = table;
        samples_mask = mask;
        samples_generation = generation;
        if (!grow)
            samples_count = 0;
    }
    uint64_t i = sample_hash(event->id, thread->index, node) & samples_mask;
    SampleRecord *record;
    for (; (record = samples[i]) != NULL; i = (i + 1) & samples_mask)
        if (record->event == event->id && record->thread == thread->index && record->node == node)
            break;
    if (record == NULL) {
        Block *block = part_block(part, BLOCK_SAMPLES, (uint32_t)thread->index, sizeof *record);
        if (block == NULL)
            return NULL;
        record = samples[i] = (SampleRecord *)(block + 1);
        record->event = event->id;
        record->thread = thread->index;
        record->node = node;
        samples_count++;
    }
    return record;
}

/* By the record's own thread only. */
static void sample_add(SampleRecord *record, double value)
{
    if (record->count == 0)
        record->minimum = record->maximum = value;
    record->count++;
    record->sum += value;
    record->sum_squares += value * value;
    if (value < record->minimum)
        record->minimum = value;
    if (value > record->maximum)
        record->maximum = value;
}

static int sample(const char *name, const char *unit, double value, Thread *thread, Node *node)
{
    SampleRecord *record = sample_record(name, unit, thread, node);
    if (record == NULL)
        return -1;
    sample_add(record, value);
    return 0;
}

static uint64_t resident_kib(void)
{
    char text[128];
    unsigned long long pages = 0;
    int saved = errno;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = 0;
        if (sscanf(text, "%*u %llu", &pages) != 1)
            pages = 0;
    }
    errno = saved;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint64_t resident_before;

static void sample_resident(Thread *thread, uint64_t now)
{
    uint64_t kib = resident_kib();
    thread->sampled_ticks = now;
    part_moment(now);
    if (kib == 0)
        return;
    sample("Resident Memory", "KiB", (double)kib, thread, NULL);
    if (resident_before != 0 && kib > resident_before)
        sample("Resident Memory Growth", "KiB", (double)(kib - resident_before), thread,
               visible(thread));
    resident_before = kib;
}

/* ---------------------------------------------------------------- metadata */

static int metadata_write_bytes(const char *name, const char *value, uint64_t v)
{
    uint64_t n = strlen(name);
    Block *block = part_block(part, BLOCK_METADATA, 0, 2 * sizeof(uint64_t) + n + v + 2);
    if (block == NULL)
        return -1;
    uint64_t *sizes = (uint64_t *)(block + 1);
    memcpy((char *)(sizes + 2), name, n);
    memcpy((char *)(sizes + 2) + n + 1, value, v);
    sizes[1] = v;
    sizes[0] = n;
    return 0;
}

static int metadata_write(const char *name, const char *value)
{
    return metadata_write_bytes(name, value, strlen(value));
}

/* ---------------------------------------------------------------- the end */

static void operations_finish(void); /* operations.h */
static void ranges_finish(int ends); /* ranges.h */

static void finish(int has_status, int64_t status, uint64_t state)
{
    if (!active || waiting)
        return;
    if (part == NULL && thread_new() == NULL) /* a fork's child in which nothing was called */
        return;
    if (part->state == PART_RUNNING) {
        struct rusage usage;
        counters_finish();
        operations_finish();
        ranges_finish(1);
        pthread_mutex_lock(&ended_lock); /* whoever has not ended by now stays until then */
        for (Thread *thread = threads; thread != NULL; thread = thread->next) {
            clockid_t clock;
            if (!thread_is_over(thread) && pthread_getcpuclockid(thread->pthread, &clock) == 0)
                thread->cpu_ns = clock_ns(clock);
        }
        pthread_mutex_unlock(&ended_lock);
        if (sample_ticks && this_thread != NULL)
            sample_resident(this_thread, clock_ticks());
        if (getrusage(RUSAGE_SELF, &usage) == 0) {
            part->cpu_user_ns = usage.ru_utime.tv_sec * 1000000000LL + usage.ru_utime.tv_usec * 1000;
            part->cpu_system_ns =
                usage.ru_stime.tv_sec * 1000000000LL + usage.ru_stime.tv_usec * 1000;
            part->peak_resident_kib = usage.ru_maxrss;
            part->minor_faults = usage.ru_minflt;
            part->major_faults = usage.ru_majflt;
            part->voluntary_switches = usage.ru_nvcsw;
            part->involuntary_switches = usage.ru_nivcsw;
        }
        ClockPair now = clock_pair();
        part->end_ticks = part->last_ticks = now.ticks;
        part->end_ns = now.ns;
    }
    if (has_status) {
        part->exit_status = status;
        part->has_exit_status = 1;
    }
    part->state = state;
    part_save(part);
}

/* What GPU measurement has to say at the end of a process in which it did not begin. */
static void gpu_note(void)
{
    if (!active || waiting || part == NULL || taupy_gpu_host.tried)
        return;
    if (gpu_problem != NULL)
        metadata_write("taupy.gpu.missed", gpu_problem);
    else if (!gpu_lookout)
        return;
    else if (gpu_driver_works())
        metadata_write("taupy.gpu.missed", gpu_other_tool ? "other tool" : "late");
    else if (gpu_device_count != NULL)
        metadata_write("taupy.gpu.missed", "not initialised");
}

/* Waiting for a GPU may mean waiting for Python code that it calls. */
static void gpu_end_released(int last)
{
    if (taupy_gpu_host.end != NULL) {
        PyThreadState *state = PyEval_SaveThread();
        gpu_end(last);
        PyEval_RestoreThread(state);
    }
    if (last)
        gpu_note();
}

/* A child's part joins those of the other children: a run may have thousands. */
static void fold(void)
{
    if (active && !waiting && part != NULL && root_pid != 0 && root_pid != getpid() && !part->helper)
        part_fold(part);
}

/* Run the storer, a fresh interpreter, and wait for it. Python may be gone already. */
static void store(void)
{
    if (!active || root_pid != getpid() || storer_argv == NULL)
        return;
    root_pid = 0; /* once */
    struct stat now;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all, before;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return;
    }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    /* What the program has put in place of its stderr is none of our business. */
    if (!(has_first_stderr && fstat(2, &now) == 0 && now.st_dev == first_stderr.st_dev &&
          now.st_ino == first_stderr.st_ino))
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    /* The program's own limits are not meant for the storer. */
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_CPU,
                                 RLIMIT_NPROC};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i], &limit) == 0) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(limits[i], &limit);
        }
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* SIGSTOP and SIGKILL stay what they are; a Ctrl-C reaches us when all is stored. */
    if (posix_spawn(&child, storer_argv[0], &actions, &attributes, storer_argv, storer_env) == 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
}

static int interrupt_held; /* we blocked SIGINT between Python's end and exit() */

/* Called by Py_FinalizeEx, last of all. An unhandled KeyboardInterrupt makes the
 * interpreter kill itself by SIGINT right afterwards, so that exit() is never reached: the
 * signal is held back until the run is stored, and then kills as it would have. */
static void python_ended(void)
{
    gpu_end(1);
    gpu_note();
    finish(0, 0, PART_ENDED);
    if (active && root_pid == getpid()) {
        sigset_t interrupt, before;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        if (pthread_sigmask(SIG_BLOCK, &interrupt, &before) == 0)
            interrupt_held = !sigismember(&before, SIGINT);
    }
}

static void process_exits(int status, void *unused)
{
    (void)unused;
    sigset_t pending;
    int interrupted = interrupt_held && sigpending(&pending) == 0 && sigismember(&pending, SIGINT);
    gpu_end(1);
    finish(1, interrupted ? -SIGINT : status & 0xff, PART_ENDED);
    fold();
    store();
    if (interrupt_held) {
        sigset_t interrupt;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        interrupt_held = 0;
        pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    }
}

/* ------------------------------------------------- wrapped functions
 *
 * os._exit and os.exec* never return, so the part must be closed before; and a program
 * that hands a child an environment made from os.environ, where our variable is not to be
 * seen, would lose that child's profile. The functions behind them are wrapped: the method
 * table keeps its object, its name and its address, only the C function that it points to
 * is ours, which does its bit and calls the real one. */

typedef PyObject *(*FastCall)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyCFunction real_exit, real_system, real_execv, real_execve, real_fork_exec, real_spawn, real_spawnp;

#define BOOT_VARIABLE "TAUPY_BOOT"
#define ARGUMENTS_AT_MOST 32

static PyObject *wrapped_exit(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t total = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (total == 1 && PyLong_CheckExact(args[0])) {
        int overflow;
        long value = PyLong_AsLongAndOverflow(args[0], &overflow);
        if (!overflow && value >= INT_MIN && value <= INT_MAX) {
            gpu_end_released(1);
            finish(1, value & 0xff, PART_ENDED);
            fold();
            store();
        }
    }
    return ((FastCall)(void *)real_exit)(module, args, n, names);
}

/* Is our variable to be added to the environment that the program gives a child? Where we are
 * reached through PYTHONPATH (no .pth is installed), the child would not be. */
static int variable_is_needed(void)
{
    return active && run_folder != NULL && getenv("TAUPY_PYTHONPATH") == NULL;
}

/* A copy of the mapping with our variable, or NULL if it is to stay as it is. What the program's
 * own mapping computes is asked for as the real function asks, and once only. */
static PyObject *mapping_with_variable(PyObject *environment)
{
    if (!variable_is_needed() || environment == Py_None || !PyMapping_Check(environment))
        return NULL;
    PyObject *copy = PyDict_New(), *keys = NULL, *values = NULL;
    PyObject *name = PyUnicode_FromString(BOOT_VARIABLE);
    PyObject *folder = PyUnicode_DecodeFSDefault(run_folder);
    int failed = copy == NULL || name == NULL || folder == NULL || PyMapping_Size(environment) < 0 ||
                 (keys = PyMapping_Keys(environment)) == NULL ||
                 (values = PyMapping_Values(environment)) == NULL ||
                 PyList_GET_SIZE(keys) != PyList_GET_SIZE(values);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++)
        failed = PyDict_SetItem(copy, PyList_GET_ITEM(keys, i), PyList_GET_ITEM(values, i)) != 0;
    if (failed || PyDict_SetDefault(copy, name, folder) == NULL)
        Py_CLEAR(copy); /* the real function reports what is wrong with it */
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(name);
    Py_XDECREF(folder);
    PyErr_Clear();
    return copy;
}

static PyObject *list_with_variable(PyObject *environment, PyObject *preexec)
{
    /* It inherits ours, which the GPU's variable is in; but not what a preexec_fn changes. */
    if (active && environment == Py_None && preexec == Py_None)
        return gpu_environment();
    if (!variable_is_needed() || !PyList_Check(environment))
        return NULL;
    /* Where a name stands twice, the first counts: one that the program has given stays. */
    PyObject *copy = PyList_GetSlice(environment, 0, PyList_GET_SIZE(environment));
    PyObject *item = PyBytes_FromFormat(BOOT_VARIABLE "=%s", run_folder);
    if (copy == NULL || item == NULL || PyList_Append(copy, item) != 0)
        Py_CLEAR(copy);
    Py_XDECREF(item);
    PyErr_Clear();
    return copy;
}

/* Children are noted with their commands: one that leaves no part is named in the trial (record,
 * children.py). A note is metadata of the part: process id (0: unknown; our own: we become it) and
 * when it began and ended, in ns of CLOCK_MONOTONIC; then folder, executable and the words of the
 * command, each after a zero byte. A long command is cut. */
#define NOTE_BYTES 1024

typedef struct Note {
    char text[NOTE_BYTES];
    size_t size;
} Note;

static void note_bytes(Note *note, const char *bytes, size_t size)
{
    size_t room = sizeof note->text - note->size;
    size = size < room ? size : room;
    memcpy(note->text + note->size, bytes, size);
    note->size += size;
}

/* What is neither text nor bytes would have to be asked, and is empty. */
static PyObject *as_bytes(PyObject *word)
{
    PyObject *bytes = NULL;
    if (word != NULL && PyUnicode_Check(word))
        bytes = PyUnicode_EncodeFSDefault(word);
    else if (word != NULL && PyBytes_Check(word))
        bytes = Py_NewRef(word);
    if (bytes == NULL) {
        PyErr_Clear();
        bytes = PyBytes_FromString("");
    }
    return bytes;
}

static void note_word(Note *note, PyObject *word)
{
    PyObject *bytes = as_bytes(word);
    note_bytes(note, "", 1);
    if (bytes != NULL)
        note_bytes(note, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_XDECREF(bytes);
}

/* The executable; of several the first that can be run, as the child tries them. */
static PyObject *executable_of(PyObject *paths)
{
    if (paths == NULL || !(PyTuple_Check(paths) || PyList_Check(paths)))
        return paths;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(paths);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(paths, i);
        if (PyBytes_Check(item) && access(PyBytes_AS_STRING(item), X_OK) == 0)
            return item;
    }
    return n > 0 ? PySequence_Fast_GET_ITEM(paths, 0) : NULL;
}

/* The folder in which a relative path is meant: the child's own below ours. */
static void note_folder(Note *note, PyObject *cwd)
{
    PyObject *bytes = as_bytes(cwd);
    char here[NOTE_BYTES / 2];
    note_bytes(note, "", 1);
    if ((bytes == NULL || PyBytes_AS_STRING(bytes)[0] != '/') && getcwd(here, sizeof here) != NULL) {
        note_bytes(note, here, strlen(here));
        note_bytes(note, "/", 1);
    }
    if (bytes != NULL)
        note_bytes(note, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_XDECREF(bytes);
}

static void note_child(pid_t pid, int64_t began_ns, int64_t ended_ns, PyObject *paths,
                       PyObject *command, PyObject *cwd)
{
    static uint64_t count;
    int saved = errno;
    Note note = {.size = 0};
    char head[80], name[40];
    if (!active || waiting || (part == NULL && thread_new() == NULL))
        return;
    note_bytes(&note, head,
               (size_t)snprintf(head, sizeof head, "%ld %lld %lld", (long)pid, (long long)began_ns,
                                (long long)ended_ns));
    note_folder(&note, cwd);
    note_word(&note, executable_of(paths));
    if (command != NULL && (PyList_Check(command) || PyTuple_Check(command)))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(command); i++)
            note_word(&note, PySequence_Fast_GET_ITEM(command, i));
    else
        note_word(&note, command);
    snprintf(name, sizeof name, "taupy.child.%llu", (unsigned long long)count++);
    metadata_write_bytes(name, note.text, note.size);
    errno = saved;
}

/* Note the child whose number a function has returned. */
static PyObject *noted(PyObject *result, int64_t began_ns, PyObject *paths, PyObject *command,
                       PyObject *cwd)
{
    if (result != NULL && PyLong_CheckExact(result))
        note_child((pid_t)PyLong_AsLong(result), began_ns, 0, paths, command, cwd);
    return result;
}

/* Where the argument `env` of posix.execve and its like stands, the third of them; -1: nowhere. */
static Py_ssize_t environment_at(Py_ssize_t n, PyObject *names)
{
    if (n > 2)
        return 2;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "env") == 0)
            return n + i;
    return -1;
}

static PyObject *call_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *names, Py_ssize_t at, PyObject *changed)
{
    PyObject *result, *with[ARGUMENTS_AT_MOST];
    Py_ssize_t total = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (changed != NULL && total <= ARGUMENTS_AT_MOST) {
        memcpy(with, args, (size_t)total * sizeof *with);
        with[at] = changed;
        args = with;
    }
    result = ((FastCall)(void *)real)(module, args, n, names);
    Py_XDECREF(changed);
    return result;
}

static PyObject *exec_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *names, Py_ssize_t at, PyObject *environment)
{
    pid_t root = root_pid;
    if (n >= 2) /* of several notes the last one counts: the others have failed */
        note_child(getpid(), clock_ns(CLOCK_MONOTONIC), 0, args[0], args[1], NULL);
    gpu_end_released(0);
    finish(0, 0, PART_EXEC);
    int hidden = gpu_hide();
    PyObject *result = call_with(real, module, args, n, names, at, environment);
    root_pid = root; /* still here: it failed */
    gpu_show(hidden);
    if (active && part != NULL)
        part_resume(part);
    return result;
}

static PyObject *wrapped_execv(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    return exec_with(real_execv, module, args, n, NULL, -1, NULL); /* it takes no keywords */
}

static PyObject *wrapped_execve(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t at = environment_at(n, names);
    PyObject *environment = at >= 0 ? mapping_with_variable(args[at]) : NULL;
    return exec_with(real_execve, module, args, n, names, at, environment);
}

static PyObject *wrapped_system(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                PyObject *names)
{
    int hidden = gpu_hide();
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = ((FastCall)(void *)real_system)(module, args, n, names);
    gpu_show(hidden);
    if (result != NULL && n == 1)
        note_child(0, began_ns, clock_ns(CLOCK_MONOTONIC), NULL, args[0], NULL);
    return result;
}

/* The environment is inherited if it is None, as it may be from 3.13 on. */
static PyObject *spawn_with(PyCFunction real, PyObject *module, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    Py_ssize_t at = environment_at(n, names);
    PyObject *environment = at >= 0 ? mapping_with_variable(args[at]) : NULL;
    int hidden = gpu_hide();
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = call_with(real, module, args, n, names, at, environment);
    gpu_show(hidden);
    return n >= 2 ? noted(result, began_ns, args[0], args[1], NULL) : result;
}

static PyObject *wrapped_spawn(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawn_with(real_spawn, module, args, n, names);
}

static PyObject *wrapped_spawnp(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawn_with(real_spawnp, module, args, n, names);
}

/* args, executables, close_fds, pass_fds, cwd, env, ..., umask, preexec_fn; up to 3.13 allow_vfork */
#define CWD_OF_FORK_EXEC 4
#define ENVIRONMENT_OF_FORK_EXEC 5
#define PREEXEC_OF_FORK_EXEC 21

static PyObject *fork_exec_environment(PyObject *const *args, Py_ssize_t n)
{
    if (n <= PREEXEC_OF_FORK_EXEC)
        return NULL;
    return list_with_variable(args[ENVIRONMENT_OF_FORK_EXEC], args[PREEXEC_OF_FORK_EXEC]);
}

#if PY_VERSION_HEX < 0x030C0000
static PyObject *fork_exec(PyObject *module, PyObject *args)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *changed = fork_exec_environment(&PyTuple_GET_ITEM(args, 0), n);
    if (changed == NULL)
        return real_fork_exec(module, args);
    PyObject *with = PyTuple_New(n), *result = NULL;
    for (Py_ssize_t i = 0; with != NULL && i < n; i++)
        PyTuple_SET_ITEM(with, i, Py_NewRef(i == ENVIRONMENT_OF_FORK_EXEC ? changed
                                                                          : PyTuple_GET_ITEM(args, i)));
    if (with != NULL)
        result = real_fork_exec(module, with);
    Py_XDECREF(with);
    Py_DECREF(changed);
    return result;
}

static PyObject *wrapped_fork_exec(PyObject *module, PyObject *args)
{
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = fork_exec(module, args);
    return PyTuple_GET_SIZE(args) <= ENVIRONMENT_OF_FORK_EXEC
               ? result
               : noted(result, began_ns, PyTuple_GET_ITEM(args, 1), PyTuple_GET_ITEM(args, 0),
                       PyTuple_GET_ITEM(args, CWD_OF_FORK_EXEC));
}
#define FLAGS_OF_FORK_EXEC METH_VARARGS
#else
static PyObject *wrapped_fork_exec(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    PyObject *result = call_with(real_fork_exec, module, args, n, NULL, ENVIRONMENT_OF_FORK_EXEC,
                                 fork_exec_environment(args, n));
    return n <= ENVIRONMENT_OF_FORK_EXEC
               ? result
               : noted(result, began_ns, args[1], args[0], args[CWD_OF_FORK_EXEC]);
}
#define FLAGS_OF_FORK_EXEC METH_FASTCALL
#endif

static void wrap(PyObject *module, const char *name, PyCFunction *real, void *ours, int flags)
{
    PyObject *function = PyObject_GetAttrString(module, name);
    if (function != NULL && PyCFunction_Check(function) && *real == NULL) {
        PyMethodDef *method = ((PyCFunctionObject *)function)->m_ml;
        int convention = METH_FASTCALL | METH_KEYWORDS | METH_VARARGS | METH_O | METH_NOARGS;
        if ((method->ml_flags & convention) == flags) {
            *real = method->ml_meth;
            method->ml_meth = (PyCFunction)ours;
        }
    }
    PyErr_Clear();
    Py_XDECREF(function);
}

/* A function's hash is its C function's address: sets of functions, such as os.supports_fd,
 * find those that are wrapped no longer. They are filled once more. */
static void hash_again(PyObject *modules)
{
    PyObject *os = PyDict_GetItemString(modules, "os"), *name, *set;
    Py_ssize_t at = 0;
    while (os != NULL && PyModule_Check(os) && PyDict_Next(PyModule_GetDict(os), &at, &name, &set)) {
        if (!PySet_CheckExact(set))
            continue;
        PyObject *members = PySequence_Tuple(set);
        Py_ssize_t n = members != NULL ? PyTuple_GET_SIZE(members) : 0;
        if (n > 0 && PySet_Clear(set) == 0)
            for (Py_ssize_t i = 0; i < n; i++)
                PySet_Add(set, PyTuple_GET_ITEM(members, i));
        Py_XDECREF(members);
    }
}

static void wrap_functions(void)
{
    PyObject *posix = PyImport_ImportModule("posix");
    if (posix != NULL) {
        wrap(posix, "_exit", &real_exit, (void *)wrapped_exit, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "execv", &real_execv, (void *)wrapped_execv, METH_FASTCALL);
        wrap(posix, "execve", &real_execve, (void *)wrapped_execve, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "system", &real_system, (void *)wrapped_system, METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "posix_spawn", &real_spawn, (void *)wrapped_spawn,
             METH_FASTCALL | METH_KEYWORDS);
        wrap(posix, "posix_spawnp", &real_spawnp, (void *)wrapped_spawnp,
             METH_FASTCALL | METH_KEYWORDS);
        Py_DECREF(posix);
    }
    PyErr_Clear();
    PyObject *modules = PyImport_GetModuleDict();
    hash_again(modules);
    int known = PyDict_GetItemString(modules, "_posixsubprocess") != NULL;
    PyObject *subprocess = PyImport_ImportModule("_posixsubprocess");
    if (subprocess != NULL) {
        wrap(subprocess, "fork_exec", &real_fork_exec, (void *)wrapped_fork_exec,
             FLAGS_OF_FORK_EXEC);
        if (!known)
            PyDict_DelItemString(modules, "_posixsubprocess");
        Py_DECREF(subprocess);
    }
    PyErr_Clear();
}

#endif
