#include "nvtx.h"
#include "native_ranges.h"
#include "nvtx_sources.h"
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NVTX_DEPTH 128

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
    uint64_t depth; /* nesting depth; then one bit per level: thread-local space is scarce */
    uint64_t is_phase[NVTX_DEPTH / 64], is_native[NVTX_DEPTH / 64];
} NvtxStack;

static const GpuHost *taken; /* another thread's range may have triggered loading */
static __thread NvtxStack nvtx_stack __attribute__((tls_model("initial-exec")));

static const GpuHost *nvtx_host(void) { return __atomic_load_n(&taken, __ATOMIC_ACQUIRE); }

/* The calling thread's own call path; 0: none, or it works for another thread's. */
static uint64_t nvtx_node(void)
{
    GpuPlace place = nvtx_host()->place != NULL ? nvtx_host()->place() : (GpuPlace){0, 0};
    return place.launch == place.host ? place.host : 0;
}

/* `source`: where it comes from in the program, as NVTX's user spells it; may be NULL. */
static int nvtx_push_from(const char *name, const char *source)
{
    NvtxStack *stack = &nvtx_stack;
    uint64_t depth = stack->depth++, bit = 1ull << depth % 64;
    if (depth < NVTX_DEPTH) {
        stack->is_phase[depth / 64] &= ~bit;
        stack->is_native[depth / 64] &= ~bit;
        if (nvtx_host()->range_push != NULL && nvtx_host()->range_push(name ? name : "") == 0)
            stack->is_phase[depth / 64] |= bit;
        else if (native_range_push(name ? name : "", nvtx_node(), source) == 0)
            stack->is_native[depth / 64] |= bit;
    }
    return (int)depth;
}

static int nvtx_push(const char *name) { return nvtx_push_from(name, NULL); }

static int nvtx_pop(void)
{
    NvtxStack *stack = &nvtx_stack;
    if (stack->depth == 0)
        return -1;
    uint64_t depth = --stack->depth, bit = 1ull << depth % 64;
    if (depth < NVTX_DEPTH && stack->is_phase[depth / 64] & bit)
        nvtx_host()->range_pop();
    else if (depth < NVTX_DEPTH && stack->is_native[depth / 64] & bit)
        native_range_pop();
    return (int)depth;
}

#define NVTX_TEXT 1024

/* Convert wide characters to UTF-8, as many as fit. */
static const char *nvtx_narrow(const wchar_t *wide, char text[NVTX_TEXT])
{
    size_t n = 0;
    for (; wide != NULL && *wide != 0 && n < NVTX_TEXT - 5; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = '?';
        int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
        text[n++] = (char)(first[more] | c >> 6 * more);
        while (more-- > 0)
            text[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    text[n] = 0;
    return text;
}

static const char *nvtx_message(const NvtxAttributes *attributes, char text[NVTX_TEXT])
{
    if (attributes == NULL || attributes->message == NULL || attributes->message_type < 1 ||
        attributes->message_type > 3)
        return "(unnamed)";
    return attributes->message_type == 2 ? nvtx_narrow(attributes->message, text)
                                         : attributes->message;
}

static int nvtx_push_wide(const wchar_t *name)
{
    char text[NVTX_TEXT];
    return nvtx_push(nvtx_narrow(name, text));
}

static int nvtx_push_attributes(const NvtxAttributes *attributes)
{
    char text[NVTX_TEXT];
    const char *source = NULL;
    if (attributes != NULL && attributes->payload_type == NVTX_PAYLOAD_EXTENDED &&
        attributes->reserved > 0)
        source = nvtx_source((const NvtxPayload *)(uintptr_t)attributes->payload,
                             (size_t)attributes->reserved);
    return nvtx_push_from(nvtx_message(attributes, text), source);
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

/* ---------------------------------------------------------------- process-wide ranges */

static uint64_t nvtx_start(const char *name)
{
    return nvtx_host()->range_start != NULL ? nvtx_host()->range_start(name ? name : "") : 0;
}

static uint64_t nvtx_start_wide(const wchar_t *name)
{
    char text[NVTX_TEXT];
    return nvtx_start(nvtx_narrow(name, text));
}

static uint64_t nvtx_start_attributes(const NvtxAttributes *attributes)
{
    char text[NVTX_TEXT];
    return nvtx_start(nvtx_message(attributes, text));
}

static uint64_t nvtx_domain_start(void *domain, const NvtxAttributes *attributes)
{
    (void)domain;
    return nvtx_start_attributes(attributes);
}

static void nvtx_end(uint64_t id)
{
    if (nvtx_host()->range_end != NULL)
        nvtx_host()->range_end(id);
}

static void nvtx_domain_end(void *domain, uint64_t id)
{
    (void)domain;
    nvtx_end(id);
}

/* ---------------------------------------------------------------- marks */

static void nvtx_mark(const char *name)
{
    if (nvtx_host()->mark != NULL)
        nvtx_host()->mark(name ? name : "", NULL);
}

static void nvtx_mark_wide(const wchar_t *name)
{
    char text[NVTX_TEXT];
    nvtx_mark(nvtx_narrow(name, text));
}

/* The number attached to a mark; 0 if there is none, or none that can be summed. */
static int nvtx_payload(const NvtxAttributes *attributes, double *value)
{
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload = {.u64 = attributes->payload};
    switch (attributes->payload_type) {
    case 1: *value = (double)payload.u64; break;
    case 2: *value = (double)payload.i64; break;
    case 3: *value = payload.f64; break;
    case 4: *value = payload.u32; break;
    case 5: *value = payload.i32; break;
    case 6: *value = payload.f32; break;
    default: return 0;
    }
    return *value - *value == 0; /* finite */
}

static void nvtx_mark_attributes(const NvtxAttributes *attributes)
{
    char text[NVTX_TEXT];
    double value;
    if (nvtx_host()->mark != NULL)
        nvtx_host()->mark(nvtx_message(attributes, text),
                        attributes != NULL && nvtx_payload(attributes, &value) ? &value : NULL);
}

static void nvtx_domain_mark(void *domain, const NvtxAttributes *attributes)
{
    (void)domain;
    nvtx_mark_attributes(attributes);
}

/* The handle is the string itself: it lives as long as the process. */
static void *nvtx_register(void *domain, const char *text)
{
    (void)domain;
    return strdup(text != NULL ? text : "");
}

static void *nvtx_register_wide(void *domain, const wchar_t *wide)
{
    char text[NVTX_TEXT];
    return nvtx_register(domain, nvtx_narrow(wide, text));
}

/* Without domains, XLA pushes no ranges. All domains are treated alike. */
static void *nvtx_domain_create(const void *name)
{
    static char domain;
    (void)name;
    return &domain;
}

void nvtx_take(const NvtxCallbacks *callbacks, const GpuHost *host)
{
    static const struct {
        int module;
        unsigned id;
        NvtxFunction function;
    } ours[] = {
        {NVTX_CORE, 1, (NvtxFunction)nvtx_mark_attributes},  /* MarkEx */
        {NVTX_CORE, 2, (NvtxFunction)nvtx_mark},             /* MarkA */
        {NVTX_CORE, 3, (NvtxFunction)nvtx_mark_wide},        /* MarkW */
        {NVTX_CORE, 4, (NvtxFunction)nvtx_start_attributes}, /* RangeStartEx */
        {NVTX_CORE, 5, (NvtxFunction)nvtx_start},            /* RangeStartA */
        {NVTX_CORE, 6, (NvtxFunction)nvtx_start_wide},       /* RangeStartW */
        {NVTX_CORE, 7, (NvtxFunction)nvtx_end},              /* RangeEnd */
        {NVTX_CORE, 8, (NvtxFunction)nvtx_push_attributes},  /* RangePushEx */
        {NVTX_CORE, 9, (NvtxFunction)nvtx_push},             /* RangePushA */
        {NVTX_CORE, 10, (NvtxFunction)nvtx_push_wide},       /* RangePushW */
        {NVTX_CORE, 11, (NvtxFunction)nvtx_pop},             /* RangePop */
        {NVTX_CORE2, 1, (NvtxFunction)nvtx_domain_mark},     /* DomainMarkEx */
        {NVTX_CORE2, 2, (NvtxFunction)nvtx_domain_start},    /* DomainRangeStartEx */
        {NVTX_CORE2, 3, (NvtxFunction)nvtx_domain_end},      /* DomainRangeEnd */
        {NVTX_CORE2, 4, (NvtxFunction)nvtx_domain_push},     /* DomainRangePushEx */
        {NVTX_CORE2, 5, (NvtxFunction)nvtx_domain_pop},      /* DomainRangePop */
        {NVTX_CORE2, 10, (NvtxFunction)nvtx_register},       /* DomainRegisterStringA */
        {NVTX_CORE2, 11, (NvtxFunction)nvtx_register_wide},  /* DomainRegisterStringW */
        {NVTX_CORE2, 12, (NvtxFunction)nvtx_domain_create},  /* DomainCreateA */
        {NVTX_CORE2, 13, (NvtxFunction)nvtx_domain_create},  /* DomainCreateW */
    };
    __atomic_store_n(&taken, host, __ATOMIC_RELEASE);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        NvtxFunction **table = NULL;
        unsigned size = 0;
        if (callbacks->function_table(ours[i].module, &table, &size) && table != NULL &&
            ours[i].id < size && table[ours[i].id] != NULL)
            *table[ours[i].id] = ours[i].function;
    }
}
