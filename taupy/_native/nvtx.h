/* NVTX ranges of the program's threads become phases.
 *
 * NVTX's header looks for NVTX_INJECTION64_PATH at the program's first range and calls
 * InitializeInjectionNvtx2 in the library named there, which is this one: no CUDA needed.
 * Pushed and popped ranges are passed on to the engine; those of threads that do not hold
 * the interpreter (NCCL's, say), and ranges that start here and end there, are not phases. */
#ifndef TAUPY_NVTX_H
#define TAUPY_NVTX_H

#include "gpu_host.h"
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NVTX_DEPTH 128

typedef void (*NvtxFunction)(void);

typedef struct NvtxCallbacks {
    size_t size;
    int (*function_table)(int module, NvtxFunction ***table, unsigned *size);
} NvtxCallbacks;

typedef struct NvtxAttributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* 1: bytes, 2: wide characters, 3: registered */
    const void *message;
} NvtxAttributes;
_Static_assert(offsetof(NvtxAttributes, message) == 40, "nvtxEventAttributes_v2");

enum { NVTX_CORE = 1, NVTX_CORE2 = 5 };

typedef struct NvtxStack {
    uint32_t depth;
    uint8_t is_phase[NVTX_DEPTH];
} NvtxStack;

static const GpuHost *nvtx_host;
static __thread NvtxStack nvtx_stack __attribute__((tls_model("initial-exec")));

static int nvtx_push(const char *name)
{
    NvtxStack *stack = &nvtx_stack;
    uint32_t depth = stack->depth++;
    if (depth < NVTX_DEPTH)
        stack->is_phase[depth] =
            (uint8_t)(nvtx_host->range_push != NULL && nvtx_host->range_push(name ? name : "") == 0);
    return (int)depth;
}

static int nvtx_pop(void)
{
    NvtxStack *stack = &nvtx_stack;
    if (stack->depth == 0)
        return -1;
    uint32_t depth = --stack->depth;
    if (depth < NVTX_DEPTH && stack->is_phase[depth])
        nvtx_host->range_pop();
    return (int)depth;
}

static int nvtx_push_wide(const wchar_t *name)
{
    char text[256];
    size_t n = 0;
    for (; name != NULL && name[n] != 0 && n < sizeof text - 1; n++)
        text[n] = name[n] < 128 ? (char)name[n] : '?';
    text[n] = 0;
    return nvtx_push(text);
}

static int nvtx_push_attributes(const NvtxAttributes *attributes)
{
    if (attributes == NULL || attributes->message == NULL)
        return nvtx_push("(unnamed range)");
    if (attributes->message_type == 2)
        return nvtx_push_wide(attributes->message);
    return nvtx_push(attributes->message_type == 1 || attributes->message_type == 3
                         ? attributes->message
                         : "(unnamed range)");
}

static int nvtx_domain_push(void *domain, const NvtxAttributes *attributes)
{
    (void)domain;
    return nvtx_push_attributes(attributes);
}

static int nvtx_domain_pop(void *domain)
{
    (void)domain;
    return nvtx_pop();
}

/* The handle is the text: it lives as long as the process. */
static void *nvtx_register(void *domain, const char *text)
{
    (void)domain;
    return strdup(text != NULL ? text : "");
}

static void nvtx_take(const NvtxCallbacks *callbacks)
{
    static const struct {
        int module;
        unsigned id;
        NvtxFunction function;
    } ours[] = {
        {NVTX_CORE, 8, (NvtxFunction)nvtx_push_attributes}, /* RangePushEx */
        {NVTX_CORE, 9, (NvtxFunction)nvtx_push},            /* RangePushA */
        {NVTX_CORE, 10, (NvtxFunction)nvtx_push_wide},      /* RangePushW */
        {NVTX_CORE, 11, (NvtxFunction)nvtx_pop},            /* RangePop */
        {NVTX_CORE2, 4, (NvtxFunction)nvtx_domain_push},    /* DomainRangePushEx */
        {NVTX_CORE2, 5, (NvtxFunction)nvtx_domain_pop},     /* DomainRangePop */
        {NVTX_CORE2, 10, (NvtxFunction)nvtx_register},      /* DomainRegisterStringA */
    };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        NvtxFunction **table = NULL;
        unsigned size = 0;
        if (callbacks->function_table(ours[i].module, &table, &size) && table != NULL &&
            ours[i].id < size && table[ours[i].id] != NULL)
            *table[ours[i].id] = ours[i].function;
    }
}

#endif
