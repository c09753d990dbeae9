/* What was entered: the meaning of a node's key.
 *
 *     code object      a Python routine                     low bits 000
 *     PyMethodDef*     a C function                         low bits 001
 *     NamedTimer*      a timer or phase of the in-code API  low bits 010
 *
 * The keys of a throttled routine's nodes also have bit 100 set, so that no look-up finds them.
 *
 * Code objects are not kept alive. When one is freed, its routine retires. When its address is
 * reused by another code object (on 3.11, which does not report new code objects: as soon as the
 * routine retires), the record and the nodes are given an unused key, a small number. A new code
 * object with the same name, file and line takes over the retired routine, so code recreated in a
 * loop remains one routine. If the routine has many nodes, they keep their key until the new code
 * object has been looked up as often as there are nodes: code recreated for every call costs the
 * same no matter how many call paths lead to it. */
#ifndef TAUPY_ROUTINE_H
#define TAUPY_ROUTINE_H

#include "calltree.h"
#include <Python.h>

#define KEY_C 1ull
#define KEY_TIMER 2ull
#define KEY_THROTTLED 4ull
#define KEY_KIND(key) ((uint64_t)(key) & 3ull)
#define KEY_POINTER(key) ((void *)((uint64_t)(key) & ~7ull))

enum RoutineFlags {
    ROUTINE_EXCLUDED = 1,
    ROUTINE_THROTTLED = 2,
    ROUTINE_OURS = 4,
    ROUTINE_PHASE_ENTER = 8, /* from record_function, see phases.h */
    ROUTINE_PHASE_EXIT = 16,
    ROUTINE_LENDS = 32,      /* torch.profiler begins and may take the GPU's records, see gpu.h */
    ROUTINE_TAKES_BACK = 64, /* torch.profiler has ended */
    ROUTINE_PHASE = 120,     /* any of these four */
    ROUTINE_IMPORT = 128,    /* see imports.h */
    ROUTINE_LAYER = 256,     /* calls a module of a network, see layers.h */
    ROUTINE_KNOWN = 1024,   /* see known.h */
    ROUTINE_PLUMBING = 512,  /* between that and the module's own code: not recorded */
};

enum Region { /* where all metrics are read */
    REGION_NONE = 0,
    REGION_PHASE = 1,
    REGION_COUNTED = 2, /* the program's own region: GPU counters are read, too */
};

enum Range { /* what continues after the routine it began in has returned */
    RANGE_NONE = 0,
    RANGE_NVTX = 1, /* until it is popped */
    RANGE_RECORD_FUNCTION = 2,
    RANGE_TIMER = 3, /* of the in-code API, until it is stopped */
};

enum Names { /* whose names are read when the routine is called, see thread.h */
    NAMES_NONE = 0,
    NAMES_OWN = 1,
    NAMES_ALL = 2,
};

enum OfThreading { /* see thread_rows.h */
    THREADING_NONE = 0,
    THREADING_OTHER = 1, /* the module threading's */
    THREADING_WAY = 2,   /* and on the way to the routine that a thread begins in, */
    THREADING_RUN = 3,   /* which it calls */
};

enum Backward { /* whether autograd's threads work on its behalf */
    BACKWARD_UNKNOWN = 0,
    BACKWARD_YES = 1,
    BACKWARD_NO = 2,
};

typedef struct NamedTimer {
    char *name, *group;
    char *inputs; /* of an operator: their sizes and types; or NULL */
    uint32_t region; /* enum Region */
    uint32_t range;  /* enum Range */
    uint32_t import; /* nonzero: an import */
    uint32_t is_stamped; /* a layer, a phase, or a wait of taupy's own, see spans.h */
    uint32_t brief;  /* nonzero: everything below is brief, see steps_window.h */
    uint32_t is_routine; /* it represents a call, that of a layer */
    struct LayerRecord *facts; /* of a layer, see layer_facts.h; of the part with that number */
    struct LayerLooks *looks;  /* of a layer with facts */
    uint64_t facts_generation;
} NamedTimer;

static inline enum Range range_kind(const void *key)
{
    return KEY_KIND(key) == KEY_TIMER ? ((const NamedTimer *)KEY_POINTER(key))->range : RANGE_NONE;
}

/* Whether the entry ends when a call does. Other timers and phases end where the program says. */
static inline int key_is_routine(const void *key)
{
    return KEY_KIND(key) != KEY_TIMER || ((const NamedTimer *)KEY_POINTER(key))->is_routine;
}

static inline int key_is_brief(const void *key)
{
    return KEY_KIND(key) == KEY_TIMER && ((const NamedTimer *)KEY_POINTER(key))->brief;
}

/* In the part: followed by name, file and group, each NUL-terminated. In the place of the file, a
 * timer of an operator has the sizes and types of its inputs in parentheses. */
typedef struct RoutineRecord {
    uint64_t key;
    uint32_t kind; /* as KEY_KIND */
    uint32_t flags;
    int64_t line;
    uint64_t name_size, file_size, group_size; /* without the NUL */
    /* The key as it was while the routine could be entered: that of its last code object, if
     * `key` is an unused one. The watch has hashed call paths with it. */
    uint64_t entered_key;
} RoutineRecord;

typedef struct Routine {
    void *key;      /* what is entered; for a retired routine, the same as node_key */
    void *node_key; /* key of its nodes and its record */
    char *name, *file, *group;
    const char *inputs; /* as in NamedTimer */
    int64_t line;
    uint32_t flags;
    uint32_t region;       /* enum Region, as in NamedTimer */
    uint32_t backward;     /* enum Backward */
    uint32_t import;       /* as in NamedTimer */
    uint32_t is_stamped;   /* as in NamedTimer */
    uint32_t is_async;     /* a coroutine, or an asynchronous generator */
    uint64_t generation;   /* part that has its record */
    RoutineRecord *record;
    uint64_t calls, ticks; /* for throttling */
    Node **nodes;          /* all of its nodes in this part */
    uint64_t node_count;
    uint64_t lookups;      /* since its key and its nodes' key began to differ */
    struct Routine *next_retired; /* with the same name, file and line */
    struct Routine *shown; /* if one of these flags is set: the routine it is recorded as */
    const struct KnownRoutine *known; /* with ROUTINE_KNOWN */
    uint32_t layer_kind;   /* with ROUTINE_LAYER: enum LayerKind */
    uint32_t names_threads; /* enum Names */
    uint32_t has_lines;     /* see line_events.h */
    uint32_t assigns;       /* to its arguments, see arguments.c */
    uint32_t of_threading;  /* enum OfThreading */
    struct Beginner *beginner; /* threads begin in it; or NULL. See thread_rows.c */
} Routine;

/* A module that recognises routines when they are first seen. All registered watches are called, in
 * order; any function may be NULL. */
typedef struct RoutineWatch {
    /* Flags for any routine; `globals`: NULL for those of the caller. */
    uint32_t (*selects)(const Routine *routine, PyObject *globals);
    uint32_t (*flags_of)(Routine *routine); /* for routines of code objects, by name and file */
    /* A code object got a routine. Nonzero: there will be no notification when it is freed. */
    int (*met)(PyObject *code, Routine *routine);
    /* For routines with one of `flags`, which have no node of their own: it is called, or it
     * returns (`returned`: its result, or NULL for an exception). Returns 0 if nothing was
     * recorded. */
    uint32_t flags;
    int (*entered)(Thread *thread, Routine *routine);
    int (*left)(Thread *thread, Routine *routine, PyObject *returned);
    struct RoutineWatch *next;
} RoutineWatch;

extern RoutineWatch *routine_watches;

extern Table routines; /* by key, and also by node_key where it differs */
extern Table retired;  /* by name, file and line */
extern uint64_t nodes_rekeyed; /* amount of work done, for tests */
extern int coroutines_known; /* some routine is_async */
extern int phases_known;       /* some routine has ROUTINE_PHASE, _IMPORT, _LAYER or _KNOWN */
extern int greenlet_loaded;    /* the module greenlet is loaded or being imported */

static inline uint64_t key_hash(const void *key) { return table_hash((uint64_t)key); }

/* Idempotent. */
void routine_watch_add(RoutineWatch *watch);
Routine *routine_find(const void *key);
/* Whether it is code of the program, see own_files.h. */
int routine_is_own(const Routine *routine);
/* Add a node to the routine's list; if there is no memory for that, the routine cannot retire. */
void routine_add_node(Routine *routine, Node *node);
/* The node is no longer one of the routine's. */
void routine_drop_node(Routine *routine, const Node *node);
/* The routine's node below `parent`, when the code object's key has not led to it. */
Node *routine_node(Routine *routine, Thread *thread, const Node *parent);
/* Create the routine for a key, which must be unknown; NULL if memory runs out. */
Routine *routine_new(void *key, PyObject *callable, PyObject *globals);
/* A routine with an unused key, under which `other` can be recorded. NULL if memory runs out. */
Routine *routine_like(const Routine *other);
/* The routine that a flagged routine is recorded as; NULL if it is not recorded, or memory runs
 * out. */
Routine *routine_shown(Routine *routine);
/* Selection and recognised routines may have changed; names stay. */
void routines_restart(void);
/* Write the record into the current part. */
void routine_record(Routine *routine);

/* For codes.c: */
/* The routine's code object is freed. The nodes keep their key. */
void routine_retire(Routine *routine);
/* A retired routine's key no longer belongs to it. */
void routine_unkey(Routine *routine);
/* Give the nodes the key of the code object that is there now. */
void routine_adopt(Routine *routine);
int routine_has_unused_key(const Routine *routine);

#endif
