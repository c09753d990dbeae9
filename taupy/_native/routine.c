/* What was entered: the meaning of a node's key.
 *
 *     code object      a Python routine                     low bits 000
 *     PyMethodDef*     a C function                         low bits 001
 *     NamedTimer*      a timer or phase of the in-code API  low bits 010
 *
 * A throttled routine's nodes get the bit 100 on top, so that no look-up finds them.
 *
 * Code objects are not kept alive. When one is freed its routine retires. When its address
 * becomes another code object's (on 3.11, which does not tell: at once), the record and the
 * nodes get a key that nothing has, a small number. A new code object of the same name, file and
 * line takes a retired routine over, so that code made anew in a loop stays one routine. Nodes
 * of a routine that has many keep their key until the new code object has been looked up as
 * often as there are nodes: code that is made anew for every call costs the same however many
 * call paths lead to it. */
#ifndef TAUPY_ROUTINE_H
#define TAUPY_ROUTINE_H

#include "calltree.c"
#include <Python.h>
#include <fnmatch.h>

#define KEY_C 1ull
#define KEY_TIMER 2ull
#define KEY_THROTTLED 4ull
#define KEY_KIND(key) ((uint64_t)(key) & 3ull)
#define KEY_POINTER(key) ((void *)((uint64_t)(key) & ~7ull))

enum RoutineFlags {
    ROUTINE_EXCLUDED = 1,
    ROUTINE_THROTTLED = 2,
    ROUTINE_OURS = 4,
    ROUTINE_PHASE_ENTER = 8, /* of record_function, see phases.h */
    ROUTINE_PHASE_EXIT = 16,
    ROUTINE_LENDS = 32,      /* torch.profiler begins: it may take the GPU's records, see gpu.h */
    ROUTINE_TAKES_BACK = 64, /* it has ended */
    ROUTINE_PHASE = 120,     /* any of these four */
};

static char *spill_prefix;    /* of the path where a part goes when the run folder is full */
static char *run_folder;      /* NULL: no file, anonymous memory (calibration, tests) */
static uint64_t sample_ticks; /* resident memory is sampled at most this often; 0: never */

#define RANGE_FRAMES 64 /* as many frames may lie between a range and its end */

typedef struct NamedTimer {
    char *name, *group;
    uint32_t region; /* all metrics are read at it: 1 a phase, 2 a region */
    uint32_t range;  /* it goes on when the routine it began in returns: 1 of NVTX, until it is
                        popped; 2 of record_function */
} NamedTimer;

/* In the part: followed by name, file, group, each ended by a zero byte. */
typedef struct RoutineRecord {
    uint64_t key;
    uint32_t kind; /* as KEY_KIND */
    uint32_t flags;
    int64_t line;
    uint64_t name_size, file_size, group_size; /* without the zero byte */
} RoutineRecord;

typedef struct Routine {
    void *key;      /* what is entered; of a retired routine the same as node_key */
    void *node_key; /* what its nodes and its record have */
    char *name, *file, *group;
    int64_t line;
    uint32_t flags;
    uint32_t region;       /* as of the NamedTimer */
    uint32_t backward;     /* 0: nobody has looked; 1: autograd's threads work for it; 2: no */
    uint64_t generation;   /* of the part that has its record */
    RoutineRecord *record;
    uint64_t calls, ticks; /* for throttling */
    Node **nodes;          /* all of its nodes in this part */
    uint64_t node_count;
    uint64_t lookups;      /* since its key and its nodes' differ */
    struct Routine *next_retired; /* of the same name, file and line */
    struct Routine *shown; /* with ROUTINE_PHASE: what is recorded stands there */
} Routine;

static Table routines; /* by key, and by node_key where it is another */
static Table retired;  /* by name, file and line */
static uint64_t retired_keys;
static uint64_t nodes_rekeyed; /* how much work it was, for tests */
static uint64_t generation = 1; /* counts the parts of this process image */
static int phases_known; /* some routine has ROUTINE_PHASE */
static int greenlet_loaded; /* the module greenlet is being imported, or is there */
static char **include_patterns, **exclude_patterns; /* NULL-terminated, or NULL */
static char **our_files; /* beginnings of paths whose routines are never recorded */

static char *text_of(PyObject *object)
{
    /* Never fails on lone surrogates, never leaves an exception. */
    char *text = NULL;
    PyObject *bytes = NULL;
    if (object != NULL && PyUnicode_Check(object))
        bytes = PyUnicode_AsEncodedString(object, "utf-8", "backslashreplace");
    if (bytes != NULL)
        text = strdup(PyBytes_AS_STRING(bytes)); /* stops at a NUL, which no name needs */
    else
        PyErr_Clear();
    Py_XDECREF(bytes);
    return text != NULL ? text : strdup("");
}

static int matches(const char *pattern, const char *name, const char *file, int64_t line,
                   const char *module)
{
    if (strncmp(pattern, "name:", 5) == 0)
        return fnmatch(pattern + 5, name, 0) == 0;
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    if (strncmp(pattern, "file:", 5) == 0)
        return fnmatch(pattern + 5, file, 0) == 0 || fnmatch(pattern + 5, base, 0) == 0;
    if (strncmp(pattern, "module:", 7) == 0)
        return fnmatch(pattern + 7, module, 0) == 0;
    char full[1024];
    snprintf(full, sizeof full, "%s [{%s}{%lld}]", name, file, (long long)line);
    return fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, file, 0) == 0 ||
           fnmatch(pattern, base, 0) == 0 || fnmatch(pattern, full, 0) == 0;
}

static int any_matches(char **patterns, const Routine *routine, const char *module)
{
    for (; patterns != NULL && *patterns != NULL; patterns++)
        if (matches(*patterns, routine->name, routine->file, routine->line, module))
            return 1;
    return 0;
}

static inline uint64_t key_hash(const void *key) { return table_hash((uint64_t)key); }

static inline int routine_is(const void *entry, const void *key)
{
    const Routine *routine = entry;
    return routine->key == key || routine->node_key == key;
}

static Routine *routine_find(const void *key)
{
    return table_find(&routines, key_hash(key), routine_is, key);
}

static int routine_put(Routine *routine)
{
    return table_put(&routines, key_hash(routine->key), routine);
}

/* A node of the routine; without memory for the list it is one that cannot retire. */
static void routine_add_node(Routine *routine, Node *node)
{
    uint64_t n = routine->node_count;
    node->region = routine->region;
    if ((n & (n - 1)) == 0) { /* 0 or a power of two: full */
        Node **more = realloc(routine->nodes, (n ? n * 2 : 1) * sizeof *more);
        if (more == NULL)
            return;
        routine->nodes = more;
    }
    routine->nodes[routine->node_count++] = node;
}

/* The routine's nodes and its record get another key. */
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

/* The code object of a routine is freed. Its nodes keep their key. */
static void routine_retire(Routine *routine)
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

/* A retired routine's key is not its own any more. */
static void routine_unkey(Routine *routine)
{
    table_remove(&routines, key_hash(routine->key), routine);
    routine_rekey(routine, (void *)(++retired_keys << 4));
    routine->key = routine->node_key;
    routine_put(routine); /* there is room: it was in there before */
}

/* The nodes take over the key of the code object that is there now. */
static void routine_adopt(Routine *routine)
{
    table_remove(&routines, key_hash(routine->node_key), routine);
    routine_rekey(routine, routine->key);
}

/* A retired routine of this name, file and line, now of code object `key`; NULL: none. */
#define NODES_REKEYED_AT_ONCE 4
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

/* Its node below `parent`, where the key of the code object has not led to it. */
static Node *routine_node(Routine *routine, Thread *thread, const Node *parent)
{
    if (routine->node_count == 0)
        return NULL;
    Node *node = node_find(thread, parent, routine->node_key);
    if (routine->node_key != routine->key && ++routine->lookups > routine->node_count)
        routine_adopt(routine);
    return node;
}

/* ------------------------------------------------------------------ the end of code objects */

#if PY_VERSION_HEX >= 0x030C0000

static int code_watcher = -1;

static int code_event(PyCodeEvent event, PyCodeObject *code)
{
    Routine *routine = routine_find(code);
    if (routine == NULL)
        return 0;
    if (event == PY_CODE_EVENT_DESTROY)
        routine_retire(routine);
    else if (routine->key == code) /* the address of one that is gone */
        routine_unkey(routine);
    else
        routine_adopt(routine);
    return 0;
}

static void codes_watch(void)
{
    if (code_watcher < 0 && (code_watcher = PyCode_AddWatcher(code_event)) < 0)
        PyErr_Clear(); /* others have them all */
}

/* See to it that we hear of the code object's end. Not 0: we shall not. */
static int code_note(PyObject *code, Routine *routine)
{
    (void)code, (void)routine;
    return code_watcher < 0 ? -1 : 0;
}

#else

static Py_ssize_t code_extra = -1; /* our slot in code objects: their routine */

static void code_freed(void *extra)
{
    Routine *routine = extra;
    if (routine == NULL || routine_find(routine->key) != routine)
        return;
    routine_retire(routine);
    if ((uint64_t)routine->key > retired_keys << 4)
        routine_unkey(routine);
}

static void codes_watch(void)
{
    if (code_extra < 0)
        code_extra = _PyEval_RequestCodeExtraIndex(code_freed);
}

/* What co_extra points to, as in CPython 3.11's Objects/codeobject.c. */
typedef struct CodeExtra {
    Py_ssize_t size;
    void *extras[];
} CodeExtra;

/* As above. _PyCode_SetExtra would make room for everybody who has asked for some, and who came
 * after us is then called, with NULL, for each code object that is freed, up to the interpreter's
 * end: CPython's own test_code does not survive that. So there is room for us alone. */
static int code_note(PyObject *code, Routine *routine)
{
    PyCodeObject *object = (PyCodeObject *)code;
    if (code_extra < 0)
        return -1;
    if (object->co_extra != NULL)
        return _PyCode_SetExtra(code, code_extra, routine);
    CodeExtra *extra =
        PyMem_Calloc(1, sizeof *extra + ((size_t)code_extra + 1) * sizeof *extra->extras);
    if (extra == NULL)
        return -1;
    extra->size = code_extra + 1;
    extra->extras[code_extra] = routine;
    object->co_extra = extra;
    return 0;
}

#endif

/* The class that defines a C method: the first base whose table holds it. */
static const char *owner_of(PyTypeObject *type, const PyMethodDef *method)
{
    PyObject *mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        for (const PyMethodDef *m = base->tp_methods; m != NULL && m->ml_name != NULL; m++)
            if (m == method)
                return base->tp_name;
    }
    return type->tp_name;
}

static char *name_of_c_function(PyObject *callable)
{
    const char *owner = NULL, *name = "";
    char *module = NULL, *full = NULL;
    if (callable != NULL && PyCFunction_Check(callable)) {
        PyCFunctionObject *function = (PyCFunctionObject *)callable;
        name = function->m_ml->ml_name;
        PyObject *self = PyCFunction_GET_SELF(callable);
        if (self == NULL || PyModule_Check(self)) {
            if (function->m_module != NULL && PyUnicode_Check(function->m_module))
                owner = module = text_of(function->m_module);
        } else if (PyType_Check(self))
            owner = owner_of((PyTypeObject *)self, function->m_ml);
        else
            owner = owner_of(Py_TYPE(self), function->m_ml);
    } else if (callable != NULL && Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
        PyMethodDescrObject *method = (PyMethodDescrObject *)callable;
        name = method->d_method->ml_name;
        owner = method->d_common.d_type->tp_name;
    }
    if (owner == NULL || asprintf(&full, "%s.%s", owner, name) < 0)
        full = strdup(name);
    free(module);
    return full;
}

/* Is this one of the methods by which PyTorch's record_function, or its profiler, begins and ends? */
static uint32_t phase_flags(const char *name, const char *file)
{
    static const char known[] = "torch/autograd/profiler.py";
    static const struct {
        const char *name;
        uint32_t flag;
    } methods[] = {
        {"record_function.__enter__", ROUTINE_PHASE_ENTER},
        {"record_function.__exit__", ROUTINE_PHASE_EXIT},
        {"profile._prepare_trace", ROUTINE_LENDS},
        {"profile.__exit__", ROUTINE_TAKES_BACK},
    };
    size_t size = strlen(file), length = sizeof known - 1;
    if (size < length || strcmp(file + size - length, known) != 0 ||
        (size > length && file[size - length - 1] != '/'))
        return 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].flag;
    return 0;
}

static Routine *routine_new(void *key, PyObject *callable, PyObject *globals)
{
    Routine *routine = calloc(1, sizeof *routine);
    if (routine == NULL)
        return NULL;
    routine->key = routine->node_key = key;
    char *module = NULL;
    if (KEY_KIND(key) == KEY_TIMER) {
        NamedTimer *timer = KEY_POINTER(key);
        routine->name = strdup(timer->name);
        routine->file = strdup("");
        routine->group = strdup(timer->group);
        routine->region = timer->region;
    } else if (KEY_KIND(key) == KEY_C) {
        routine->name = name_of_c_function(callable);
        routine->file = strdup("");
        routine->group = strdup("PYTHON_C");
    } else {
        PyCodeObject *code = key;
        routine->name = text_of(code->co_qualname);
        routine->file = text_of(code->co_filename);
        routine->group = strdup("PYTHON");
        routine->line = code->co_firstlineno;
        if (routine->file != NULL && strstr(routine->file, "/greenlet/__init__.py") != NULL)
            greenlet_loaded = 1;
    }
    if (routine->name == NULL || routine->file == NULL || routine->group == NULL)
        return NULL; /* out of memory: never seen again, never freed */
    for (char **ours = our_files; ours != NULL && *ours != NULL; ours++)
        if (strncmp(routine->file, *ours, strlen(*ours)) == 0)
            routine->flags |= ROUTINE_OURS;
    if (KEY_KIND(key) != KEY_TIMER && (include_patterns != NULL || exclude_patterns != NULL)) {
        if (globals != NULL && PyDict_Check(globals)) {
            PyObject *saved_type, *saved_value, *saved_trace;
            PyErr_Fetch(&saved_type, &saved_value, &saved_trace);
            PyObject *name = PyDict_GetItemString(globals, "__name__");
            module = text_of(name);
            PyErr_Restore(saved_type, saved_value, saved_trace);
        }
        const char *module_name = module != NULL ? module : "";
        if ((include_patterns != NULL && !any_matches(include_patterns, routine, module_name)) ||
            any_matches(exclude_patterns, routine, module_name))
            routine->flags |= ROUTINE_EXCLUDED;
        free(module);
    }
    if (KEY_KIND(key) == 0) {
        Routine *known = routine_revive(routine, key);
        if (known != NULL) {
            free(routine->name);
            free(routine->file);
            free(routine->group);
            free(routine);
            routine = known;
        }
        routine->flags |= phase_flags(routine->name, routine->file);
        phases_known |= (routine->flags & ROUTINE_PHASE) != 0;
        if (code_note(key, routine) != 0) {
            PyErr_Clear();
            Py_INCREF((PyObject *)key); /* then it must never be freed */
        }
    }
    return routine_put(routine) == 0 ? routine : NULL;
}

static void routine_record(Routine *routine)
{
    uint64_t name = strlen(routine->name), file = strlen(routine->file),
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
    memcpy(text + name + 1, routine->file, file);
    memcpy(text + name + file + 2, routine->group, group);
    record->kind = (uint32_t)KEY_KIND(routine->node_key);
    record->flags = routine->flags;
    record->line = routine->line;
    record->name_size = name;
    record->file_size = file;
    record->group_size = group;
    record->key = (uint64_t)routine->node_key; /* last: whole now */
    routine->record = record;
}

#endif
