/* Which layer of a network a module is: names for modules, found without running any code.
 *
 * A layer is a place: a root, or a name below another layer (children_of.h). The tree of places
 * grows by walking the modules at a root's first call, and again below a layer in which an unknown
 * module is called. Which module is at a place is only a hint, because addresses are reused: it is
 * verified at every call by descending from a module that is running. Modules are not kept alive,
 * and nothing is stored in them.
 *
 * A layer's name and timer are created at its first call. Beyond a maximum number of layers,
 * modules are recorded by class only. */
#ifndef TAUPY_LAYER_NAMES_H
#define TAUPY_LAYER_NAMES_H

#include "routine.h"
#include <Python.h>

#define LAYERS_AT_MOST 10000
#define ROOTS_AT_MOST 8 /* per class, that get names of their own */

typedef struct Layer { /* what each call reads comes first: one cache line */
    struct Layer *above; /* NULL: a root */
    PyObject *key;       /* name below `above`; NULL: a root */
    void *module;        /* last module seen here; NULL: none. Only compared, like its type */
    PyTypeObject *type;
    void *timer;         /* key it is recorded under; NULL: not called yet */
    void *backward;      /* the same for its backward pass */
    struct Layer *next;  /* called after it the last time; NULL: not known */
    int is_stray;        /* modules found below no other, per class and enclosing layer */
    struct Layer *same;  /* next layer with this module */
    uint64_t walk;       /* the last walk that reached it */
    char *name;          /* qualified; NULL: not called yet */
    const char *prefix;  /* root only: prefix of the names below it */
} Layer;

/* A layer being called, and its module, which is therefore alive. */
typedef struct OpenLayer {
    Layer *layer;
    PyObject *module;  /* a strong reference during the call */
    const void *frame; /* frame of the call */
    const Routine *routine; /* the calling routine */
    void *timer;
    int is_searched;   /* modules below it, during this call */
    int is_looked_at;  /* shapes of this call; see layer_facts.h */
    int64_t ids[2];    /* shape of what may be its tokens; see layer_facts.h */
    void *evaluation;  /* the timer around it, if it is evaluated; else NULL */
} OpenLayer;

/* The layer of a module called while `count` layers are open (outermost first); its timer is
 * created in the given group. NULL if memory runs out. */
Layer *layer_of(PyObject *module, OpenLayer *open, size_t count, const char *group);
/* Report each module below `module` that was never called and is not below one that was. */
void layers_uncalled(PyObject *module, void (*tell)(void *to, PyObject *module), void *to);

#endif
