#include "cupti_modules.h"
#include "clock.h"
#include "collector.h"
#include "sha256.h"
#include "table.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PENDING_BYTES (64u << 20)

_Static_assert(sizeof(((GpuModule *)0)->hash) == SHA256_BYTES, "GpuModule");

/* One distinct content, however often it is loaded. */
typedef struct Module {
    GpuModule facts;
    GpuModule *written; /* in the part; owned by the worker */
    struct Module *earlier;
} Module;

/* Code of a loaded module, which the driver may free: the worker hashes and saves it. */
typedef struct Pending {
    struct Pending *next;
    GpuModule facts;
    uint32_t id;
    char code[];
} Pending;

static struct {
    int folder;
    Pending *pending;       /* newest first, atomic */
    uint64_t pending_bytes; /* atomic */
    uint64_t left;                          /* bytes, atomic */
    uint32_t left_out, unwritten, unlisted; /* atomic */
    uint32_t noted;
    pthread_mutex_t lock; /* protects everything below */
    Table known;
    Module *newest;
} modules = {.folder = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

int modules_keep(const char *folder, uint64_t limit)
{
    modules.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    modules.left = limit;
    return modules.folder >= 0 ? 0 : -1;
}

static int write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

static int take(uint64_t size)
{
    uint64_t left = __atomic_load_n(&modules.left, __ATOMIC_RELAXED);
    while (left >= size)
        if (__atomic_compare_exchange_n(&modules.left, &left, left - size, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return 0;
    return -1;
}

/* A file gets its name only when complete: another process may save the same module. */
static int keep(const char *name, const ModuleResource *module)
{
    char part[64];
    snprintf(part, sizeof part, ".%ld-%u.part", (long)getpid(), module->id);
    int file = openat(modules.folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                      0600);
    if (file < 0)
        return -1;
    int result = write_all(file, module->cubin, module->size);
    result |= close(file);
    if (result == 0)
        result = renameat(modules.folder, part, modules.folder, name);
    if (result != 0)
        unlinkat(modules.folder, part, 0);
    return result;
}

/* Save a module that is not there yet, within the limit. Returns whether it is there now. */
static int is_kept(const uint8_t *hash, const ModuleResource *module)
{
    char name[2 * SHA256_BYTES + sizeof ".cubin"];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", hash[i]);
    strcpy(name + 2 * SHA256_BYTES, ".cubin");
    if (faccessat(modules.folder, name, F_OK, 0) == 0)
        return 1;
    if (take(module->size) != 0)
        __atomic_add_fetch(&modules.left_out, 1, __ATOMIC_RELAXED);
    else if (keep(name, module) != 0)
        __atomic_add_fetch(&modules.unwritten, 1, __ATOMIC_RELAXED);
    else
        return 1;
    return 0;
}

static int is_same(const void *entry, const void *wanted)
{
    const GpuModule *one = &((const Module *)entry)->facts, *other = wanted;
    return one->size == other->size && memcmp(one->hash, other->hash, sizeof one->hash) == 0;
}

static void list(const GpuModule *facts)
{
    uint64_t hash = 0;
    memcpy(&hash, facts->hash, sizeof hash);
    hash = table_hash(hash ^ facts->size);
    pthread_mutex_lock(&modules.lock);
    Module *module = table_find(&modules.known, hash, is_same, facts);
    if (module == NULL && modules.known.count < MODULES_LISTED_AT_MOST &&
        (module = calloc(1, sizeof *module)) != NULL) {
        module->facts = *facts;
        if (table_put(&modules.known, hash, module) == 0) {
            module->earlier = modules.newest;
            modules.newest = module;
        } else {
            free(module);
            module = NULL;
        }
    }
    if (module != NULL)
        module->facts.loads++, module->facts.flags |= facts->flags;
    else
        __atomic_add_fetch(&modules.unlisted, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&modules.lock);
}

static void hash_and_list(GpuModule facts, const ModuleResource *module)
{
    int keeps = modules.folder >= 0;
    if (keeps || module->size <= MODULE_HASHED_BYTES) {
        sha256(module->cubin, module->size, facts.hash);
        facts.flags = GPU_MODULE_HASHED;
    }
    if (keeps && is_kept(facts.hash, module))
        facts.flags |= GPU_MODULE_KEPT;
    list(&facts);
}

/* Leave a copy of the code to the worker. Returns -1 if too much is waiting, or without memory. */
static int defer(const GpuModule *facts, const ModuleResource *module)
{
    size_t size = module->size;
    Pending *copy = NULL;
    if (__atomic_add_fetch(&modules.pending_bytes, size, __ATOMIC_RELAXED) <= PENDING_BYTES)
        copy = malloc(sizeof *copy + size);
    if (copy == NULL) {
        __atomic_sub_fetch(&modules.pending_bytes, size, __ATOMIC_RELAXED);
        return -1;
    }
    copy->facts = *facts;
    copy->id = module->id;
    memcpy(copy->code, module->cubin, size);
    copy->next = __atomic_load_n(&modules.pending, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&modules.pending, &copy->next, copy, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
    return 0;
}

void modules_on_loaded(const ModuleLoaded *loaded)
{
    const ModuleResource *module = loaded->module;
    int saved = errno;
    /* In a forked child, the parent may have been holding the lock. */
    if (collector.began < 0 || module == NULL || module->cubin == NULL || module->size == 0)
        return;
    GpuModule facts = {.size = module->size, .loaded = clock_ns(CLOCK_REALTIME)};
    int listed_only = modules.folder < 0 && module->size > MODULE_HASHED_BYTES;
    if (listed_only || defer(&facts, module) != 0)
        hash_and_list(facts, module);
    errno = saved;
}

static void list_pending(void)
{
    Pending *newest = __atomic_exchange_n(&modules.pending, NULL, __ATOMIC_ACQUIRE), *module = NULL;
    while (newest != NULL) { /* in order of arrival */
        Pending *next = newest->next;
        newest->next = module;
        module = newest;
        newest = next;
    }
    while (module != NULL) {
        Pending *next = module->next;
        ModuleResource resource = {module->id, module->facts.size, module->code};
        hash_and_list(module->facts, &resource);
        __atomic_sub_fetch(&modules.pending_bytes, module->facts.size, __ATOMIC_RELAXED);
        free(module);
        module = next;
    }
}

/* Write modules new since the last time, and how often each was loaded. */
static void write_list(void)
{
    pthread_mutex_lock(&modules.lock);
    for (Module *module = modules.newest; module != NULL; module = module->earlier) {
        if (module->written == NULL) {
            Block *block = part_block(collector.part, GPU_MODULE, 0, sizeof(GpuModule));
            if (block == NULL)
                break;
            module->written = (GpuModule *)(block + 1);
        }
        *module->written = module->facts;
    }
    pthread_mutex_unlock(&modules.lock);
}

void modules_note(void)
{
    list_pending();
    uint32_t left_out = __atomic_load_n(&modules.left_out, __ATOMIC_RELAXED);
    uint32_t unwritten = __atomic_load_n(&modules.unwritten, __ATOMIC_RELAXED);
    uint32_t unlisted = __atomic_load_n(&modules.unlisted, __ATOMIC_RELAXED);
    char text[128];
    write_list();
    if (left_out + unwritten + unlisted == modules.noted)
        return;
    modules.noted = left_out + unwritten + unlisted;
    snprintf(text, sizeof text, "%u beyond the limit, %u not written, %u not listed", left_out,
             unwritten, unlisted);
    gpu_part_note(collector.part, "modules.lost", text);
}
