/* Notification of freed code objects: by a code watcher from 3.12 on, by co_extra on 3.11. */
#include "codes.h"

#if PY_VERSION_HEX >= 0x030C0000

static int code_watcher = -1;

static int code_event(PyCodeEvent event, PyCodeObject *code)
{
    Routine *routine = routine_find(code);
    if (routine == NULL)
        return 0;
    if (event == PY_CODE_EVENT_DESTROY)
        routine_retire(routine);
    else if (routine->key == code) /* address of a code object that is gone */
        routine_unkey(routine);
    else
        routine_adopt(routine);
    return 0;
}

void codes_watch(void)
{
    if (code_watcher < 0 && (code_watcher = PyCode_AddWatcher(code_event)) < 0)
        PyErr_Clear(); /* all watcher ids are taken */
}

/* Register for notification when the code object is freed. Nonzero: there will be none. */
static int code_note(PyObject *code, Routine *routine)
{
    (void)code, (void)routine;
    return code_watcher < 0 ? -1 : 0;
}

#else

static Py_ssize_t code_extra = -1; /* our co_extra index; holds the routine */

static void code_freed(void *extra)
{
    Routine *routine = extra;
    if (routine == NULL || routine_find(routine->key) != routine)
        return;
    routine_retire(routine);
    if (!routine_has_unused_key(routine))
        routine_unkey(routine);
}

void codes_watch(void)
{
    if (code_extra < 0)
        code_extra = _PyEval_RequestCodeExtraIndex(code_freed);
}

/* Layout of co_extra, as in CPython 3.11's Objects/codeobject.c. */
typedef struct CodeExtra {
    Py_ssize_t size;
    void *extras[];
} CodeExtra;

/* As above. _PyCode_SetExtra would allocate slots for all registered users, and the free function
 * of any user registered after us would then be called, with NULL, for every freed code object
 * until the interpreter ends: CPython's own test_code does not survive that. So we allocate slots
 * only up to our own. */
static int code_note(PyObject *code, Routine *routine)
{
    PyCodeObject *object = (PyCodeObject *)code;
    if (code_extra < 0)
        return -1;
    if (object->co_extra != NULL)
        return _PyCode_SetExtra(code, code_extra, routine);
    CodeExtra *extra =
        PyMem_Calloc(1, sizeof *extra + ((size_t)code_extra + 1) * sizeof *extra->extras);
    if (extra == NULL)
        return -1;
    extra->size = code_extra + 1;
    extra->extras[code_extra] = routine;
    object->co_extra = extra;
    return 0;
}

#endif

RoutineWatch codes_watcher = {.met = code_note};
