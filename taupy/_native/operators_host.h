/* Interface between the engine and the library that tells of operators and counts their operations.
 *
 * The library (operators_library.cpp) is built on the user's machine, like that of
 * autograd_host.h but separately, because it also needs Python's headers. */
#ifndef TAUPY_OPERATORS_HOST_H
#define TAUPY_OPERATORS_HOST_H

#include <stddef.h>
#include <stdint.h>

#define OPERATORS_HOST_VERSION 5
#define OPERATORS_ENTRY "taupy_operators_begin"
#define TENSOR_DIMENSIONS 8
#define OPERATOR_UNKNOWN (-1) /* there is no formula for its operations, */
#define OPERATOR_UNSIZED (-2) /* or there is, but not for such arguments */

enum TensorItems { TENSOR_OTHER, TENSOR_INDICES, TENSOR_FLOATS }; /* indices: int32 or int64 */

typedef struct HostTensor {
    int32_t dimensions; /* sizes beyond TENSOR_DIMENSIONS are omitted */
    int32_t item_bytes;
    int32_t kind;      /* enum TensorItems */
    int32_t is_number; /* a single item, which PyTorch keeps in memory of the CPU: `number` */
    double number;
    int64_t sizes[TENSOR_DIMENSIONS];
    int64_t items;
} HostTensor;

/* The sizes and types of an operator's inputs. */
typedef struct OperatorInputs {
    uint64_t hash; /* 0: they are unknown */
    const void *values;
    /* Write them, `float32[8x8], int64[]`, cut off to what there is room for. */
    void (*text)(const void *values, char *text, size_t room);
} OperatorInputs;

/* An operator that is recorded and has not ended. */
typedef struct OpenOperator {
    void *node;
    uint64_t generation;
} OpenOperator;

typedef struct OperatorsHost {
    uint32_t version;
    /* While operators are recorded: one begins or ends on the calling thread, which need not hold
     * the GIL. `begins` returns 0 if it is not recorded; then `ends` is not called. */
    int (*begins)(const char *name, const OperatorInputs *inputs, OpenOperator *open);
    void (*ends)(const OpenOperator *open);
    /* While operators are counted: one has ended on the calling thread, which need not hold the
     * GIL. `flop`: its floating-point operations, or one of the above. */
    void (*computed)(const char *name, int64_t flop);
    /* Set by the library. Tell of operators from now on, on all threads, of their inputs if wanted:
     * PyTorch collects them for that. */
    void (*record)(int has_inputs);
    /* Start or stop counting their operations, on all threads. */
    void (*count)(int is_on);
    /* Describe a Python object. 0: not a tensor of PyTorch's own classes with known sizes. */
    int (*tensor)(void *object, HostTensor *found);
} OperatorsHost;

/* taupy_operators_begin. Returns NULL, or the reason it cannot start. */
typedef const char *OperatorsEntry(OperatorsHost *host);

#endif
