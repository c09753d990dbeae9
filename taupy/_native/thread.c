/* Threads: start, name and end. */
#define _GNU_SOURCE
#include "thread.h"
#include "confined.h"
#include "guard.h"
#include "interpreter.h"
#include "line_thread.h"
#include "listeners.h"
#include "metrics.h"
#include "names.h"
#include "process.h"
#include "thread_rows.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_key_t thread_key;

/* Under ended_lock. `mine` is its `this_thread`. */
static void thread_end(Thread *thread, Thread **mine, uint64_t ticks)
{
    __atomic_store_n(&thread->ended_ticks, ticks, __ATOMIC_RELEASE);
    *mine = NULL; /* it may soon be another one's */
    thread_row_ended(thread);
}

static void thread_ended(void *value)
{
    Thread *thread = value;
    if (part == NULL || !part_is_ours())
        return;
    pthread_mutex_lock(&ended_lock);
    if (thread == this_thread) {
        thread->is_apart |= thread->steps != NULL;
        TELL(on_thread_end, thread);
        if (!is_filtered())
            thread->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t now = clock_ticks();
        part_moment(now);
        thread_end(thread, &this_thread, now);
    }
    pthread_mutex_unlock(&ended_lock);
}

void threads_end(uint64_t ticks)
{
    pthread_mutex_lock(&ended_lock);
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        if (thread->leaves && thread->cursor == &thread->root && !thread_is_over(thread)) {
            thread->is_apart |= thread->steps != NULL;
            thread_end(thread, thread->mine, ticks);
        }
    pthread_mutex_unlock(&ended_lock);
    thread_rows_add();
}

void threads_watch(void)
{
    static int is_done;
    if (!is_done) {
        pthread_key_create(&thread_key, thread_ended);
        is_done = 1;
    }
}

void threads_leave(void)
{
    pthread_mutex_lock(&ended_lock);
    for (Thread *thread = threads; thread != NULL; thread = thread->next)
        if (thread->mine != NULL && !thread_is_over(thread))
            *thread->mine = NULL;
    pthread_mutex_unlock(&ended_lock);
    threads_release();
}

void threads_release(void)
{
    pthread_setspecific(thread_key, NULL);
    threads_forget();
}

/* Make a thread that is free again like a new one. It is in the list of threads all the time, for
 * which it is over, since that is read without the GIL. */
static void thread_clear(Thread *thread)
{
    Block *block = (Block *)thread - 1;
    memset(thread, 0, offsetof(Thread, ended_ticks));
    memset(&thread->cpu_start_ns, 0, offsetof(Thread, next) - offsetof(Thread, cpu_start_ns));
    memset(&thread->next + 1, 0, (size_t)((char *)(thread + 1) - (char *)(&thread->next + 1)));
    memset(block->unused, 0, sizeof block->unused);
}

Thread *thread_new(void)
{
    int saved = errno;
    Thread *thread = NULL;
    if (part == NULL) {
        if (part_begin() != 0) {
            active = 0;
            goto out;
        }
        interpreter_describe();
        line_thread_begin();
    }
    int is_again = (thread = thread_rows_take()) != NULL;
    Block *block = is_again ? (Block *)thread - 1
                            : part_block(part, BLOCK_THREAD, (uint32_t)thread_count, sizeof(Thread));
    if (block == NULL) {
        part->calls_over_limit++;
        goto out;
    }
    thread = (Thread *)(block + 1);
    if (is_again)
        thread_clear(thread);
    thread->index = thread_count++;
    thread->native_id = (uint64_t)syscall(SYS_gettid);
    thread->state = interpreter_thread();
    thread->stays = threads_apart == UINT64_MAX || thread->index == 0;
    thread->pthread = pthread_self();
    thread->stack_low = STACK_UNKNOWN;
    thread->cpu_start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (thread->native_id == (uint64_t)getpid())
        strcpy(thread->name, "MainThread");
    thread->root.last = thread->hidden.last = &nowhere;
    thread->root.calls = 1;
    thread->root.region = REGION_PHASE;
    cursor_set(thread, &thread->root);
    if (is_again) {
        block->thread = (uint32_t)thread->index;
        __atomic_store_n(&block->kind, BLOCK_THREAD, __ATOMIC_RELEASE);
        __atomic_store_n(&thread->ended_ticks, 0, __ATOMIC_RELEASE);
    }
    pthread_setspecific(thread_key, thread);
    thread->mine = &this_thread;
    this_thread = thread;
    TELL(on_thread, thread);
    if (metric_count)
        metrics_enter(thread, &thread->root);
    thread->root.t0 = clock_ticks();
    if (!is_again) {
        thread->next = threads;
        guard_thread(thread);
        __atomic_store_n(&threads, thread, __ATOMIC_RELEASE); /* gpu_place reads it without the GIL */
    }
    interpreter_threads(thread_count);
    TELL(on_thread_begun, thread);
out:
    errno = saved;
    return thread;
}

Thread *thread_begin(PyObject *globals)
{
    if (!is_measured())
        return NULL;
    if (waiting) {
        PyObject *name = globals == NULL ? NULL : PyDict_GetItemString(globals, "__name__");
        if (name == NULL || !PyUnicode_Check(name) ||
            (PyUnicode_CompareWithASCIIString(name, "__main__") != 0 &&
             PyUnicode_CompareWithASCIIString(name, "runpy") != 0))
            return NULL;
        waiting = 0;
    }
    return thread_new();
}

Thread *thread_here(void)
{
    if (!is_measured() || waiting)
        return NULL;
    return this_thread != NULL ? this_thread : thread_new();
}

Thread *thread_after_fork(void)
{
    return is_measured() && !waiting && fork_is_pending ? thread_new() : NULL;
}

/* What stands under a name in a dictionary, borrowed; NULL: there is nothing. Threads that come and
 * go are looked up many times, and a text made anew for each would have to be hashed again. */
static PyObject *item_of(PyObject *dictionary, PyObject **interned, const char *name)
{
    if (*interned == NULL && (*interned = PyUnicode_InternFromString(name)) == NULL)
        return NULL;
    return PyDict_GetItem(dictionary, *interned);
}

/* threading's dictionary of living threads by their ident, borrowed; NULL: there is none. */
static PyObject *living_threads(void)
{
    static PyObject *threading, *active;
    /* Not PyImport_GetModuleDict, which is fatal near the end of the interpreter. */
    PyObject *modules = PySys_GetObject("modules"); /* borrowed */
    PyObject *module = modules != NULL && PyDict_Check(modules)
                           ? item_of(modules, &threading, "threading")
                           : NULL;
    if (module == NULL || !PyModule_Check(module))
        return NULL;
    PyObject *living = item_of(PyModule_GetDict(module), &active, "_active");
    return living != NULL && PyDict_CheckExact(living) ? living : NULL;
}

static void rename_thread(Thread *thread, const char *name)
{
    char before[sizeof thread->name], note[48];
    memcpy(before, thread->name, sizeof before);
    snprintf(thread->name, sizeof thread->name, "%s", name);
    if (before[0] == 0 || thread->renamed || strcmp(before, thread->name) == 0)
        return;
    thread->renamed = 1;
    snprintf(note, sizeof note, "taupy.thread.%llu.first_name", (unsigned long long)thread->index);
    part_pair(part, BLOCK_METADATA, note, before, strlen(before));
}

void thread_name(Thread *thread)
{
    static PyObject *name_of_thread;
    PyObject *living = living_threads();
    /* The thread that forks keeps its name in threading, but is the child's main thread. */
    if (living == NULL || (part->forked && thread->native_id == (uint64_t)getpid()))
        return;
    PyObject *id = PyLong_FromUnsignedLong((unsigned long)thread->pthread);
    PyObject *object = id ? PyDict_GetItem(living, id) : NULL;
    Py_XDECREF(id);
    PyObject *attributes = object ? PyObject_GenericGetDict(object, NULL) : NULL;
    PyObject *name = attributes ? item_of(attributes, &name_of_thread, "_name") : NULL;
    if (name != NULL && PyUnicode_Check(name)) {
        char *text = text_of(name);
        if (text != NULL)
            rename_thread(thread, text);
        free(text);
    }
    Py_XDECREF(attributes);
    PyErr_Clear();
}

void thread_names(Thread *thread, const Routine *routine)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (routine->names_threads == NAMES_OWN) {
        thread_name(thread);
        thread->leaves = 1;
    } else
        for (thread = threads; thread != NULL; thread = thread->next)
            if (!thread_is_over(thread))
                thread_name(thread);
    if (routine->names_threads == NAMES_ALL)
        thread_rows_add(); /* a child of multiprocessing ends by _exit() behind it */
    PyErr_Restore(type, value, trace);
}

/* Where threading is about to forget a thread, or all. */
static uint32_t naming_routines(Routine *routine)
{
    routine->of_threading = threading_kind(routine);
    routine->names_threads = routine->of_threading == THREADING_NONE         ? NAMES_NONE
                             : strcmp(routine->name, "Thread._delete") == 0 ? NAMES_OWN
                             : strcmp(routine->name, "_shutdown") == 0      ? NAMES_ALL
                                                                            : NAMES_NONE;
    return 0;
}

RoutineWatch thread_names_watch = {.flags_of = naming_routines};
