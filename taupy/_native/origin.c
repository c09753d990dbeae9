/* Whose file a code object is from; see origin.h. */
#include "origin.h"
#include "names.h"
#include "routine.h"

char **library_folders;
FileMet files_met[FILES_MET];
void *import_code;

static enum Origin origin_of_path(const char *file)
{
    if (file[0] == '<')
        return strncmp(file, "<frozen ", 8) == 0 ? OF_LIBRARY : OF_NO_FILE;
    greenlet_loaded |= strstr(file, "/greenlet/__init__.py") != NULL;
    if (strstr(file, "/site-packages/") != NULL || strstr(file, "/dist-packages/") != NULL)
        return OF_LIBRARY; /* wherever that is: on PYTHONPATH, in a .pth file, a cluster's */
    for (char **folder = library_folders; folder != NULL && *folder != NULL; folder++)
        if (strncmp(file, *folder, strlen(*folder)) == 0)
            return OF_LIBRARY;
    return OF_PROGRAM;
}

static enum Origin origin_looked_up(PyObject *file, FileMet *met)
{
    PyObject *type, *value, *trace, *before = met->name;
    PyErr_Fetch(&type, &value, &trace);
    char *text = text_of(file);
    met->origin = text != NULL ? origin_of_path(text) : OF_LIBRARY;
    met->name = Py_NewRef(file);
    free(text);
    Py_XDECREF(before);
    PyErr_Restore(type, value, trace);
    return met->origin;
}

enum Origin origin_of(PyObject *file)
{
    FileMet *met = file_met(file);
    return likely(met->name == file) ? met->origin : origin_looked_up(file, met);
}

void origins_forget(void) { memset(files_met, 0, sizeof files_met); }
