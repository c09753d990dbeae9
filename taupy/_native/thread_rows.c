/* See thread_rows.h. */
#include "thread_rows.h"
#include "events.h"
#include "growth.h"
#include "metrics.h"

uint64_t threads_apart = UINT64_MAX;

typedef struct Beginner { /* a routine in which threads begin, in one part */
    uint64_t generation;
    uint64_t apart;   /* ended threads that stay as they are */
    Thread *sums;     /* the row to which further ones are added; NULL: there is none yet */
    ThreadRow *record; /* of several; NULL: it is still one thread */
} Beginner;

/* Of the part `rows_of`. */
static Thread *ended, **ended_last = &ended; /* not looked at yet, oldest first; under ended_lock */
static Thread *unused;                       /* their memory is free */
static uint64_t rows_of, ended_of;
static int is_adding; /* a signal may interrupt it */

/* ---------------------------------------------------------------- where a thread begins */

enum OfThreading threading_kind(const Routine *routine)
{
    size_t size = strlen(routine->file);
    if (size < 13 || strcmp(routine->file + size - 13, "/threading.py") != 0)
        return THREADING_NONE;
    const char *name = routine->name;
    return strcmp(name, "Thread.run") == 0 || strcmp(name, "Timer.run") == 0 ? THREADING_RUN
           : strcmp(name, "Thread._bootstrap") == 0 ||
                   strcmp(name, "Thread._bootstrap_inner") == 0
               ? THREADING_WAY
               : THREADING_OTHER;
}

/* Whether what is called by this node is what the thread has been started for. */
static int is_run(const Node *node)
{
    const Routine *routine = node->key != NULL ? routine_find(node->key) : NULL;
    return routine != NULL && routine->of_threading == THREADING_RUN;
}

void thread_row_path(Thread *thread, const Routine *routine, Node *node)
{
    const Node *before = thread->start != NULL ? thread->start : &thread->root;
    if (likely(thread->has_started) || node->parent != before ||
        routine->of_threading == THREADING_OTHER)
        return;
    int is_code = KEY_KIND(node->key) == 0;
    /* On the way from 3.14 on, and known only if C functions are. */
    int is_context = !is_code && strcmp(routine->name, "_contextvars.Context.run") == 0;
    if (!is_code && !is_context && !is_run(before))
        return;
    thread->start = node;
    thread->has_started = routine->of_threading == THREADING_NONE && !is_context;
}

/* ---------------------------------------------------------------- which are added */

static int is_pool(const char *file)
{
    static const char *const folders[] = {
        "/multiprocessing/", "/concurrent/futures/", "/torch/", "/joblib/",
        "/unittest/", "/_pytest/", "/xdist/", "/execnet/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strstr(file, folders[i]) != NULL)
            return 1;
    return 0;
}

/* Whether threading has named it, or nobody has. */
static int is_unnamed(const Thread *thread)
{
    const char *name = thread->name;
    if (name[0] == 0)
        return 1;
    if (strncmp(name, "Thread-", 7) != 0 && strncmp(name, "Dummy-", 6) != 0)
        return 0;
    const char *digits = strchr(name, '-') + 1;
    size_t count = strspn(digits, "0123456789");
    return !thread->renamed && count > 0 && (digits[count] == 0 || digits[count] == ' ');
}

static const Block *block_of(const Thread *thread) { return (const Block *)thread - 1; }

/* The routine with whose threads it may be added up; NULL: it stays as it is. */
static Routine *beginning(Thread *thread)
{
    const Block *block = block_of(thread);
    if (thread->is_apart || thread->index == 0 || thread->start == NULL || thread->stacks != NULL ||
        thread->cursor != &thread->root || block->unused[BLOCK_THREAD_FAULTS] != 0 ||
        block->unused[BLOCK_THREAD_ERRNO] != 0 || !is_unnamed(thread))
        return NULL;
    Routine *routine =
        routine_find((void *)((uint64_t)thread->start->key & ~KEY_THROTTLED));
    return routine != NULL && !is_pool(routine->file) ? routine : NULL;
}

static Beginner *beginner_of(Routine *routine)
{
    if (routine->beginner == NULL)
        routine->beginner = calloc(1, sizeof *routine->beginner);
    if (routine->beginner != NULL && routine->beginner->generation != generation)
        *routine->beginner = (Beginner){.generation = generation};
    return routine->beginner;
}

/* ---------------------------------------------------------------- adding */

/* Where a node of a thread that is being added has gone; NULL: its time is its caller's. */
static Node *moved(const Node *node) { return node->last; }

/* The same call path of the row. */
static Node *node_in(Thread *sums, Node *parent, const Node *like)
{
    if (parent == NULL)
        return NULL;
    Node *node = node_find(sums, parent, like->key);
    if (node != NULL)
        return node;
    node = node_new(sums, parent, like->key);
    Routine *routine = routine_find((void *)((uint64_t)like->key & ~KEY_THROTTLED));
    if (node != NULL && routine != NULL)
        routine_add_node(routine, node);
    return node;
}

static void node_move(Thread *sums, Node *node)
{
    Node *to = node_in(sums, node->parent->last, node);
    node->last = to;
    if (to == NULL) {
        part->calls_over_limit += node->calls;
        return;
    }
    to->calls += node->calls;
    node->calls = 0;
    to->resumes += node->resumes;
    node->resumes = 0;
    to->inclusive += node->inclusive;
    node->inclusive = 0;
    to->t0 = to->t0 > node->t0 ? to->t0 : node->t0;
    for (int i = 0; i < metric_count; i++) {
        node_metrics(to)[2 * i + 1] += node_metrics(node)[2 * i + 1];
        node_metrics(node)[2 * i + 1] = 0;
    }
}

typedef void OnNode(Thread *sums, Node *node);

/* Visit the nodes of a thread in the order in which they were made: parents first. */
static void nodes_visit(Thread *thread, Thread *sums, OnNode *on_node)
{
    Block *oldest = NULL;
    for (Block *block = (Block *)(uintptr_t)thread->blocks; block != NULL;
         block = (Block *)(uintptr_t)block_before(block)) {
        block->unused[1] = (uint64_t)(uintptr_t)oldest;
        oldest = block;
    }
    for (Block *block = oldest; block != NULL; block = (Block *)(uintptr_t)block->unused[1]) {
        char *end = block == thread->blocks ? (char *)thread->free_node : (char *)block + block->size;
        for (char *at = (char *)(block + 1); at < end; at += node_stride * sizeof(Node))
            on_node(sums, (Node *)(void *)at);
    }
}

static void node_drop(Thread *sums, Node *node)
{
    (void)sums;
    Routine *routine = routine_find((void *)((uint64_t)node->key & ~KEY_THROTTLED));
    if (routine != NULL)
        routine_drop_node(routine, node);
}

static int64_t cpu_of(const Thread *thread)
{
    int64_t ns = thread->cpu_ns - thread->cpu_start_ns;
    return ns > 0 ? ns : 0;
}

static uint64_t time_of(const Thread *thread)
{
    return thread->ended_ticks > thread->root.t0 ? thread->ended_ticks - thread->root.t0 : 0;
}

static void row_count(ThreadRow *row, const Thread *thread)
{
    uint64_t time = time_of(thread);
    int64_t cpu = cpu_of(thread);
    row->least = row->count && row->least < time ? row->least : time;
    row->most = row->count && row->most > time ? row->most : time;
    row->cpu_least = row->count && row->cpu_least < cpu ? row->cpu_least : cpu;
    row->cpu_most = row->count && row->cpu_most > cpu ? row->cpu_most : cpu;
    row->cpu_squares += (double)cpu * (double)cpu;
    row->first = row->count && row->first < thread->index ? row->first : thread->index;
    row->last = row->count && row->last > thread->index ? row->last : thread->index;
    row->count++;
}

/* The record of a row that is about to be of several threads; NULL if memory runs out. */
static ThreadRow *record_of(Beginner *beginner)
{
    if (beginner->record != NULL)
        return beginner->record;
    Block *block =
        part_block(part, BLOCK_THREAD_ROW, (uint32_t)beginner->sums->index, sizeof(ThreadRow));
    if (block == NULL)
        return NULL;
    ThreadRow *row = (ThreadRow *)(block + 1);
    row->apart = beginner->apart;
    row->start = beginner->sums->start;
    row_count(row, beginner->sums);
    return beginner->record = row;
}

static void thread_add(Beginner *beginner, Thread *thread)
{
    Thread *sums = beginner->sums;
    ThreadRow *row = record_of(beginner);
    if (row == NULL) {
        thread->stays = 1;
        return;
    }
    callpath_count -= thread->node_count;
    thread->root.last = &sums->root;
    nodes_visit(thread, sums, node_move);
    samples_move(thread, sums, moved);
    for (int i = 0; i < metric_count; i++)
        sums->root_metrics[2 * i + 1] += thread->root_metrics[2 * i + 1];
    row_count(row, thread);
    sums->cpu_ns += thread->cpu_ns;
    sums->cpu_start_ns += thread->cpu_start_ns;
    __atomic_store_n(&sums->ended_ticks, sums->ended_ticks + time_of(thread), __ATOMIC_RELEASE);
    Block *block = (Block *)thread - 1;
    __atomic_store_n(&block->kind, BLOCK_REST, __ATOMIC_RELEASE);
    nodes_visit(thread, sums, node_drop);
    growth_forget(thread);
    nodes_free(thread);
    thread->cpu_ns = thread->cpu_start_ns = 0;
    thread->next_ended = unused;
    unused = thread;
}

void thread_row_ended(Thread *thread)
{
    if (thread->stays || !part_holds(thread)) /* the engine may have been started anew */
        return;
    if (ended_of != generation) {
        ended_last = &ended;
        ended_of = generation;
    }
    thread->next_ended = NULL;
    *ended_last = thread;
    ended_last = &thread->next_ended;
}

/* Take the list of those that have ended. */
static Thread *ended_take(void)
{
    pthread_mutex_lock(&ended_lock);
    Thread *first = ended_of == generation && ended_last != &ended ? ended : NULL;
    ended_last = &ended;
    pthread_mutex_unlock(&ended_lock);
    return first;
}

void thread_rows_add(void)
{
    if (threads_apart == UINT64_MAX || part == NULL || part_is_detached())
        return;
    if (rows_of != generation) { /* a fork may have interrupted it */
        unused = NULL;
        is_adding = 0;
        rows_of = generation;
    }
    if (is_adding)
        return;
    is_adding = 1;
    for (Thread *thread = ended_take(), *next; thread != NULL; thread = next) {
        next = thread->next_ended;
        Routine *routine = beginning(thread);
        Beginner *beginner = routine != NULL ? beginner_of(routine) : NULL;
        if (beginner != NULL && beginner->sums != NULL)
            thread_add(beginner, thread);
        else {
            thread->stays = 1;
            if (beginner != NULL && beginner->apart < threads_apart)
                beginner->apart++;
            else if (beginner != NULL)
                beginner->sums = thread;
        }
    }
    is_adding = 0;
}

Thread *thread_rows_take(void)
{
    thread_rows_add();
    if (rows_of != generation || unused == NULL || part_is_detached())
        return NULL;
    Thread *thread = unused;
    unused = thread->next_ended;
    return thread;
}
