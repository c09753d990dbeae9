/* The routines seen so far; see routine.h. */
#define _GNU_SOURCE
#include "routine.h"
#include "names.h"
#include "own_files.h"
#include "spans.h"

RoutineWatch *routine_watches;
Table routines, retired;
uint64_t nodes_rekeyed;
int coroutines_known, phases_known, greenlet_loaded;
static uint64_t retired_keys;

void routine_watch_add(RoutineWatch *watch)
{
    RoutineWatch **at = &routine_watches;
    for (; *at != NULL; at = &(*at)->next)
        if (*at == watch)
            return;
    *at = watch;
}

static inline int routine_is(const void *entry, const void *key)
{
    const Routine *routine = entry;
    return routine->key == key || routine->node_key == key;
}

Routine *routine_find(const void *key)
{
    return table_find(&routines, key_hash(key), routine_is, key);
}

static int routine_put(Routine *routine)
{
    return table_put(&routines, key_hash(routine->key), routine);
}

int routine_is_own(const Routine *routine)
{
    return KEY_KIND(routine->node_key) == 0 && file_is_own(&program_files, routine->file);
}

void routine_add_node(Routine *routine, Node *node)
{
    uint64_t n = routine->node_count;
    node->region = routine->region;
    if (routine->import)
        node->flags |= NODE_IMPORT;
    if (routine->is_stamped && spans_limit != 0 && !(node->flags & NODE_BRIEF))
        node->flags |= NODE_STAMPED;
    else if (spans_limit != 0 && !(node->flags & NODE_BRIEF) && routine_is_own(routine))
        node->flags |= NODE_LONG_STAMPED;
    if (key_is_brief(routine->node_key))
        node->flags |= NODE_BRIEF;
    if ((n & (n - 1)) == 0) { /* 0 or a power of two: full */
        Node **more = realloc(routine->nodes, (n ? n * 2 : 1) * sizeof *more);
        if (more == NULL) {
            /* Its key could not be changed, so keep the code object alive and its address
             * reserved. */
            if (KEY_KIND(routine->key) == 0 && !routine_has_unused_key(routine))
                Py_INCREF((PyObject *)routine->key);
            return;
        }
        routine->nodes = more;
    }
    routine->nodes[routine->node_count++] = node;
}

void routine_drop_node(Routine *routine, const Node *node)
{
    for (uint64_t i = routine->node_count; i-- > 0;) /* most are among the newest */
        if (routine->nodes[i] == node) {
            routine->nodes[i] = routine->nodes[--routine->node_count];
            return;
        }
}

/* Change the key of the routine's nodes and record. */
static void routine_rekey(Routine *routine, void *key)
{
    if (routine->generation == generation) {
        for (uint64_t i = 0; i < routine->node_count; i++) {
            Node *node = routine->nodes[i];
            node_rekey(node, (void *)((uint64_t)key | ((uint64_t)node->key & KEY_THROTTLED)));
        }
        nodes_rekeyed += routine->node_count;
        if (routine->record != NULL)
            routine->record->key = (uint64_t)key;
    }
    routine->node_key = key;
}

static uint64_t routine_name_hash(const Routine *routine)
{
    return table_hash_text(table_hash_text((uint64_t)routine->line, routine->name), routine->file);
}

static int routine_has_name(const void *entry, const void *wanted)
{
    const Routine *a = entry, *b = wanted;
    return a->line == b->line && strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0;
}

void routine_retire(Routine *routine)
{
    if (routine->node_key != routine->key)
        table_remove(&routines, key_hash(routine->key), routine);
    routine->key = routine->node_key;
    Routine *first = table_find(&retired, routine_name_hash(routine), routine_has_name, routine);
    if (first != NULL) {
        routine->next_retired = first->next_retired;
        first->next_retired = routine;
    } else
        table_put(&retired, routine_name_hash(routine), routine);
}

void routine_unkey(Routine *routine)
{
    table_remove(&routines, key_hash(routine->key), routine);
    routine_rekey(routine, (void *)(++retired_keys << 4));
    routine->key = routine->node_key;
    routine_put(routine); /* there is room: it was in the table before */
}

int routine_has_unused_key(const Routine *routine)
{
    return (uint64_t)routine->key <= retired_keys << 4;
}

void routine_adopt(Routine *routine)
{
    table_remove(&routines, key_hash(routine->node_key), routine);
    routine_rekey(routine, routine->key);
    if (routine->generation == generation && routine->record != NULL)
        routine->record->entered_key = (uint64_t)routine->key;
}

#define NODES_REKEYED_AT_ONCE 4

/* Revive a retired routine with this name, file and line for code object `key`; NULL if there is
 * none. */
static Routine *routine_revive(const Routine *alike, void *key)
{
    Routine *first = table_find(&retired, routine_name_hash(alike), routine_has_name, alike);
    if (first == NULL)
        return NULL;
    Routine *routine = first->next_retired != NULL ? first->next_retired : first;
    if (routine == first)
        table_remove(&retired, routine_name_hash(first), first);
    first->next_retired = routine->next_retired;
    routine->next_retired = NULL;
    routine->key = key;
    routine->lookups = 0;
    if (routine->generation != generation || routine->node_count <= NODES_REKEYED_AT_ONCE)
        routine_adopt(routine);
    return routine;
}

Node *routine_node(Routine *routine, Thread *thread, const Node *parent)
{
    if (routine->node_count == 0)
        return NULL;
    Node *node = node_find(thread, parent, routine->node_key);
    if (routine->node_key != routine->key && ++routine->lookups > routine->node_count)
        routine_adopt(routine);
    return node;
}

/* For routines of code objects: flags by name and file. */
static uint32_t flags_by_name(Routine *routine)
{
    uint32_t flags = 0;
    for (const RoutineWatch *watch = routine_watches; watch != NULL; watch = watch->next)
        if (watch->flags_of != NULL)
            flags |= watch->flags_of(routine);
    phases_known |= (flags & (ROUTINE_PHASE | ROUTINE_IMPORT | ROUTINE_LAYER | ROUTINE_KNOWN)) != 0;
    return flags;
}

static uint32_t flags_selected(const Routine *routine, PyObject *globals)
{
    uint32_t flags = 0;
    for (const RoutineWatch *watch = routine_watches; watch != NULL; watch = watch->next)
        if (watch->selects != NULL)
            flags |= watch->selects(routine, globals);
    return flags;
}

static int tell_met(PyObject *code, Routine *routine)
{
    int unheard = 0;
    for (const RoutineWatch *watch = routine_watches; watch != NULL; watch = watch->next)
        if (watch->met != NULL)
            unheard |= watch->met(code, routine);
    return unheard;
}

static int is_nameless(const Routine *routine)
{
    return routine->name == NULL || routine->file == NULL || routine->group == NULL;
}

/* Fill in the name and other attributes, from the key, the callable or the code object. */
static void describe(Routine *routine, PyObject *callable)
{
    if (KEY_KIND(routine->key) == KEY_TIMER) {
        const NamedTimer *timer = KEY_POINTER(routine->key);
        routine->name = strdup(timer->name);
        routine->file = strdup("");
        routine->group = strdup(timer->group);
        routine->inputs = timer->inputs;
        routine->region = timer->region;
        routine->import = timer->import;
        routine->is_stamped = timer->is_stamped;
    } else if (KEY_KIND(routine->key) == KEY_C) {
        routine->name = name_of_c_function(callable);
        routine->file = strdup("");
        routine->group = strdup("PYTHON_C");
    } else {
        PyCodeObject *code = routine->key;
        routine->name = text_of(code->co_qualname);
        routine->file = text_of(code->co_filename);
        routine->group = strdup("PYTHON");
        routine->line = code->co_firstlineno;
        if (routine->file != NULL && strstr(routine->file, "/greenlet/__init__.py") != NULL)
            greenlet_loaded = 1;
    }
}

/* The routine of a code object, possibly revived. */
static Routine *routine_of_code(Routine *routine, PyObject *code)
{
    Routine *revived = routine_revive(routine, code);
    if (revived != NULL) {
        free(routine->name);
        free(routine->file);
        free(routine->group);
        free(routine);
        routine = revived;
    }
    routine->flags |= flags_by_name(routine);
    if (tell_met(code, routine) != 0) {
        PyErr_Clear();
        Py_INCREF(code); /* then it must never be freed */
    }
    return routine;
}

Routine *routine_new(void *key, PyObject *callable, PyObject *globals)
{
    Routine *routine = calloc(1, sizeof *routine);
    if (routine == NULL)
        return NULL;
    routine->key = routine->node_key = key;
    describe(routine, callable);
    if (is_nameless(routine))
        return NULL; /* out of memory: never found again, never freed */
    routine->flags |= flags_selected(routine, globals);
    if (KEY_KIND(key) == 0) {
        int flags = ((PyCodeObject *)key)->co_flags;
        routine->is_async =
            (flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
        coroutines_known |= (int)routine->is_async;
        routine = routine_of_code(routine, key);
    }
    return routine_put(routine) == 0 ? routine : NULL;
}

Routine *routine_like(const Routine *other)
{
    Routine *routine = calloc(1, sizeof *routine);
    if (routine == NULL)
        return NULL;
    routine->key = routine->node_key = (void *)(++retired_keys << 4);
    routine->name = strdup(other->name);
    routine->file = strdup(other->file);
    routine->group = strdup(other->group);
    routine->inputs = other->inputs;
    routine->line = other->line;
    return is_nameless(routine) || routine_put(routine) != 0 ? NULL : routine;
}

Routine *routine_shown(Routine *routine)
{
    if (routine->flags & ROUTINE_EXCLUDED)
        return NULL;
    if (routine->shown == NULL)
        routine->shown = routine_like(routine);
    return routine->shown;
}

void routines_restart(void)
{
    for (uint64_t i = 0; i < table_slots(&routines); i++) {
        Routine *routine = routines.slots[i].entry;
        if (routine == NULL)
            continue;
        routine->flags &= ROUTINE_OURS;
        if (KEY_KIND(routine->node_key) == 0)
            routine->flags |= flags_by_name(routine);
    }
}

void routine_record(Routine *routine)
{
    const char *where = routine->inputs != NULL ? routine->inputs : routine->file;
    uint64_t name = strlen(routine->name), file = strlen(where),
             group = strlen(routine->group);
    Block *block = part_block(part, BLOCK_ROUTINE, 0,
                              sizeof(RoutineRecord) + name + file + group + 3);
    routine->generation = generation;
    routine->record = NULL;
    routine->node_count = 0;
    if (block == NULL)
        return;
    RoutineRecord *record = (RoutineRecord *)(block + 1);
    char *text = (char *)(record + 1);
    memcpy(text, routine->name, name);
    memcpy(text + name + 1, where, file);
    memcpy(text + name + file + 2, routine->group, group);
    record->kind = (uint32_t)KEY_KIND(routine->node_key);
    record->flags = routine->flags;
    record->line = routine->line;
    record->name_size = name;
    record->file_size = file;
    record->group_size = group;
    record->entered_key = (uint64_t)routine->node_key;
    record->key = (uint64_t)routine->node_key; /* written last: the record is complete */
    routine->record = record;
}
