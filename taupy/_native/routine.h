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
    ROUTINE_PHASE_ENTER = 8, /* of record_function, see phases.h */
    ROUTINE_PHASE_EXIT = 16,
    ROUTINE_LENDS = 32,      /* torch.profiler begins: it may take the GPU's records, see gpu.h */
    ROUTINE_TAKES_BACK = 64, /* it has ended */
    ROUTINE_PHASE = 120,     /* any of these four */
    ROUTINE_IMPORT = 128,    /* see imports.h */
    ROUTINE_LAYER = 256,     /* the call of a module of a network, see layers.h */
    ROUTINE_KNOWN = 1024,   /* see known.h */
    ROUTINE_PLUMBING = 512,  /* stands between that and the module's own code: not recorded */
};

enum Region { /* where all metrics are read */
    REGION_NONE = 0,
    REGION_PHASE = 1,
    REGION_COUNTED = 2, /* the program's own: counters of GPUs, too */
};

enum Range { /* what goes on when the routine that it began in returns */
    RANGE_NONE = 0,
    RANGE_NVTX = 1, /* until it is popped */
    RANGE_RECORD_FUNCTION = 2,
};

enum Backward { /* do autograd's threads work for it? */
    BACKWARD_UNKNOWN = 0,
    BACKWARD_YES = 1,
    BACKWARD_NO = 2,
};

typedef struct NamedTimer {
    char *name, *group;
    uint32_t region; /* enum Region */
    uint32_t range;  /* enum Range */
    uint32_t import; /* not 0: it is an import */
    uint32_t is_stamped; /* a layer or a phase, see spans.h */
    uint32_t brief;  /* not 0: what is below it is, see steps_window.h */
    uint32_t is_routine; /* it stands for a call: of a layer */
    struct LayerRecord *facts; /* of a layer, see layer_facts.h; of the part of that number */
    uint64_t facts_generation, calls;
} NamedTimer;

/* Does a call of something end with it? Other timers and phases end where the program says. */
static inline int key_is_routine(const void *key)
{
    return KEY_KIND(key) != KEY_TIMER || ((const NamedTimer *)KEY_POINTER(key))->is_routine;
}

static inline int key_is_brief(const void *key)
{
    return KEY_KIND(key) == KEY_TIMER && ((const NamedTimer *)KEY_POINTER(key))->brief;
}

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
    uint32_t region;       /* enum Region, as of the NamedTimer */
    uint32_t backward;     /* enum Backward */
    uint32_t import;       /* as of the NamedTimer */
    uint32_t is_stamped;   /* the same */
    uint64_t generation;   /* of the part that has its record */
    RoutineRecord *record;
    uint64_t calls, ticks; /* for throttling */
    Node **nodes;          /* all of its nodes in this part */
    uint64_t node_count;
    uint64_t lookups;      /* since its key and its nodes' differ */
    struct Routine *next_retired; /* of the same name, file and line */
    struct Routine *shown; /* with one of these flags: what is recorded stands there */
    const struct KnownRoutine *known; /* with ROUTINE_KNOWN */
    uint32_t layer_kind;   /* with ROUTINE_LAYER: enum LayerKind */
} Routine;

/* A module that knows routines when they are met. All registered ones are asked, in their order;
 * a function may be NULL. */
typedef struct RoutineWatch {
    /* Flags of any routine; `globals`: NULL for the caller's own. */
    uint32_t (*selects)(const Routine *routine, PyObject *globals);
    uint32_t (*flags_of)(Routine *routine); /* of a code object's, by its name and file */
    /* A code object has a routine. Not 0: its end will not be heard of. */
    int (*met)(PyObject *code, Routine *routine);
    /* Of routines with one of `flags`, which have no node of their own: it is called, it returns
     * (`returned`: what; NULL: an exception leaves it). 0: nothing was recorded of it. */
    uint32_t flags;
    int (*entered)(Thread *thread, Routine *routine);
    int (*left)(Thread *thread, Routine *routine, PyObject *returned);
    struct RoutineWatch *next;
} RoutineWatch;

extern RoutineWatch *routine_watches;

extern Table routines; /* by key, and by node_key where it is another */
extern Table retired;  /* by name, file and line */
extern uint64_t nodes_rekeyed; /* how much work it was, for tests */
extern int phases_known;       /* some routine has ROUTINE_PHASE, _IMPORT, _LAYER or _KNOWN */
extern int greenlet_loaded;    /* the module greenlet is being imported, or is there */

static inline uint64_t key_hash(const void *key) { return table_hash((uint64_t)key); }

/* Does nothing if it is registered already. */
void routine_watch_add(RoutineWatch *watch);
Routine *routine_find(const void *key);
/* A node of the routine; without memory for the list it is one that cannot retire. */
void routine_add_node(Routine *routine, Node *node);
/* Its node below `parent`, where the key of the code object has not led to it. */
Node *routine_node(Routine *routine, Thread *thread, const Node *parent);
/* A routine of this key, which must not be known; NULL: there is no memory for it. */
Routine *routine_new(void *key, PyObject *callable, PyObject *globals);
/* A routine with a key that nothing has, by which it can be recorded. NULL: no memory. */
Routine *routine_like(const Routine *other);
/* What stands for a routine with flags where it is recorded; NULL: it is not, or no memory. */
Routine *routine_shown(Routine *routine);
/* Selection and what is known may have changed; names stay. */
void routines_restart(void);
/* Write its record into the part that is open now. */
void routine_record(Routine *routine);

/* For codes.c: */
/* The code object of a routine is freed. Its nodes keep their key. */
void routine_retire(Routine *routine);
/* A retired routine's key is not its own any more. */
void routine_unkey(Routine *routine);
/* The nodes take over the key of the code object that is there now. */
void routine_adopt(Routine *routine);
int routine_has_unused_key(const Routine *routine);

#endif
