/* Matching routines against patterns. */
#include "selection.h"
#include "names.h"
#include <fnmatch.h>

char **include_patterns, **exclude_patterns, **our_files;

static int matches(const char *pattern, const char *name, const char *file, int64_t line,
                   const char *module)
{
    if (strncmp(pattern, "name:", 5) == 0)
        return fnmatch(pattern + 5, name, 0) == 0;
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    if (strncmp(pattern, "file:", 5) == 0)
        return fnmatch(pattern + 5, file, 0) == 0 || fnmatch(pattern + 5, base, 0) == 0;
    if (strncmp(pattern, "module:", 7) == 0)
        return fnmatch(pattern + 7, module, 0) == 0;
    char full[1024];
    snprintf(full, sizeof full, "%s [{%s}{%lld}]", name, file, (long long)line);
    return fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, file, 0) == 0 ||
           fnmatch(pattern, base, 0) == 0 || fnmatch(pattern, full, 0) == 0;
}

static int any_matches(char **patterns, const Routine *routine, const char *module)
{
    for (; patterns != NULL && *patterns != NULL; patterns++)
        if (matches(*patterns, routine->name, routine->file, routine->line, module))
            return 1;
    return 0;
}

/* Name of the module with these globals; owned by the caller. */
static char *module_of(PyObject *globals)
{
    if (globals == NULL)
        globals = PyEval_GetGlobals();
    if (globals == NULL || !PyDict_Check(globals))
        return strdup("");
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    char *name = text_of(PyDict_GetItemString(globals, "__name__"));
    PyErr_Restore(type, value, trace);
    return name;
}

static uint32_t selects(const Routine *routine, PyObject *globals)
{
    uint32_t flags = 0;
    for (char **ours = our_files; ours != NULL && *ours != NULL; ours++)
        if (strncmp(routine->file, *ours, strlen(*ours)) == 0)
            flags |= ROUTINE_OURS;
    if (KEY_KIND(routine->key) == KEY_TIMER ||
        (include_patterns == NULL && exclude_patterns == NULL))
        return flags;
    char *module = module_of(globals);
    const char *name = module != NULL ? module : "";
    if ((include_patterns != NULL && !any_matches(include_patterns, routine, name)) ||
        any_matches(exclude_patterns, routine, name))
        flags |= ROUTINE_EXCLUDED;
    free(module);
    return flags;
}

RoutineWatch selection_watch = {.selects = selects};
