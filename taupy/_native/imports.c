/* Open imports; see imports.h. */
#include "imports.h"
#include "carry.h"
#include "frames.h"
#include "listeners.h"
#include "mpi.h"
#include "names.h"
#include "origin.h"
#include "timers.h"
#include "timing.h"

/* ROUTINE_IMPORT if this is `_find_and_load`. */
static uint32_t import_flags(Routine *routine)
{
    if (strcmp(routine->name, "_find_and_load") != 0 ||
        strcmp(routine->file, "<frozen importlib._bootstrap>") != 0)
        return 0;
    import_code = routine->key;
    return library_folders != NULL && !(routine->flags & ROUTINE_EXCLUDED) ? ROUTINE_IMPORT : 0;
}

static int is_of_main(PyObject *globals)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as all here */
    PyObject *module = modules != NULL ? PyDict_GetItemString(modules, "__main__") : NULL;
    if (globals == NULL)
        globals = PyEval_GetGlobals();
    int found = module != NULL && PyModule_Check(module) && PyModule_GetDict(module) == globals;
    PyErr_Restore(type, value, trace);
    return found;
}

static int import_skips(Thread *thread, void *key, PyObject *callable, PyObject *globals)
{
    (void)callable;
    if (KEY_KIND(key) != 0)
        return KEY_KIND(key) == KEY_C;
    if (key == import_code) {
#if PY_VERSION_HEX >= 0x030C0000
        thread->cursor->resumes++; /* for an import: as many are open inside it */
#endif
        return 1;
    }
    enum Origin origin = origin_of(((PyCodeObject *)key)->co_filename);
    return origin == OF_LIBRARY || (origin == OF_NO_FILE && !is_of_main(globals));
}

static int import_skips_return(Thread *thread, const void *key)
{
    if (key != import_code)
        return KEY_KIND(key) != KEY_TIMER;
    if (thread->cursor->resumes == 0)
        return 0;
    thread->cursor->resumes--;
    return 1;
}

/* The key of an import's row; NULL if the module is already loaded, or has no name. */
static void *import_key(PyObject *name)
{
    static unsigned names;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    if (name == NULL || !PyUnicode_CheckExact(name) || modules == NULL ||
        !PyDict_CheckExact(modules) || PyDict_Contains(modules, name) != 0)
        return NULL;
    PyObject *title = PyUnicode_FromFormat("import %U", name);
    char *text = title != NULL ? text_of(title) : NULL;
    void *key =
        text != NULL ? timer_key_among(&names, text, "import (other modules)", IMPORT_GROUP) : NULL;
    free(text);
    Py_XDECREF(title);
    return key;
}

void import_entered(Thread *thread, Routine *routine, PyObject *name)
{
    if (thread->cursor == &thread->hidden) {
        hide(thread);
        return;
    }
    int saved = errno;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    void *key = group_disabled("IMPORT") ? NULL : import_key(name);
    if (key == NULL && routine->shown == NULL)
        routine->shown = routine_like(routine);
    if (key == NULL && routine->shown != NULL)
        key = routine->shown->key;
    if (key != NULL)
        enter(key, 0, Py_None, NULL, 1);
    else
        hide(thread);
    PyErr_Restore(type, value, trace);
    errno = saved;
}

void import_left(Thread *thread, Routine *routine, uint64_t now)
{
    mpi_look();
    TELL(on_import);
    if (thread->cursor == &thread->hidden) {
        unhide(thread);
        return;
    }
    const void *shown = routine->shown != NULL ? routine->shown->key : NULL;
    Node *inner = thread->cursor, *node = inner;
    while (node->parent != NULL && !(node->flags & NODE_IMPORT) && node->key != shown)
        node = node->parent;
    if (node->parent == NULL) {
        part->unmatched++;
        return;
    }
    node->resumes = node->flags & NODE_IMPORT ? 0 : node->resumes;
    if (node == inner) {
        leave(node->key, 1);
        return;
    }
    close_down_to(thread, node, now);
    ranges_go_on(thread, inner, node, now);
}

static int on_entered(Thread *thread, Routine *routine)
{
    PyObject *name = frame_at_work(routine->key).self;
    import_entered(thread, routine, name);
    Py_XDECREF(name);
    return 1;
}

static int on_left(Thread *thread, Routine *routine, PyObject *returned)
{
    (void)returned;
    import_left(thread, routine, clock_ticks());
    return 1;
}

void imports_start(void)
{
    static NodeWatch watch = {
        .flag = NODE_IMPORT, .skips = import_skips, .skips_return = import_skips_return};
    static RoutineWatch routine_watch = {
        .flags_of = import_flags, .flags = ROUTINE_IMPORT, .entered = on_entered, .left = on_left};
    origins_forget(); /* the folders may have changed */
    node_watch_add(&watch);
    routine_watch_add(&routine_watch);
}
