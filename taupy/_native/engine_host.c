#define _GNU_SOURCE
#include "engine_host.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef struct Search {
    char folder[4096], path[4096];
} Search;

static int match_engine(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    Search *search = data;
    size_t length = strlen(search->folder);
    if (info->dlpi_name == NULL || strncmp(info->dlpi_name, search->folder, length) != 0 ||
        strncmp(info->dlpi_name + length, "engine.", 7) != 0 ||
        strlen(info->dlpi_name) >= sizeof search->path)
        return 0;
    strcpy(search->path, info->dlpi_name);
    return 1;
}

static GpuHost *engine_host_wanting(GpuHost *host)
{
    return host != NULL && host->version == GPU_HOST_VERSION && host_read(host, enabled) ? host : NULL;
}

GpuHost *engine_host(void)
{
    Search search;
    Dl_info here;
    if (dladdr((void *)engine_host, &here) == 0 || here.dli_fname == NULL ||
        strlen(here.dli_fname) >= sizeof search.folder)
        return NULL;
    strcpy(search.folder, here.dli_fname);
    char *slash = strrchr(search.folder, '/');
    if (slash == NULL)
        return NULL;
    slash[1] = 0;
    if (!dl_iterate_phdr(match_engine, &search))
        return NULL;
    void *engine = dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
    return engine != NULL ? engine_host_wanting(dlsym(engine, GPU_HOST_SYMBOL)) : NULL;
}

void engine_host_stay(void)
{
    Dl_info here;
    if (dladdr((void *)engine_host_stay, &here) != 0 && here.dli_fname != NULL)
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
