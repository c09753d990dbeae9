/* Modules that the program loads onto a GPU: a list of them and, on request, their code, saved as
 * files in a folder, each distinct content once. */
#ifndef TAUPY_CUPTI_MODULES_H
#define TAUPY_CUPTI_MODULES_H

#include <stddef.h>
#include <stdint.h>

/* Larger modules are listed by size only, unless they are saved: a copy waits for its hash. */
#define MODULE_HASHED_BYTES (4u << 20)
#define MODULES_LISTED_AT_MOST 10000

typedef struct ModuleResource { /* CUpti_ModuleResourceData */
    uint32_t id;
    size_t size;
    const char *cubin;
} ModuleResource;

typedef struct ModuleLoaded { /* CUpti_ResourceData for a loaded module */
    void *context, *stream;
    const ModuleResource *module;
} ModuleLoaded;

enum { RESOURCE_MODULE_LOADED = 6 };

/* Save up to `limit` bytes to a folder. Returns 0, or -1 if the folder cannot be opened. */
int modules_keep(const char *folder, uint64_t limit);
/* Called on any thread. The worker makes the hash and the file, unless too much is waiting. */
void modules_on_loaded(const ModuleLoaded *loaded);
/* Note in the part the loaded modules, and the number of omitted ones. Called by the worker. */
void modules_note(void);

#endif
