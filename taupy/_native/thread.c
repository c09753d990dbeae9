/* Threads: start, name and end. */
#define _GNU_SOURCE
#include "thread.h"
#include "listeners.h"
#include "metrics.h"
#include "names.h"
#include "process.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_key_t thread_key;

static void thread_ended(void *value)
{
    Thread *thread = value;
    if (part == NULL || thread != this_thread)
        return;
    pthread_mutex_lock(&ended_lock);
    TELL(on_thread_end, thread);
    thread->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    __atomic_store_n(&thread->ended_ticks, clock_ticks(), __ATOMIC_RELEASE);
    part_moment(thread->ended_ticks);
    pthread_mutex_unlock(&ended_lock);
}

void threads_watch(void)
{
    static int is_done;
    if (!is_done) {
        pthread_key_create(&thread_key, thread_ended);
        is_done = 1;
    }
}

void threads_release(void)
{
    pthread_setspecific(thread_key, NULL);
    threads_forget();
}

Thread *thread_new(void)
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
    thread->root.region = REGION_PHASE;
    cursor_set(thread, &thread->root);
    pthread_setspecific(thread_key, thread);
    this_thread = thread;
    TELL(on_thread, thread);
    if (metric_count)
        metrics_enter(thread, &thread->root);
    thread->root.t0 = clock_ticks();
    thread->next = threads;
    __atomic_store_n(&threads, thread, __ATOMIC_RELEASE); /* gpu_place reads it without the GIL */
    TELL(on_thread_begun, thread);
out:
    errno = saved;
    return thread;
}

Thread *thread_begin(PyObject *globals)
{
    if (!active)
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
    if (!active || waiting)
        return NULL;
    return this_thread != NULL ? this_thread : thread_new();
}

Thread *thread_after_fork(void)
{
    return active && !waiting && fork_is_pending ? thread_new() : NULL;
}

void thread_name(Thread *thread)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *module = modules ? PyDict_GetItemString(modules, "threading") : NULL;
    if (module == NULL || !PyModule_Check(module))
        return;
    PyObject *living = PyDict_GetItemString(PyModule_GetDict(module), "_active");
    if (living == NULL || !PyDict_CheckExact(living))
        return;
    PyObject *id = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *object = id ? PyDict_GetItem(living, id) : NULL;
    Py_XDECREF(id);
    PyObject *attributes = object ? PyObject_GenericGetDict(object, NULL) : NULL;
    PyObject *name = attributes ? PyDict_GetItemString(attributes, "_name") : NULL;
    if (name != NULL && PyUnicode_Check(name)) {
        char *text = text_of(name);
        if (text != NULL)
            snprintf(thread->name, sizeof thread->name, "%s", text);
        free(text);
    }
    Py_XDECREF(attributes);
}
