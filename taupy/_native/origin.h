/* Whose file a code object is from: a library's or the program's.
 *
 * Imports call code of libraries millions of times, so a file is looked up only once, and what
 * `timing.h` asks at each of these calls is inline. */
#ifndef TAUPY_ORIGIN_H
#define TAUPY_ORIGIN_H

#include "table.h"
#include <Python.h>

#define FILES_MET 1024 /* slots by address */

enum Origin { OF_LIBRARY = 0, OF_PROGRAM = 1, OF_NO_FILE = 2 };

/* A file name object, kept alive so that its address is not reused. Needs the GIL. */
typedef struct FileMet {
    PyObject *name;
    enum Origin origin;
} FileMet;

extern char **library_folders; /* each ends with `/`; NULL: record imports in full */
extern FileMet files_met[FILES_MET] __attribute__((visibility("hidden")));
extern void *import_code __attribute__((visibility("hidden"))); /* of `_find_and_load` */

static inline FileMet *file_met(PyObject *name)
{
    return &files_met[table_hash((uint64_t)name) >> 54];
}

/* Whether it is known that this code is a library's, and not what imports. */
static inline int is_library_code(const void *code)
{
    PyObject *name = ((const PyCodeObject *)code)->co_filename;
    const FileMet *met = file_met(name);
    return met->name == name && met->origin == OF_LIBRARY && code != import_code;
}

enum Origin origin_of(PyObject *file);
/* The folders may have changed. */
void origins_forget(void);

#endif
