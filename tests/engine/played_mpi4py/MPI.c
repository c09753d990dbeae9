/* Plays mpi4py.MPI and the MPI library below it: ranks that meet in a folder, MPI_FOLDER. Compiled with
 * -DTUPLES, its methods are called as those of mpi4py 3 are; else as those of mpi4py 4. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define COMMUNICATORS 64
#define AT_MOST 8
#define EXPORTED __attribute__((visibility("default")))

typedef struct Communicator {
    int is_used, size, rank, members[AT_MOST], meetings;
} Communicator;

static Communicator held[COMMUNICATORS]; /* a handle is the place, from 1 */
static int world_rank, world_size;

/* ---------------------------------------------------------------- the MPI library */

EXPORTED int PMPI_Comm_size(int handle, int *size) { *size = held[handle].size; return !held[handle].is_used; }
EXPORTED int PMPI_Comm_rank(int handle, int *rank) { *rank = held[handle].rank; return !held[handle].is_used; }
EXPORTED int PMPI_Comm_test_inter(int handle, int *has_two) { *has_two = 0; return !held[handle].is_used; }
EXPORTED int PMPI_Comm_group(int handle, int *group) { *group = handle; return !held[handle].is_used; }
EXPORTED int PMPI_Group_free(int *group) { *group = 0; return 0; }

EXPORTED int PMPI_Group_translate_ranks(int group, int n, const int *ranks, int all, int *result)
{
    (void)all;
    for (int i = 0; i < n; i++)
        result[i] = held[group].members[ranks[i]];
    return 0;
}

static int communicator_new(const int *members, int size)
{
    int handle = 1;
    while (held[handle].is_used)
        handle++;
    held[handle] = (Communicator){.is_used = 1, .size = size};
    for (int i = 0; i < size; i++) {
        held[handle].members[i] = members[i];
        held[handle].rank = members[i] == world_rank ? i : held[handle].rank;
    }
    return handle;
}

/* Until all members have come. Without a folder, the rank is alone. */
static void meet(int handle)
{
    const char *folder = getenv("MPI_FOLDER");
    Communicator *one = &held[handle];
    char path[512];
    one->meetings++;
    for (int i = -1; folder != NULL && i < one->size; i++) {
        int who = i < 0 ? world_rank : one->members[i];
        snprintf(path, sizeof path, "%s/%d.%d.%d", folder, handle, one->meetings, who);
        if (i < 0)
            fclose(fopen(path, "w"));
        while (access(path, F_OK) != 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* ---------------------------------------------------------------- mpi4py */

typedef struct Comm {
    PyObject_HEAD
    int handle;
} Comm;

static PyTypeObject comm_type, intracomm_type;

static PyObject *comm_of(int handle)
{
    Comm *comm = PyObject_New(Comm, &intracomm_type);
    if (comm != NULL)
        comm->handle = handle;
    return (PyObject *)comm;
}

#ifdef TUPLES
#define FLAGS (METH_VARARGS | METH_KEYWORDS)
#define METHOD(name) static PyObject *name(Comm *self, PyObject *args, PyObject *names)
#define COUNT PyTuple_GET_SIZE(args)
#define FIRST PyTuple_GET_ITEM(args, 0)
#else
#define FLAGS (METH_FASTCALL | METH_KEYWORDS)
#define METHOD(name)                                                                               \
    static PyObject *name(Comm *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
#define COUNT n
#define FIRST args[0]
#endif

static PyObject *met(Comm *self)
{
    int handle = self->handle;
    Py_BEGIN_ALLOW_THREADS
    meet(handle);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

METHOD(barrier)
{
    (void)args;
    (void)names;
    return COUNT > 0 ? PyErr_Format(PyExc_TypeError, "no arguments") : met(self);
}

METHOD(reduce)
{
    (void)names;
    return COUNT > 0 && FIRST == Py_None ? PyErr_Format(PyExc_ValueError, "not None") : met(self);
}

METHOD(receive)
{
    (void)args;
    (void)names;
    (void)COUNT;
    return met(self);
}

METHOD(copy)
{
    (void)args;
    (void)names;
    (void)COUNT;
    return comm_of(communicator_new(held[self->handle].members, held[self->handle].size));
}

METHOD(evens)
{
    int members[AT_MOST], size = 0;
    (void)args;
    (void)names;
    (void)COUNT;
    for (int i = 0; i < held[self->handle].size; i += 2)
        members[size++] = held[self->handle].members[i];
    return comm_of(communicator_new(members, size));
}

METHOD(comm_free)
{
    (void)args;
    (void)names;
    (void)COUNT;
    held[self->handle].is_used = 0;
    Py_RETURN_NONE;
}

#define ONE(name, function) {name, (PyCFunction)(void *)function, FLAGS, NULL}
static PyMethodDef methods[] = {
    ONE("Barrier", barrier), ONE("Allreduce", reduce), ONE("allreduce", reduce),
    ONE("recv", receive),    ONE("Dup", copy),          ONE("Create", evens),
    ONE("Free", comm_free),  {NULL, NULL, 0, NULL},
};

static PyTypeObject comm_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi4py.MPI.Comm",
    .tp_basicsize = sizeof(Comm),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = methods,
};
static PyTypeObject intracomm_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi4py.MPI.Intracomm",
    .tp_basicsize = sizeof(Comm),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &comm_type,
};

static PyObject *handle_of(PyObject *module, PyObject *comm)
{
    (void)module;
    return PyLong_FromLong(((Comm *)comm)->handle);
}

static PyMethodDef functions[] = {{"_handleof", handle_of, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "MPI", .m_size = -1,
                                        .m_methods = functions};

static int number(const char *name, int otherwise)
{
    return getenv(name) != NULL ? atoi(getenv(name)) : otherwise;
}

PyMODINIT_FUNC PyInit_MPI(void)
{
    int members[AT_MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    world_rank = number("OMPI_COMM_WORLD_RANK", 0);
    world_size = number("OMPI_COMM_WORLD_SIZE", 4);
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyType_Ready(&comm_type) < 0 || PyType_Ready(&intracomm_type) < 0)
        return NULL;
    PyModule_AddObject(module, "Comm", Py_NewRef((PyObject *)&comm_type));
    PyModule_AddObject(module, "Intracomm", Py_NewRef((PyObject *)&intracomm_type));
    PyModule_AddObject(module, "COMM_WORLD", comm_of(communicator_new(members, world_size)));
    PyModule_AddObject(module, "COMM_NULL", comm_of(0));
    PyModule_AddObject(module, "IN_PLACE", PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type));
    return module;
}
