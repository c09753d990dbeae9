/* Which layer of a network a module is: the names of modules, found without running any code.
 *
 * A layer is a place: a root, or a name below another layer (children_of.h). The tree of places
 * grows by walking these at a root's first call, and below a layer in which a module is
 * called that is not known. Which module stands at a place is a hint that is checked at every
 * call, by going down from a module that is at work: addresses are used again.
 *
 * Modules are not kept alive, and nothing is put into them. A layer's name and timer are made at
 * its first call. Beyond a number of layers, modules stand for their class. */
#ifndef TAUPY_LAYER_NAMES_H
#define TAUPY_LAYER_NAMES_H

#include "routine.h"
#include <Python.h>

#define LAYERS_AT_MOST 10000
#define ROOTS_AT_MOST 8 /* of one class that have names of their own */

typedef struct Layer {
    struct Layer *above; /* NULL: a root */
    PyObject *key;       /* its name below `above`; NULL: a root */
    void *module;        /* that was here last; NULL: none. Compared only, as is its type */
    PyTypeObject *type;
    struct Layer *same;  /* the next one with this module */
    uint64_t walk;       /* the last one that has met it */
    char *name;          /* qualified; NULL: not called yet */
    const char *prefix;  /* of a root: what names below it begin with */
    void *timer;         /* key of what is recorded; NULL: not called yet */
    void *backward;      /* the same of its backward pass */
    int is_stray;        /* modules that stand below none, of one class in one layer */
} Layer;

/* A layer that is at work, and its module, which is alive therefore. */
typedef struct OpenLayer {
    Layer *layer;
    PyObject *module;  /* ours while it works */
    const void *frame; /* that it is the call of */
    const Routine *routine; /* that called it */
    void *timer;
    int is_searched;   /* what is below it, in this call */
    int is_looked_at;  /* shapes of this call, see layer_facts.h */
} OpenLayer;

/* The layer of a module that is called where `count` layers are open, outermost first; its timer
 * is there, in that group. NULL: no memory for it. */
Layer *layer_of(PyObject *module, OpenLayer *open, size_t count, const char *group);
/* Tell of each module below one that was never called, nor was any between them. */
void layers_uncalled(PyObject *module, void (*tell)(void *to, PyObject *module), void *to);

#endif
