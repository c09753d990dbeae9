/* What the engine and the library that hears of autograd's nodes know of each other.
 *
 * The library (autograd_library.cpp) is compiled on the user's machine against the PyTorch that is
 * installed there, since nothing of PyTorch's C++ interface is the same in two versions. The engine
 * loads it when a module is first called. */
#ifndef TAUPY_AUTOGRAD_HOST_H
#define TAUPY_AUTOGRAD_HOST_H

#include <stdint.h>

#define AUTOGRAD_HOST_VERSION 1
#define AUTOGRAD_ENTRY "taupy_autograd_begin"

typedef struct AutogradHost {
    uint32_t version;
    /* A node of the graph is about to run on the calling thread, which need not have the GIL.
     * `sequence`: its number, below 0 if it has none; `thread`: that it was made on. */
    void (*begins)(const char *name, int64_t sequence, uint64_t thread);
    void (*ends)(void);
    /* Set by the library. Of the calling thread: the number that its next node gets, and what
     * nodes call it. */
    uint64_t (*sequence)(void);
    uint64_t (*thread)(void);
} AutogradHost;

/* taupy_autograd_begin. NULL, or why it cannot. */
typedef const char *AutogradEntry(AutogradHost *host);

#endif
