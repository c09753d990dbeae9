/* What NVTX's header does in a program: at the first range it loads the library that
 * NVTX_INJECTION64_PATH names and lets it put its functions into the tables. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*Function)(void);

static int (*push)(const char *);
static int (*pop)(void);
static int (*domain_push)(void *, const void *);
static int (*domain_pop)(void *);
static void *(*register_string)(void *, const char *);

static Function *core[] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                           (Function *)&push, NULL, (Function *)&pop, NULL, NULL, NULL, NULL, NULL};
static Function *core2[] = {NULL, NULL, NULL, NULL, (Function *)&domain_push,
                            (Function *)&domain_pop, NULL, NULL, NULL, NULL,
                            (Function *)&register_string, NULL, NULL, NULL, NULL, NULL, NULL};

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

static void init(void)
{
    static int done;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (done++ || path == NULL)
        return;
    void *library = dlopen(path, RTLD_LAZY);
    int (*begin)(const void *(*)(uint32_t)) =
        library != NULL ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2")
                        : NULL;
    if (begin != NULL)
        begin(export_table);
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

/* As the Python package nvtx does: a registered string in a domain. */
EXPORT int range_push_registered(const char *name)
{
    struct {
        uint16_t version, size;
        uint32_t category;
        int32_t color_type;
        uint32_t color;
        int32_t payload_type, reserved;
        uint64_t payload;
        int32_t message_type;
        const void *message;
    } attributes = {.version = 3, .size = sizeof attributes, .message_type = 3};
    init();
    if (domain_push == NULL)
        return -2;
    attributes.message = register_string(NULL, name);
    return domain_push(NULL, &attributes);
}

EXPORT int range_pop_registered(void) { return domain_pop != NULL ? domain_pop(NULL) : -2; }
