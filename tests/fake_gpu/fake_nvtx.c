/* What NVTX's header does in a program: at the first range it loads the library that
 * NVTX_INJECTION64_PATH names and lets it put its functions into the tables. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*Function)(void);

static int (*push)(const char *);
static int (*pop)(void);
static int (*domain_push)(void *, const void *);
static int (*domain_pop)(void *);
static void *(*register_string)(void *, const char *);

static void (*mark_attributes)(const void *);
static void (*mark_text)(const char *);
static void (*mark_wide)(const wchar_t *);
static uint64_t (*start_attributes)(const void *);
static uint64_t (*start_text)(const char *);
static uint64_t (*start_wide)(const wchar_t *);
static void (*end)(uint64_t);
static void (*domain_mark)(void *, const void *);
static uint64_t (*domain_start)(void *, const void *);
static void (*domain_end)(void *, uint64_t);
static void *(*register_wide)(void *, const wchar_t *);
static void *(*domain_create)(const char *);

static Function *core[17] = {
    [1] = (Function *)&mark_attributes,  [2] = (Function *)&mark_text,
    [3] = (Function *)&mark_wide,        [4] = (Function *)&start_attributes,
    [5] = (Function *)&start_text,       [6] = (Function *)&start_wide,
    [7] = (Function *)&end,              [9] = (Function *)&push,
    [11] = (Function *)&pop,
};
static Function *core2[17] = {
    [1] = (Function *)&domain_mark,      [2] = (Function *)&domain_start,
    [3] = (Function *)&domain_end,       [4] = (Function *)&domain_push,
    [5] = (Function *)&domain_pop,       [10] = (Function *)&register_string,
    [11] = (Function *)&register_wide,   [12] = (Function *)&domain_create,
};

static int function_table(int module, Function ***table, unsigned *size)
{
    *table = module == 1 ? core : module == 5 ? core2 : NULL;
    *size = 16;
    return *table != NULL;
}

static const struct {
    size_t size;
    int (*function_table)(int, Function ***, unsigned *);
} callbacks = {sizeof callbacks, function_table};

static const void *export_table(uint32_t id) { return id == 1 ? &callbacks : NULL; }

static void inject(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (path == NULL)
        return;
    void *library = dlopen(path, RTLD_LAZY);
    int (*begin)(const void *(*)(uint32_t)) =
        library != NULL ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2")
                        : NULL;
    if (begin != NULL)
        begin(export_table);
}

/* Other threads wait until the tables are filled, as in NVTX's header. */
static void init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, inject);
}

EXPORT int range_push(const char *name)
{
    init();
    return push != NULL ? push(name) : -2;
}

EXPORT int range_pop(void)
{
    init();
    return pop != NULL ? pop() : -2;
}

typedef struct Attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        double f64;
        int32_t i32;
    } payload;
    int32_t message_type;
    const void *message;
} Attributes;

/* As the Python package nvtx does: a registered string in a domain. */
EXPORT int range_push_registered(const char *name)
{
    Attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = 3};
    init();
    if (domain_push == NULL)
        return -2;
    attributes.message = register_string(NULL, name);
    return domain_push(NULL, &attributes);
}

EXPORT int range_pop_registered(void) { return domain_pop != NULL ? domain_pop(NULL) : -2; }

/* As XLA does: only where there is somebody who makes domains. */
static void *xla_domain(void)
{
    init();
    return domain_create != NULL ? domain_create("TSL") : NULL;
}

/* NVTX's extension for payloads, and what XLA's annotation.cc attaches to an operation's range. */
typedef struct Entry {
    uint64_t flags, type;
    const char *name, *description;
    uint64_t detail, offset;
    const void *semantics, *reserved;
} Entry;

typedef struct Schema {
    uint64_t fields;
    const char *name;
    uint64_t type, flags;
    const Entry *entries;
    size_t entries_count, payload_size, alignment;
    uint64_t id;
    void *extension;
} Schema;

typedef struct Payload {
    uint64_t schema;
    size_t size;
    const void *bytes;
} Payload;

static struct Basic {
    void *hlo, *locations, *called;
} basic;
static Payload payload;

static uint64_t schema_of_xla(void)
{
    static intptr_t slots[63];
    static struct {
        size_t id, count;
        intptr_t *slots;
    } segment = {0, 63, slots};
    struct {
        uint16_t version, size, module, compatible;
        size_t segments_count;
        void *segments, *exports;
        const void *info;
    } module = {3, sizeof module, 2, 0x0104, 1, &segment, NULL, NULL};
    static const Entry entries[] = {
        {.type = 80, .name = "Source locations", .offset = offsetof(struct Basic, locations)},
        {.type = 80, .name = "HLO", .offset = offsetof(struct Basic, hlo)},
        {.type = 80, .name = "Called HLO", .offset = offsetof(struct Basic, called)},
    };
    Schema schema = {.fields = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6, .name = "XlaInstruction",
                     .type = 1, .entries = entries, .entries_count = 3,
                     .payload_size = sizeof(struct Basic)};
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    int (*take)(void *) =
        library != NULL ? (int (*)(void *))dlsym(library, "InitializeInjectionNvtxExtension") : NULL;
    if (take == NULL || !take(&module) || slots[0] == 0)
        return 0;
    return ((uint64_t (*)(void *, const Schema *))slots[0])(NULL, &schema);
}

/* From now on, the ranges of operations have these source locations; of a payload of `size` bytes,
 * and, if `other`, of a schema that nobody has registered. */
EXPORT int xla_sources(const char *text, size_t size, int other)
{
    static uint64_t id;
    init();
    if (id == 0)
        id = schema_of_xla();
    basic.locations = text[0] != 0 ? register_string(NULL, text) : NULL;
    payload = (Payload){other ? id + 1000 : id, size, &basic};
    return id != 0;
}

EXPORT int xla_push(const char *name)
{
    Attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = 1};
    attributes.message = name;
    if (payload.bytes != NULL && name[0] == 'T') {
        attributes.payload_type = (int32_t)0xdfbd0009;
        attributes.reserved = 1;
        attributes.payload.u64 = (uint64_t)(uintptr_t)&payload;
    }
    return xla_domain() != NULL ? domain_push(xla_domain(), &attributes) : -2;
}

EXPORT int xla_pop(void) { return xla_domain() != NULL ? domain_pop(xla_domain()) : -2; }

/* Ranges that start here and end there; `how`: plain, wide, with attributes, in a domain. */
EXPORT uint64_t range_start(const char *name, int how)
{
    wchar_t wide[256];
    Attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = 2};
    init();
    if (start_text == NULL)
        return 0;
    mbstowcs(wide, name, 256);
    attributes.message = wide;
    if (how == 1)
        return start_wide(wide);
    if (how == 2)
        return start_attributes(&attributes);
    if (how == 3) {
        attributes.message_type = 3;
        attributes.message = register_wide(NULL, L"caf\u00e9 \U0001f600");
        return domain_start(NULL, &attributes);
    }
    return start_text(name);
}

EXPORT void range_end(uint64_t id, int how)
{
    if (end != NULL)
        how == 3 ? domain_end(NULL, id) : end(id);
}

EXPORT void mark(const char *name, int how)
{
    wchar_t wide[256];
    Attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = 1};
    init();
    if (mark_text == NULL)
        return;
    mbstowcs(wide, name, 256);
    attributes.message = name;
    if (how == 0)
        mark_text(name);
    else if (how == 1)
        mark_wide(wide);
    else if (how == 2) { /* with a number */
        attributes.payload_type = 3;
        attributes.payload.f64 = 2.5;
        mark_attributes(&attributes);
    } else {
        attributes.payload_type = 5;
        attributes.payload.i32 = -4;
        domain_mark(NULL, &attributes);
    }
}
