#define _GNU_SOURCE
#include "mapped.h"
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

static int match_mapped(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    Mapped *wanted = data;
    const char *name = info->dlpi_name, *slash = name != NULL ? strrchr(name, '/') : NULL;
    if (name == NULL || strncmp(slash != NULL ? slash + 1 : name, wanted->prefix,
                                strlen(wanted->prefix)) != 0 ||
        strlen(name) >= sizeof wanted->path)
        return 0;
    strcpy(wanted->path, name);
    return 1;
}

int find_mapped(const char *prefix, Mapped *found)
{
    found->prefix = prefix;
    found->path[0] = 0;
    return dl_iterate_phdr(match_mapped, found);
}

void *open_mapped(const char *prefix)
{
    Mapped found;
    return find_mapped(prefix, &found) ? dlopen(found.path, RTLD_NOW | RTLD_NOLOAD) : NULL;
}
