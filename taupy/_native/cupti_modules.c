#include "cupti_modules.h"
#include "collector.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    int folder;
    uint64_t left;               /* bytes, atomically */
    uint32_t left_out, unwritten; /* atomically */
    uint32_t noted;
} modules = {.folder = -1};

int modules_keep(const char *folder, uint64_t limit)
{
    modules.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    modules.left = limit;
    return modules.folder >= 0 ? 0 : -1;
}

/* FNV-1a of 64 bits, begun with a seed: two of them name a content. */
static uint64_t content_hash(const char *bytes, size_t size, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ seed;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
    return hash;
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

/* A file is whole when it has its name: another process may keep the same module. */
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

void modules_on_loaded(const ModuleLoaded *loaded)
{
    const ModuleResource *module = loaded->module;
    char name[64];
    int saved = errno;
    if (modules.folder < 0 || module == NULL || module->cubin == NULL || module->size == 0)
        return;
    snprintf(name, sizeof name, "%016llx%016llx.cubin",
             (unsigned long long)content_hash(module->cubin, module->size, 0),
             (unsigned long long)content_hash(module->cubin, module->size, module->size + 1));
    if (faccessat(modules.folder, name, F_OK, 0) != 0) {
        if (take(module->size) != 0)
            __atomic_add_fetch(&modules.left_out, 1, __ATOMIC_RELAXED);
        else if (keep(name, module) != 0)
            __atomic_add_fetch(&modules.unwritten, 1, __ATOMIC_RELAXED);
    }
    errno = saved;
}

void modules_note(void)
{
    uint32_t left_out = __atomic_load_n(&modules.left_out, __ATOMIC_RELAXED);
    uint32_t unwritten = __atomic_load_n(&modules.unwritten, __ATOMIC_RELAXED);
    char text[128];
    if (left_out + unwritten == modules.noted)
        return;
    modules.noted = left_out + unwritten;
    snprintf(text, sizeof text, "%u beyond the limit, %u not written", left_out, unwritten);
    gpu_part_note(collector.part, "modules.lost", text);
}
