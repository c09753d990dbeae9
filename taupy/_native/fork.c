/* How a forked child handles the state inherited from its parent. */
#include "fork.h"
#include "confined.h"
#include "frames.h"
#include "gil.h"
#include "guard.h"
#include "process.h"
#include "thread.h"
#include "timing.h"

static void **forked_path; /* keys open in the forking thread, outermost first */
static uint64_t forked_depth, forked_hide;
/* The node that was open when this thread called fork. The cursor itself is of no use: it is in the
 * part, which the child shares with the parent, and the parent moves it. */
static __thread struct {
    Node *node;
    uint64_t hide;
} before;

static void path_drop(void)
{
    free(forked_path);
    forked_path = NULL;
    fork_is_pending = 0;
    forked_depth = forked_hide = 0;
}

/* Remember the path open in the forking thread. */
static void path_keep(Node *inner)
{
    path_drop();
    if (inner == NULL)
        return;
    for (Node *node = inner; node->parent != NULL; node = node->parent)
        forked_depth++;
    forked_path = malloc((forked_depth + 1) * sizeof *forked_path);
    uint64_t i = forked_depth;
    for (Node *node = inner; forked_path && node->parent != NULL; node = node->parent)
        forked_path[--i] = node->key;
    forked_hide = before.hide;
    fork_is_pending = forked_path != NULL;
}

static void fork_prepare(void)
{
    Thread *thread = thread_mine();
    before.node = active && thread != NULL ? visible(thread) : NULL;
    before.hide = before.node != NULL && thread->cursor == &thread->hidden ? thread->hide : 0;
}

/* The same from the Python frames of this thread, without the one that `entered` is about to begin:
 * since the parent goes on, its tree no longer tells. */
static void path_find(const void *entered)
{
    path_drop();
    if (this_thread == NULL || waiting || !holds_gil())
        return;
    const void *code;
    void *frame = frame_first();
#if PY_VERSION_HEX >= 0x030C0000
    if (entered != NULL && frame_next_code(&frame) != entered) {
        frame_drop(frame);
        frame = frame_first();
    }
#else
    (void)entered;
#endif
    uint64_t room = 0;
    while ((code = frame_next_code(&frame)) != NULL) {
        const Routine *routine = routine_find(code);
        if (routine == NULL || routine->flags)
            continue;
        if (forked_depth == room) {
            room = room ? 2 * room : 64;
            void **more = realloc(forked_path, room * sizeof *more);
            if (more == NULL)
                break;
            forked_path = more;
        }
        forked_path[forked_depth++] = routine->node_key;
    }
    frame_drop(frame);
    for (uint64_t i = 0; i < forked_depth / 2; i++) {
        void *inner = forked_path[i];
        forked_path[i] = forked_path[forked_depth - 1 - i];
        forked_path[forked_depth - 1 - i] = inner;
    }
    if (depth_limit && forked_depth > depth_limit) {
        forked_hide = forked_depth - depth_limit;
        forked_depth = depth_limit;
    }
    fork_is_pending = forked_path != NULL;
}

/* What was inherited is the parent's. */
static void begin_anew(const Thread *thread)
{
    pthread_mutex_init(&ended_lock, NULL); /* the owner does not exist in this process */
    pthread_mutex_init(&tree_lock, NULL);
    part_forget(part);
    TELL(on_fork, thread);
    part = NULL;
    threads_release();
    thread_count = 0;
    generation++;
    if (is_filtered())
        active = 0; /* it may be forbidden to open a file */
    forked = 1;
    fork_pair = clock_pair();
    fork_epoch_ns = clock_epoch(fork_pair.ns);
}

static void fork_child(void)
{
    guard_forked();
    part_own();
    if (!active || part == NULL)
        return;
    Thread *thread = this_thread;
    path_keep(thread != NULL ? before.node : NULL);
    begin_anew(thread);
}

/* A child made without fork's hooks, at the first event in it. */
static void fork_found(const void *entered)
{
    int saved = errno;
    guard_forked();
    part_own();
    if (active && part != NULL) {
        path_find(entered);
        begin_anew(this_thread);
    }
    errno = saved;
}

/* Frames that were open when the parent forked are open in the child's thread, too. */
static void fork_reopen(Thread *thread)
{
    if (forked_path == NULL)
        return;
    for (uint64_t i = 0; i < forked_depth; i++) {
        if (key_is_brief(forked_path[i]))
            continue; /* the child has steps of its own */
        Node *node = node_new(thread, thread->cursor, forked_path[i]);
        if (node == NULL)
            break;
        Routine *routine = routine_find(forked_path[i]);
        if (routine != NULL && routine->generation != generation)
            routine_record(routine);
        if (routine != NULL)
            routine_add_node(routine, node);
        node_run(thread, node, fork_pair.ticks);
        cursor_set(thread, node);
    }
    thread->root.t0 = fork_pair.ticks;
    if (forked_hide) {
        hide(thread);
        thread->hide = forked_hide;
    }
    path_drop();
}

Listener fork_listener = {.on_thread_begun = fork_reopen};

void forks_watch(void)
{
    static int is_done;
    process_is_new = fork_found;
    if (!is_done)
        pthread_atfork(fork_prepare, NULL, fork_child);
    is_done = 1;
}
