/* What the engine and the library that counts operations know of each other.
 *
 * The library (operators_library.cpp) is compiled on the user's machine, as that of autograd_host.h
 * is, and apart from it: this one needs Python's headers, too. */
#ifndef TAUPY_OPERATORS_HOST_H
#define TAUPY_OPERATORS_HOST_H

#include <stdint.h>

#define OPERATORS_HOST_VERSION 1
#define OPERATORS_ENTRY "taupy_operators_begin"
#define TENSOR_DIMENSIONS 8

typedef struct HostTensor {
    int32_t dimensions; /* beyond TENSOR_DIMENSIONS, sizes are left out */
    int32_t item_bytes;
    int64_t sizes[TENSOR_DIMENSIONS];
    int64_t items;
} HostTensor;

typedef struct OperatorsHost {
    uint32_t version;
    /* While operators are counted: one has ended on the calling thread, which need not have the
     * GIL. `flop`: its floating-point operations, -1 if there is no formula for it. */
    void (*computed)(const char *name, int64_t flop);
    /* Set by the library. Count operators from now on, on all threads, or no longer. */
    void (*count)(int is_on);
    /* Describe a Python object. 0: it is no tensor of PyTorch's own classes with known sizes. */
    int (*tensor)(void *object, HostTensor *found);
} OperatorsHost;

/* taupy_operators_begin. NULL, or why it cannot. */
typedef const char *OperatorsEntry(OperatorsHost *host);

#endif
