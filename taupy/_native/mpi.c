/* Methods of mpi4py's communicators; see mpi.h. */
#include "mpi.h"
#include "collectives.h"
#include "process.h"
#include "timers.h"
#include "timing.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#define METHODS 96
#define MEMBERS_AT_MOST 65536
#define OF_CYTHON "cython_function_or_method"

/* As the functions of methods are called: with an array, its length and names; or a tuple and a
 * dictionary. */
typedef PyObject *(*FastFunction)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef PyObject *(*TupleFunction)(PyObject *, PyObject *, PyObject *);

/* `kind`: the operation, in the terms of torch.distributed; "": something else that may wait for
 * other ranks; NULL: the communicator ends. */
static const struct {
    const char *class, *name, *kind;
} known_methods[] = {
    {"Comm", "Barrier", "mpi:barrier"},
    {"Comm", "barrier", "mpi:barrier"},
    {"Comm", "Bcast", "mpi:broadcast"},
    {"Comm", "bcast", "mpi:broadcast"},
    {"Comm", "Gather", "mpi:gather"},
    {"Comm", "gather", "mpi:gather"},
    {"Comm", "Gatherv", "mpi:gather"},
    {"Comm", "Scatter", "mpi:scatter"},
    {"Comm", "scatter", "mpi:scatter"},
    {"Comm", "Scatterv", "mpi:scatter"},
    {"Comm", "Allgather", "mpi:all_gather"},
    {"Comm", "allgather", "mpi:all_gather"},
    {"Comm", "Allgatherv", "mpi:all_gather"},
    {"Comm", "Alltoall", "mpi:all_to_all"},
    {"Comm", "alltoall", "mpi:all_to_all"},
    {"Comm", "Alltoallv", "mpi:all_to_all"},
    {"Comm", "Alltoallw", "mpi:all_to_all"},
    {"Comm", "Reduce", "mpi:reduce"},
    {"Comm", "reduce", "mpi:reduce"},
    {"Comm", "Allreduce", "mpi:all_reduce"},
    {"Comm", "allreduce", "mpi:all_reduce"},
    {"Comm", "Reduce_scatter_block", "mpi:reduce_scatter"},
    {"Comm", "Reduce_scatter", "mpi:reduce_scatter"},
    {"Intracomm", "Scan", "mpi:scan"},
    {"Intracomm", "scan", "mpi:scan"},
    {"Intracomm", "Exscan", "mpi:exscan"},
    {"Intracomm", "exscan", "mpi:exscan"},
    {"Comm", "Send", ""},
    {"Comm", "send", ""},
    {"Comm", "Ssend", ""},
    {"Comm", "ssend", ""},
    {"Comm", "Recv", ""},
    {"Comm", "recv", ""},
    {"Comm", "Sendrecv", ""},
    {"Comm", "sendrecv", ""},
    {"Comm", "Sendrecv_replace", ""},
    {"Comm", "Probe", ""},
    {"Comm", "probe", ""},
    {"Comm", "Mprobe", ""},
    {"Comm", "mprobe", ""},
    {"Comm", "Dup", ""},
    {"Comm", "Split", ""},
    {"Comm", "Split_type", ""},
    {"Comm", "Create", ""},
    {"Topocomm", "Neighbor_allgather", ""},
    {"Topocomm", "neighbor_allgather", ""},
    {"Topocomm", "Neighbor_allgatherv", ""},
    {"Topocomm", "Neighbor_alltoall", ""},
    {"Topocomm", "neighbor_alltoall", ""},
    {"Topocomm", "Neighbor_alltoallv", ""},
    {"Topocomm", "Neighbor_alltoallw", ""},
    {"Request", "Wait", ""},
    {"Request", "wait", ""},
    {"Request", "Waitall", ""},
    {"Request", "waitall", ""},
    {"Request", "Waitany", ""},
    {"Request", "waitany", ""},
    {"Request", "Waitsome", ""},
    {"Request", "waitsome", ""},
    {"Message", "Recv", ""},
    {"Message", "recv", ""},
    {"Win", "Fence", ""},
    {"Win", "Wait", ""},
    {"Win", "Complete", ""},
    {"Win", "Lock", ""},
    {"Win", "Unlock", ""},
    {"Comm", "Free", NULL},
    {"Comm", "Disconnect", NULL},
};

typedef struct Method {
    PyCFunction real;
    const char *kind;       /* as in `known_methods` */
    void *key, *of_unknown; /* of timers; `of_unknown`: where nobody knows who waits for whom */
    int sends_buffers;
} Method;

/* The arguments of a call. */
typedef struct Arguments {
    PyObject *const *items;
    Py_ssize_t count;
    PyObject *names;      /* of the items after `count`; NULL: none */
    PyObject *dictionary; /* of named ones; NULL: none */
} Arguments;

/* The name of communicators with the same members. */
typedef struct Name {
    char text[48];
    unsigned uses;
    uint64_t thread; /* that uses them */
    int is_unsure;   /* other ranks may number these communicators otherwise */
    struct Name *next;
} Name;

typedef struct Members {
    uint64_t handle;
    int size, rank;
    Name *name; /* NULL: it is not recorded */
    int has_failed;
    CalledGroup group;
    struct Members *next;
} Members;

/* Functions of the MPI library that need no other rank. mpi4py's own methods would release the GIL,
 * and another thread of the program would run where it does not without us. A handle is an int or a
 * pointer, whose bytes are those of a word of this size; an int is passed as one. */
typedef uint64_t Handle;
static struct {
    int (*size)(Handle, int *);
    int (*rank)(Handle, int *);
    int (*has_two_sides)(Handle, int *);
    int (*group)(Handle, Handle *);
    int (*translate)(Handle, int, const int *, Handle, int *);
    int (*free_group)(Handle *);
} mpi;

int mpi_wanted;
static PyObject *module, *in_place, *handle_of;
static PyTypeObject *communicator_type;
static Handle world, no_handle;
static Method methods[METHODS];
static size_t method_count;
static Members *held; /* communicators in use */
static Name *names;

/* ---------------------------------------------------------------- communicators */

/* The members' ranks in the job, to be freed; NULL on failure. */
static int *ranks_in_job(Handle communicator, int size)
{
    Handle group = 0, all = 0;
    int *ranks = calloc((size_t)size * 2, sizeof *ranks), *in_job = ranks + size;
    int is_known = 0;
    for (int i = 0; ranks != NULL && i < size; i++)
        ranks[i] = i;
    if (ranks != NULL && mpi.group(communicator, &group) == 0) {
        if (mpi.group(world, &all) == 0) {
            is_known = mpi.translate(group, size, ranks, all, in_job) == 0;
            mpi.free_group(&all);
        }
        mpi.free_group(&group);
    }
    if (!is_known) {
        free(ranks);
        return NULL;
    }
    memcpy(ranks, in_job, (size_t)size * sizeof *ranks);
    return ranks;
}

static Name *name_of(const char *text)
{
    Name *name = names;
    while (name != NULL && strcmp(name->text, text) != 0)
        name = name->next;
    if (name != NULL || (name = calloc(1, sizeof *name)) == NULL)
        return name;
    snprintf(name->text, sizeof name->text, "%s", text);
    name->next = names;
    return names = name;
}

/* The other ranks may have other communicators under this name. */
static void make_unsure(Members *members, const char *why)
{
    char text[200];
    collectives_calls_unsure(members->name->text, members->rank);
    snprintf(text, sizeof text, "collectives of %s cannot be matched with other ranks': %s",
             members->name->text, why);
    metadata_write("taupy.health.mpi", text);
    members->name->is_unsure = 1;
}

/* Give the communicator the name that it has on all of its ranks: its members and, of those with the
 * same members, the number. */
static void members_name(Members *members, const int *ranks, uint64_t thread)
{
    CalledGroup *group = &members->group;
    char text[48];
    uint64_t hash = 0;
    for (int i = 0; i < members->size; i++) {
        if (ranks[i] < 0)
            return; /* of another job */
        hash = table_hash(hash ^ ((uint64_t)ranks[i] + 1));
    }
    group->size = (uint64_t)members->size;
    collectives_list(ranks, (size_t)members->size, group->ranks, sizeof group->ranks);
    if (strlen(group->ranks) < 32)
        snprintf(text, sizeof text, "MPI:%.31s", group->ranks);
    else
        snprintf(text, sizeof text, "MPI:%llu-%08x", (unsigned long long)group->size,
                 (unsigned)(hash >> 32));
    if ((members->name = name_of(text)) == NULL)
        return;
    if (++members->name->uses == 1) {
        members->name->thread = thread;
        snprintf(group->name, sizeof group->name, "%s", text);
    } else
        snprintf(group->name, sizeof group->name, "%s#%u", text, members->name->uses);
    if (members->name->thread != thread && !members->name->is_unsure)
        make_unsure(members, "several threads call them, each in its own communicator");
}

static void members_end(uint64_t handle)
{
    for (Members **at = &held; *at != NULL; at = &(*at)->next)
        if ((*at)->handle == handle) {
            Members *members = *at;
            *at = members->next;
            free(members);
            return;
        }
}

static Members *members_find(uint64_t handle)
{
    Members *members = held;
    while (members != NULL && members->handle != handle)
        members = members->next;
    return members;
}

/* What we know of a communicator, from its first collective to its end; NULL: nothing. */
static Members *members_of(Handle handle, uint64_t thread)
{
    int size = 0, rank = -1, has_two_sides = 1;
    if (mpi.size(handle, &size) != 0 || mpi.rank(handle, &rank) != 0 || size < 2 ||
        size > MEMBERS_AT_MOST || rank < 0)
        return NULL; /* nobody waits in a group of one */
    Members *members = members_find(handle);
    if (members != NULL && members->size == size && members->rank == rank)
        return members;
    members_end(handle); /* one that ended elsewhere, whose handle is used again */
    if ((members = calloc(1, sizeof *members)) == NULL)
        return NULL;
    *members = (Members){.handle = handle, .size = size, .rank = rank, .next = held};
    held = members;
    int *ranks = mpi.has_two_sides(handle, &has_two_sides) == 0 && !has_two_sides
                     ? ranks_in_job(handle, size)
                     : NULL;
    if (ranks != NULL)
        members_name(members, ranks, thread);
    free(ranks);
    return members;
}

/* ---------------------------------------------------------------- calls */

static PyObject *argument(const Arguments *given, Py_ssize_t at, const char *name)
{
    if (at < given->count)
        return given->items[at];
    if (given->dictionary != NULL)
        return PyDict_GetItemString(given->dictionary, name); /* borrowed, as the others */
    for (Py_ssize_t i = 0; given->names != NULL && i < PyTuple_GET_SIZE(given->names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(given->names, i), name) == 0)
            return given->items[given->count + i];
    return NULL;
}

/* Of an object of C with a buffer; this runs none of the program's code. */
static uint64_t bytes_of(PyObject *sent)
{
    Py_buffer buffer;
    int is_sequence = sent != NULL && (PyList_CheckExact(sent) || PyTuple_CheckExact(sent));
    if (is_sequence && PySequence_Fast_GET_SIZE(sent) == 2) { /* buffer and type: all of it */
        const char *type = Py_TYPE(PySequence_Fast_GET_ITEM(sent, 1))->tp_name;
        size_t length = strlen(type);
        int is_whole = strcmp(type, "str") == 0 ||
                       (length >= 8 && strcmp(type + length - 8, "Datatype") == 0);
        sent = is_whole ? PySequence_Fast_GET_ITEM(sent, 0) : NULL;
    }
    if (sent == NULL || PyLong_Check(sent) || !PyObject_CheckBuffer(sent))
        return COLLECTIVE_BYTES_UNKNOWN;
    if (PyType_HasFeature(Py_TYPE(sent), Py_TPFLAGS_HEAPTYPE) &&
        !PyType_HasFeature(Py_TYPE(sent), Py_TPFLAGS_IMMUTABLETYPE))
        return COLLECTIVE_BYTES_UNKNOWN; /* it may be a class of the program */
    if (PyObject_GetBuffer(sent, &buffer, PyBUF_SIMPLE) != 0)
        return COLLECTIVE_BYTES_UNKNOWN;
    uint64_t bytes = (uint64_t)buffer.len;
    PyBuffer_Release(&buffer);
    return bytes;
}

/* Methods in lower case send objects, which MPI sees pickled. */
static uint64_t bytes_sent(const Method *method, const Arguments *given)
{
    const char *operation = strchr(method->kind, ':') + 1;
    if (strcmp(operation, "barrier") == 0)
        return 0;
    if (!method->sends_buffers)
        return COLLECTIVE_BYTES_UNKNOWN;
    PyObject *sent =
        argument(given, 0, strcmp(operation, "broadcast") == 0 ? "buf" : "sendbuf");
    if (sent == NULL || sent != in_place)
        return bytes_of(sent);
    int is_same = strcmp(operation, "all_reduce") == 0 || strcmp(operation, "scan") == 0 ||
                  strcmp(operation, "exscan") == 0 || strcmp(operation, "reduce") == 0;
    return is_same ? bytes_of(argument(given, 1, "recvbuf")) : COLLECTIVE_BYTES_UNKNOWN;
}

static int handle_ask(PyObject *object, Handle *handle)
{
    PyObject *answer = PyObject_CallOneArg(handle_of, object);
    int is_known = answer != NULL && PyLong_CheckExact(answer);
    if (is_known)
        *handle = PyLong_AsUnsignedLongLongMask(answer);
    Py_XDECREF(answer);
    return is_known && *handle != no_handle && *handle != 0;
}

/* The communicator whose collectives are recorded; NULL: they are not. */
static Members *known_members(const Method *method, PyObject *self, uint64_t thread)
{
    Handle handle;
    int ends = method->kind == NULL, waits = !ends && !*method->kind;
    if (waits || !PyObject_TypeCheck(self, communicator_type) || !handle_ask(self, &handle))
        return NULL;
    if (ends) {
        members_end(handle);
        return NULL;
    }
    Members *members = members_of(handle, thread);
    if (members == NULL || members->name == NULL)
        return NULL;
    if (members->has_failed && !members->name->is_unsure)
        make_unsure(members, "one of them raised an exception");
    return members->name->is_unsure ? NULL : members;
}

static PyObject *call_real(const Method *method, PyObject *self, const Arguments *given,
                           PyObject *tuple)
{
    if (tuple != NULL)
        return ((TupleFunction)(void *)method->real)(self, tuple, given->dictionary);
    return ((FastFunction)(void *)method->real)(self, given->items, given->count, given->names);
}

/* The collective has raised an exception: whether the other ranks have done it is unknown. */
static void note_failure(uint64_t handle)
{
    Members *members = members_find(handle);
    if (members != NULL)
        members->has_failed = 1;
}

/* `tuple`: of the arguments, if they came as one. */
static PyObject *called(const Method *method, PyObject *self, const Arguments *given, PyObject *tuple)
{
    Thread *thread = thread_mine();
    if (!active || thread == NULL)
        return call_real(method, self, given, tuple);
    int saved = errno;
    Members *members = known_members(method, self, thread->index);
    uint64_t handle = members != NULL ? members->handle : 0, then = generation;
    void *operation = NULL, *key = members != NULL ? method->key : method->of_unknown;
    PyErr_Clear();
    if (key != NULL)
        enter(key, 0, Py_None, NULL, 1);
    if (members != NULL)
        operation = collectives_call_begins(thread, &members->group, method->kind,
                                            bytes_sent(method, given));
    PyErr_Clear();
    errno = saved;
    PyObject *result = call_real(method, self, given, tuple), *type, *value, *trace;
    saved = errno;
    PyErr_Fetch(&type, &value, &trace);
    if (operation != NULL)
        collectives_call_ends(operation, result == NULL);
    if (handle != 0 && result == NULL)
        note_failure(handle);
    if (key != NULL && active && generation == then)
        leave(key, 1);
    PyErr_Restore(type, value, trace);
    errno = saved;
    return result;
}

static PyObject *called_fast(const Method *method, PyObject *self, PyObject *const *items,
                             Py_ssize_t count, PyObject *with_names)
{
    Arguments given = {.items = items, .count = count, .names = with_names};
    return called(method, self, &given, NULL);
}

static PyObject *called_tuple(const Method *method, PyObject *self, PyObject *tuple,
                              PyObject *dictionary)
{
    Arguments given = {.items = &PyTuple_GET_ITEM(tuple, 0),
                       .count = PyTuple_GET_SIZE(tuple),
                       .dictionary = dictionary};
    return called(method, self, &given, tuple);
}

/* Each method needs functions of its own. */
#define ONE(at)                                                                                    \
    static PyObject *fast_##at(PyObject *self, PyObject *const *items, Py_ssize_t count,           \
                               PyObject *with_names)                                               \
    {                                                                                              \
        return called_fast(&methods[0x##at], self, items, count, with_names);                      \
    }                                                                                              \
    static PyObject *tuple_##at(PyObject *self, PyObject *tuple, PyObject *dictionary)             \
    {                                                                                              \
        return called_tuple(&methods[0x##at], self, tuple, dictionary);                            \
    }
#define SIXTEEN(DO, high)                                                                          \
    DO(high##0) DO(high##1) DO(high##2) DO(high##3) DO(high##4) DO(high##5) DO(high##6)            \
    DO(high##7) DO(high##8) DO(high##9) DO(high##a) DO(high##b) DO(high##c) DO(high##d)            \
    DO(high##e) DO(high##f)
#define ALL(DO)                                                                                    \
    SIXTEEN(DO, 0) SIXTEEN(DO, 1) SIXTEEN(DO, 2) SIXTEEN(DO, 3) SIXTEEN(DO, 4) SIXTEEN(DO, 5)
#define FAST_NAME(at) fast_##at,
#define TUPLE_NAME(at) tuple_##at,
ALL(ONE)
static const FastFunction fast_functions[METHODS] = {ALL(FAST_NAME)};
static const TupleFunction tuple_functions[METHODS] = {ALL(TUPLE_NAME)};

/* ---------------------------------------------------------------- mpi4py */

/* The definition of a method written in C or Cython; NULL if it is none, or of another layout. */
static PyMethodDef *definition_of(PyObject *method)
{
    if (Py_IS_TYPE(method, &PyMethodDescr_Type) || Py_IS_TYPE(method, &PyClassMethodDescr_Type))
        return ((PyMethodDescrObject *)method)->d_method;
    PyTypeObject *type = Py_TYPE(method);
    size_t length = strlen(type->tp_name), wanted = sizeof OF_CYTHON - 1;
    /* Its objects begin as those of CPython's functions do, unless built for the limited API. */
    if (length < wanted || strcmp(type->tp_name + length - wanted, OF_CYTHON) != 0 ||
        type->tp_vectorcall_offset != (Py_ssize_t)offsetof(PyCFunctionObject, vectorcall) ||
        type->tp_basicsize < (Py_ssize_t)sizeof(PyCMethodObject))
        return NULL;
    return ((PyCFunctionObject *)method)->m_ml;
}

/* As it is in the class's dictionary, or below a classmethod: a new reference, or NULL. */
static PyObject *method_of(const char *class, const char *name)
{
    PyObject *type = PyObject_GetAttrString(module, class);
    PyObject *dictionary = type != NULL && PyType_Check(type) ? ((PyTypeObject *)type)->tp_dict : NULL;
    PyObject *method = dictionary != NULL ? PyDict_GetItemString(dictionary, name) : NULL;
    if (method != NULL && Py_IS_TYPE(method, &PyClassMethod_Type))
        method = PyObject_GetAttrString(method, "__func__");
    else
        Py_XINCREF(method);
    Py_XDECREF(type);
    return method;
}

static void method_look(const char *class, const char *name, const char *kind)
{
    PyObject *method = method_of(class, name);
    PyMethodDef *definition = method != NULL ? definition_of(method) : NULL;
    Method *one = &methods[method_count];
    char text[128];
    int flags = definition != NULL ? definition->ml_flags & ~METH_CLASS : 0;
    int is_fast = flags == (METH_FASTCALL | METH_KEYWORDS);
    if ((is_fast || flags == (METH_VARARGS | METH_KEYWORDS)) && method_count < METHODS &&
        strcmp(definition->ml_name, name) == 0) {
        snprintf(text, sizeof text, "MPI.%s.%s", class, name);
        *one = (Method){.real = definition->ml_meth, .kind = kind};
        one->sends_buffers = *name >= 'A' && *name <= 'Z';
        one->key = kind != NULL ? timer_key(text, COLLECTIVE_GROUP) : NULL;
        one->of_unknown = kind != NULL ? timer_key(text, WAITING_GROUP) : NULL;
        if (kind == NULL || (one->key != NULL && one->of_unknown != NULL))
            definition->ml_meth = is_fast ? (PyCFunction)(void *)fast_functions[method_count++]
                                          : (PyCFunction)(void *)tuple_functions[method_count++];
    }
    Py_XDECREF(method);
}

/* Whether everything is there by which communicators are told apart. */
static int has_all(void)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"PMPI_Comm_size", &mpi.size},         {"PMPI_Comm_rank", &mpi.rank},
        {"PMPI_Comm_test_inter", &mpi.has_two_sides}, {"PMPI_Comm_group", &mpi.group},
        {"PMPI_Group_translate_ranks", &mpi.translate}, {"PMPI_Group_free", &mpi.free_group},
    };
    PyObject *file = PyModule_GetFilenameObject(module);
    const char *path = file != NULL ? PyUnicode_AsUTF8(file) : NULL;
    void *library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL; /* never closed */
    int is_there = library != NULL && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
                   sizeof(void *) == sizeof(Handle);
    for (size_t i = 0; is_there && i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(library, wanted[i].name);
        is_there = function != NULL;
        memcpy(wanted[i].function, &function, sizeof function);
    }
    Py_XDECREF(file);
    PyObject *type = PyObject_GetAttrString(module, "Comm");
    PyObject *all = PyObject_GetAttrString(module, "COMM_WORLD");
    PyObject *null = PyObject_GetAttrString(module, "COMM_NULL");
    handle_of = PyObject_GetAttrString(module, "_handleof");
    in_place = PyObject_GetAttrString(module, "IN_PLACE");
    is_there = is_there && type != NULL && PyType_Check(type) && all != NULL && null != NULL &&
               handle_of != NULL && in_place != NULL && handle_ask(all, &world);
    communicator_type = (PyTypeObject *)type; /* kept */
    if (is_there)
        handle_ask(null, &no_handle);
    Py_XDECREF(all);
    Py_XDECREF(null);
    return is_there;
}

/* Whether the module's code still runs: not all of its classes are complete. */
static int is_being_imported(PyObject *wanted)
{
    PyObject *spec = PyObject_GetAttrString(wanted, "__spec__");
    PyObject *state = spec != NULL ? PyObject_GetAttrString(spec, "_initializing") : NULL;
    int is_running = state == Py_True;
    Py_XDECREF(state);
    Py_XDECREF(spec);
    PyErr_Clear();
    return is_running;
}

void mpi_look(void)
{
    if (!mpi_wanted || module != NULL)
        return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as `found` */
    PyObject *found = modules != NULL ? PyDict_GetItemString(modules, "mpi4py.MPI") : NULL;
    if (found != NULL && PyModule_CheckExact(found) && !is_being_imported(found)) {
        module = Py_NewRef(found);
        size_t count = has_all() ? sizeof known_methods / sizeof *known_methods : 0;
        for (size_t i = 0; i < count; i++)
            method_look(known_methods[i].class, known_methods[i].name, known_methods[i].kind);
        if (method_count == 0)
            metadata_write("taupy.health.mpi",
                           "collectives of this version of mpi4py are not recorded");
    }
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}
