/* What the engine and the library that hears of collectives know of each other.
 *
 * The library (collectives_library.cpp) is compiled on the user's machine, as that of autograd.h
 * is. The engine loads it when the first group of processes has been made. */
#ifndef TAUPY_COLLECTIVES_HOST_H
#define TAUPY_COLLECTIVES_HOST_H

#include <stdint.h>

#define COLLECTIVES_HOST_VERSION 1
#define COLLECTIVES_ENTRY "taupy_collectives_begin"

typedef struct CollectivesHost {
    uint32_t version;
    /* A backend begins an operation (`gloo:all_reduce`): on a thread of the backend's own, or on
     * that which has asked for it. `asker`: what PyTorch calls the thread that asked; `bytes`: of
     * what this process gives. Returns what `ends` gets, which any thread may call. Nobody has
     * the GIL. */
    void *(*begins)(const char *name, uint64_t asker, uint64_t bytes);
    void (*ends)(void *operation);
    /* Set by the library. What PyTorch calls the calling thread. */
    uint64_t (*thread)(void);
    /* The number, from 0, of a group with a backend for CPUs, by its name; -1: there is none. */
    int (*group)(const char *name);
    /* Operations that were asked for in a group so far; UINT64_MAX: it is no more, or its
     * backend does not count them. */
    uint64_t (*asked)(int group);
} CollectivesHost;

/* taupy_collectives_begin. NULL, or why it cannot. */
typedef const char *CollectivesEntry(CollectivesHost *host);

#endif
