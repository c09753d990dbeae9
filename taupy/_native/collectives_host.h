/* Interface between the engine and the library that observes collectives.
 *
 * The library (collectives_library.cpp) is built on the user's machine, like the one of
 * autograd.h. The engine loads it once the first process group exists. */
#ifndef TAUPY_COLLECTIVES_HOST_H
#define TAUPY_COLLECTIVES_HOST_H

#include <stdint.h>

#define COLLECTIVES_HOST_VERSION 1
#define COLLECTIVES_ENTRY "taupy_collectives_begin"

typedef struct CollectivesHost {
    uint32_t version;
    /* A backend begins an operation (`gloo:all_reduce`), either on a thread of its own or on the
     * thread that issued it. `asker` is PyTorch's id of the issuing thread, `bytes` the size of
     * this process's input. The result is passed to `ends`, which any thread may call. Called
     * without the GIL. */
    void *(*begins)(const char *name, uint64_t asker, uint64_t bytes);
    void (*ends)(void *operation);
    /* Set by the library. PyTorch's id of the calling thread. */
    uint64_t (*thread)(void);
    /* Index, from 0, of the named group, if it has a CPU backend; else -1. */
    int (*group)(const char *name);
    /* Operations issued in a group so far; UINT64_MAX if the group is gone or its backend does not
     * count them. */
    uint64_t (*asked)(int group);
} CollectivesHost;

/* taupy_collectives_begin. Returns NULL, or the reason it cannot start. */
typedef const char *CollectivesEntry(CollectivesHost *host);

#endif
