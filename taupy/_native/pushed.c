/* NVTX push/pop ranges. */
#include "pushed.h"
#include "carry.h"
#include "gil.h"
#include "process.h"
#include "thread.h"
#include "timers.h"
#include "timing.h"

int range_push(const char *name)
{
    static unsigned names;
    int saved = errno, failed = -1;
    if (!is_measured() || waiting || !holds_gil())
        return -1;
    Thread *thread = thread_here();
    if (thread == NULL || thread->cursor == &thread->hidden)
        return -1;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    void *key = timer_key_among(&names, name, "(other NVTX ranges)", NVTX_GROUP);
    if (key != NULL && timer_begin(thread, key)) {
        ranges_open++;
        failed = 0;
    }
    PyErr_Restore(type, value, trace);
    errno = saved;
    return failed;
}

void range_pop(void)
{
    Thread *thread = thread_mine();
    if (!active || thread == NULL || !holds_gil())
        return;
    ranges_open--;
    if (thread->cursor == &thread->hidden)
        return; /* closed by the routine it began in */
    Node *inner = thread->cursor, *node = inner;
    int saved = errno, frames = 0;
    while (node->parent != NULL && range_kind(node->key) != RANGE_NVTX && frames++ < RANGE_FRAMES)
        node = node->parent;
    if (node->parent == NULL || range_kind(node->key) != RANGE_NVTX)
        return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (node == inner)
        leave(node->key, 1);
    else { /* routines still open continue where the range had begun */
        uint64_t now = clock_ticks();
        close_down_to(thread, node, now);
        go_on(thread, inner, node, 0, now);
    }
    PyErr_Restore(type, value, trace);
    errno = saved;
}
