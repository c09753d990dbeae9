/* Interface between the engine and the library that observes autograd's nodes.
 *
 * The library (autograd_library.cpp) is built on the user's machine against the installed
 * PyTorch (`taupy setup torch`), because PyTorch's C++ interface is not stable between versions. The engine loads it at
 * the first module call. */
#ifndef TAUPY_AUTOGRAD_HOST_H
#define TAUPY_AUTOGRAD_HOST_H

#include <stdint.h>

#define AUTOGRAD_HOST_VERSION 1
#define AUTOGRAD_ENTRY "taupy_autograd_begin"

typedef struct AutogradHost {
    uint32_t version;
    /* A graph node is about to run on the calling thread, which need not hold the GIL. `sequence`
     * is its sequence number, negative if it has none; `thread` is the thread that created it. */
    void (*begins)(const char *name, int64_t sequence, uint64_t thread);
    void (*ends)(void);
    /* Set by the library. The sequence number of the next node created on the calling thread, and
     * PyTorch's id of that thread. */
    uint64_t (*sequence)(void);
    uint64_t (*thread)(void);
} AutogradHost;

/* taupy_autograd_begin. Returns NULL, or the reason it cannot start. */
typedef const char *AutogradEntry(AutogradHost *host);

#endif
