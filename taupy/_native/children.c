/* Noting the child processes that the program starts. */
#define _GNU_SOURCE
#include "children.h"
#include "process.h"
#include "thread.h"
#include <errno.h>
#include <unistd.h>

#define NOTE_BYTES 1024

typedef struct Note {
    char text[NOTE_BYTES];
    size_t size;
} Note;

static void note_bytes(Note *note, const char *bytes, size_t size)
{
    size_t room = sizeof note->text - note->size;
    size = size < room ? size : room;
    memcpy(note->text + note->size, bytes, size);
    note->size += size;
}

/* The word as bytes; empty if it is neither str nor bytes, as converting it would run the program's
 * code. */
static PyObject *as_bytes(PyObject *word)
{
    PyObject *bytes = NULL;
    if (word != NULL && PyUnicode_Check(word))
        bytes = PyUnicode_EncodeFSDefault(word);
    else if (word != NULL && PyBytes_Check(word))
        bytes = Py_NewRef(word);
    if (bytes == NULL) {
        PyErr_Clear();
        bytes = PyBytes_FromString("");
    }
    return bytes;
}

static void note_word(Note *note, PyObject *word)
{
    PyObject *bytes = as_bytes(word);
    note_bytes(note, "", 1);
    if (bytes != NULL)
        note_bytes(note, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_XDECREF(bytes);
}

/* The executable; of several, the first that can be run, in the order the child tries them. */
static PyObject *executable_of(PyObject *paths)
{
    if (paths == NULL || !(PyTuple_Check(paths) || PyList_Check(paths)))
        return paths;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(paths);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(paths, i);
        if (PyBytes_Check(item) && access(PyBytes_AS_STRING(item), X_OK) == 0)
            return item;
    }
    return n > 0 ? PySequence_Fast_GET_ITEM(paths, 0) : NULL;
}

/* The folder that relative paths refer to: the child's own, relative to ours. */
static void note_folder(Note *note, PyObject *cwd)
{
    PyObject *bytes = as_bytes(cwd);
    char here[NOTE_BYTES / 2];
    note_bytes(note, "", 1);
    if ((bytes == NULL || PyBytes_AS_STRING(bytes)[0] != '/') && getcwd(here, sizeof here) != NULL) {
        note_bytes(note, here, strlen(here));
        note_bytes(note, "/", 1);
    }
    if (bytes != NULL)
        note_bytes(note, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_XDECREF(bytes);
}

static int is_ready(void) { return is_measured() && !waiting && (part != NULL || thread_new() != NULL); }

void note_fork(pid_t pid, int64_t began_ns)
{
    static uint64_t count;
    int saved = errno;
    char text[64], name[40];
    if (!is_ready())
        return;
    snprintf(text, sizeof text, "%ld %lld", (long)pid, (long long)began_ns);
    snprintf(name, sizeof name, "taupy.fork.%llu", (unsigned long long)count++);
    metadata_write(name, text);
    errno = saved;
}

void note_child(pid_t pid, int64_t began_ns, int64_t ended_ns, PyObject *paths,
                       PyObject *command, PyObject *cwd)
{
    static uint64_t count;
    int saved = errno;
    Note note = {.size = 0};
    char head[80], name[40];
    if (!is_ready())
        return;
    note_bytes(&note, head,
               (size_t)snprintf(head, sizeof head, "%ld %lld %lld", (long)pid, (long long)began_ns,
                                (long long)ended_ns));
    note_folder(&note, cwd);
    note_word(&note, executable_of(paths));
    if (command != NULL && (PyList_Check(command) || PyTuple_Check(command)))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(command); i++)
            note_word(&note, PySequence_Fast_GET_ITEM(command, i));
    else
        note_word(&note, command);
    snprintf(name, sizeof name, "taupy.child.%llu", (unsigned long long)count++);
    metadata_write_bytes(name, note.text, note.size);
    errno = saved;
}

PyObject *noted(PyObject *result, int64_t began_ns, PyObject *paths, PyObject *command,
                       PyObject *cwd)
{
    if (result != NULL && PyLong_CheckExact(result))
        note_child((pid_t)PyLong_AsLong(result), began_ns, 0, paths, command, cwd);
    return result;
}
