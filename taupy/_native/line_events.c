/* See line_events.h. Everything here runs under the GIL. */
#include "line_events.h"
#include "hooks.h"
#include "timing.h"

#define CODE_UNIT_BYTES 2 /* in all versions */
#define NODES_A_BLOCK 63
#define APART_A_BLOCK 126

int lines_used;
static char **chosen;
static int all_are_chosen;
static Table nodes, sums; /* LineNode by node; OfThread by thread and routine */
static LineNode *recent;
static uint64_t of_generation;

typedef struct OfThread {
    const Thread *thread;
    const Routine *routine;
    LineSums *sums;
    LineNode *free; /* room for further call paths */
    uint64_t free_count;
} OfThread;

static LineApart *free_apart; /* of the thread below */
static uint64_t free_apart_count;
static const Thread *apart_thread;

void lines_start(char **routines, int of_all)
{
    chosen = routines;
    all_are_chosen = of_all;
    lines_used = routines != NULL || of_all;
}

/* ---------------------------------------------------------------- which routines */

/* Whether `wanted` is PATH:NAME of the routine, whose file may be relative. */
static int is_named(const Routine *routine, const char *wanted)
{
    size_t file = strlen(routine->file), name = strlen(routine->name), all = strlen(wanted);
    if (all < file + name + 1 || strcmp(wanted + all - name, routine->name) != 0)
        return 0;
    const char *colon = wanted + all - name - 1, *path = colon - file;
    return *colon == ':' && strncmp(path, routine->file, file) == 0 &&
           (path == wanted || (routine->file[0] != '/' && path[-1] == '/'));
}

static int met(PyObject *code, Routine *routine)
{
    if (!lines_used || routine->flags & (ROUTINE_OURS | ROUTINE_EXCLUDED))
        return 0;
    routine->has_lines = all_are_chosen && routine_is_own(routine);
    for (char **wanted = chosen; !routine->has_lines && wanted != NULL && *wanted != NULL; wanted++)
        routine->has_lines = (uint32_t)is_named(routine, *wanted);
    if (routine->has_lines)
        hooks_lines(code);
    return 0;
}

RoutineWatch lines_watch = {.met = met};

/* -------------------------------------------------------------------- their call paths */

static int is_of_node(const void *entry, const void *wanted)
{
    return ((const LineNode *)entry)->node == wanted;
}

static int is_of_thread(const void *entry, const void *wanted)
{
    const OfThread *a = entry, *b = wanted;
    return a->thread == b->thread && a->routine == b->routine;
}

static LineNode *find(const Node *node)
{
    if (of_generation != generation) {
        table_clear(&nodes); /* what they point to is the part's, or small */
        table_clear(&sums);
        recent = NULL;
        apart_thread = NULL;
        of_generation = generation;
    }
    if (likely(recent != NULL && recent->node == node))
        return recent;
    LineNode *found = table_find(&nodes, key_hash(node), is_of_node, node);
    if (found != NULL)
        recent = found;
    return found;
}

/* Number of the first and of the last line of a code object. */
static void span_of(PyCodeObject *code, int *first, int *last)
{
    *first = *last = code->co_firstlineno;
    for (Py_ssize_t at = 0; at < Py_SIZE(code); at++) {
        int line = PyCode_Addr2Line(code, (int)(at * CODE_UNIT_BYTES));
        if (line > 0 && line < *first)
            *first = line;
        if (line > *last)
            *last = line;
    }
}

static OfThread *of_thread(Thread *thread, Routine *routine, PyCodeObject *code)
{
    OfThread wanted = {thread, routine};
    uint64_t hash = table_hash((uint64_t)thread ^ (uint64_t)routine << 7);
    OfThread *found = table_find(&sums, hash, is_of_thread, &wanted);
    if (found != NULL)
        return found;
    int first, last;
    span_of(code, &first, &last);
    uint64_t number = (uint64_t)(last - first) + 1;
    Block *block = part_block(part, BLOCK_LINES, (uint32_t)thread->index,
                              sizeof(LineSums) + number * sizeof(LineRecord));
    if (block == NULL || (found = calloc(1, sizeof *found)) == NULL)
        return NULL;
    *found = wanted;
    found->sums = (LineSums *)(block + 1);
    found->sums->key = (uint64_t)routine->node_key;
    found->sums->first = (uint64_t)first;
    found->sums->number = number;
    return table_put(&sums, hash, found) == 0 ? found : NULL;
}

/* Ticks of routines, and imports, that the node's lines have called and that are not theirs. */
static inline uint64_t apart_ticks(const LineNode *at)
{
    uint64_t ticks = 0;
    for (const LineApart *other = at->apart; other != NULL; other = other->next)
        ticks += other->node->inclusive;
    return ticks;
}

/* All of the node's time until now that is in no line's yet is that of the open one. */
static inline void charge(LineNode *at, uint64_t inclusive)
{
    uint64_t own = inclusive - apart_ticks(at);
    if (at->open >= 0) {
        LineRecord *line = &at->sums->lines[at->open];
        line->own += own - at->own;
        if (!at->is_inner)
            line->inclusive += inclusive - at->inclusive;
    }
    at->own = own;
    at->inclusive = inclusive;
}

static NOINLINE LineNode *add(Thread *thread, const Node *node, PyCodeObject *code)
{
    Routine *routine = routine_find(code);
    if (routine == NULL || !routine->has_lines)
        return NULL;
    int saved = errno;
    OfThread *of = of_thread(thread, routine, code);
    if (of != NULL && of->free_count == 0) {
        Block *block = part_block(part, BLOCK_LINE_NODES, (uint32_t)thread->index,
                                  NODES_A_BLOCK * sizeof(LineNode));
        of->free = (LineNode *)(block + 1);
        of->free_count = block != NULL ? NODES_A_BLOCK : 0;
    }
    errno = saved;
    if (of == NULL || of->free_count == 0)
        return NULL;
    LineNode *at = of->free;
    at->sums = of->sums;
    at->open = -1;
    at->calls = node->calls;
    for (const Node *above = node->parent; above != NULL && !at->is_inner; above = above->parent)
        at->is_inner = above->key == node->key;
    at->node = node;
    if (table_put(&nodes, key_hash(node), at) != 0) {
        at->node = NULL;
        return NULL;
    }
    of->free++;
    of->free_count--;
    return recent = at;
}

void line_begins(void *code, int number)
{
    Thread *thread = thread_mine();
    Node *node;
    if (unlikely(thread == NULL) || (node = node_running(thread, code)) == NULL)
        return;
    LineNode *at = find(node);
    if (unlikely(at == NULL) && (at = add(thread, node, code)) == NULL)
        return;
    uint64_t line = (uint64_t)number - at->sums->first;
    if (unlikely(line >= at->sums->number))
        return;
    uint64_t until = node->inclusive;
    if (at->open >= 0 && at->calls == node->calls)
        until += clock_ticks() - node->t0; /* of a new call, that is its first line's */
    charge(at, until);
    /* 3.12 tells of a line again at a jump's target in it, if the frame was resumed there. */
    int is_told_again =
        PY_VERSION_HEX < 0x030D0000 && at->goes_on && at->open == (int64_t)line;
    at->goes_on = 0;
    at->calls = node->calls;
    at->open = (int64_t)line;
    at->sums->lines[line].count += !is_told_again;
}

void line_resumes(void *code, int number)
{
    Thread *thread = thread_mine();
    Node *node;
    if (thread == NULL || (node = node_running(thread, code)) == NULL)
        return;
    LineNode *at = find(node);
    if (at == NULL && (at = add(thread, node, code)) == NULL)
        return;
    charge(at, node->inclusive);
    uint64_t line = (uint64_t)number - at->sums->first;
    at->open = line < at->sums->number ? (int64_t)line : -1;
    at->goes_on = PY_VERSION_HEX >= 0x030C0000;
}

static void keep_apart(const Thread *thread, LineNode *at, const Node *node)
{
    if (thread != apart_thread || free_apart_count == 0) {
        Block *block = part_block(part, BLOCK_LINES_APART, (uint32_t)thread->index,
                                  APART_A_BLOCK * sizeof(LineApart));
        if (block == NULL)
            return;
        apart_thread = thread;
        free_apart = (LineApart *)(block + 1);
        free_apart_count = APART_A_BLOCK;
    }
    LineApart *apart = free_apart++;
    free_apart_count--;
    apart->caller = at->node;
    apart->next = at->apart;
    apart->node = node;
    at->apart = apart;
}

/* A new call path: its time is not that of the lines that have called it, if it is the program's or
 * an import. */
static void on_path(Thread *thread, Routine *routine, Node *node)
{
    if (!lines_used || node == NULL ||
        !(routine->has_lines || routine->import || routine_is_own(routine)))
        return;
    for (const Node *above = node->parent; above != NULL; above = above->parent) {
        LineNode *at = find(above);
        if (at != NULL)
            keep_apart(thread, at, node);
        const Routine *of_above = routine_find(above->key);
        if (at != NULL || (of_above != NULL && (of_above->import || routine_is_own(of_above))))
            return;
    }
}

Listener lines_listener = {.on_path = on_path};
