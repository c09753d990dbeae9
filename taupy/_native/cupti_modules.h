/* Modules that the program loads onto a GPU: which they were, and on request their code, kept as
 * files of a folder, each content once. */
#ifndef TAUPY_CUPTI_MODULES_H
#define TAUPY_CUPTI_MODULES_H

#include <stddef.h>
#include <stdint.h>

/* Larger ones are listed by their size alone, unless they are kept: the program waits. */
#define MODULE_HASHED_BYTES (4u << 20)
#define MODULES_LISTED_AT_MOST 10000

typedef struct ModuleResource { /* CUpti_ModuleResourceData */
    uint32_t id;
    size_t size;
    const char *cubin;
} ModuleResource;

typedef struct ModuleLoaded { /* CUpti_ResourceData, where a module has been loaded */
    void *context, *stream;
    const ModuleResource *module;
} ModuleLoaded;

enum { RESOURCE_MODULE_LOADED = 6 };

/* Keep up to so many bytes in a folder. 0, or -1 where the folder cannot be opened. */
int modules_keep(const char *folder, uint64_t limit);
/* Of any thread; the program waits for hash and file. */
void modules_on_loaded(const ModuleLoaded *loaded);
/* What was loaded, and how many were left out, into the part. Called by the worker. */
void modules_note(void);

#endif
