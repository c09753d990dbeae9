/* The call path of a launch; starting and stopping the collector. */
#define _GNU_SOURCE
#include "gpu.h"
#include "confined.h"
#include "mapped.h"
#include "memory.h"
#include "process.h"
#include <dlfcn.h>
#include <link.h>

#define GPU_INJECTION "CUDA_INJECTION64_PATH"
#define NVTX_INJECTION "NVTX_INJECTION64_PATH"
#define LEVELS_TO_BACKWARD 8

/* The collector finds this symbol by name. */
__attribute__((visibility("default"))) GpuHost taupy_gpu_host = {.version = GPU_HOST_VERSION};

char *gpu_collector;
static int gpu_lookout; /* no collector has started yet */
static Thread *backward_thread;
static int (*gpu_device_count)(int *);
static uint64_t gpu_adds, gpu_looked;
static int gpu_other_tool;
static const char *gpu_problem; /* why the collector could not be loaded */
static const char *const gpu_variables[] = {GPU_INJECTION, NVTX_INJECTION};
#define GPU_VARIABLES 2
static int gpu_named[GPU_VARIABLES]; /* set by us */

/* The innermost node near the cursor under which a backward pass is running, else NULL. */
static Node *backward_of(Thread *thread)
{
    if (thread_is_over(thread))
        return NULL;
    Node *node = visible(thread);
    for (int i = 0; node != NULL && i < LEVELS_TO_BACKWARD; i++, node = node->parent)
        if (__atomic_load_n(&node->flags, __ATOMIC_RELAXED) & NODE_BACKWARD)
            return node;
    return NULL;
}

GpuPlace gpu_place(void)
{
    Thread *thread = this_thread;
    GpuPlace place = {0, 0};
    if (!host_read(&taupy_gpu_host, enabled))
        return place;
    if (thread != NULL) {
        Node *node = visible(thread);
        thread->is_apart = 1;
        place.host = (uint64_t)node;
        if (node->parent != NULL) {
            place.launch = place.host;
            return place;
        }
    }
    Node *node = NULL;
    Thread *hint = __atomic_load_n(&backward_thread, __ATOMIC_RELAXED);
    if (hint != NULL)
        node = backward_of(hint);
    for (Thread *other = threads_now(); node == NULL && other != NULL; other = other->next)
        if (other != hint && (node = backward_of(other)) != NULL)
            __atomic_store_n(&backward_thread, other, __ATOMIC_RELAXED);
    place.launch = node != NULL ? (uint64_t)node : place.host;
    return place;
}

static uint64_t gpu_part_start(void) { return part != NULL ? part->start_ticks : 0; }

/* Whether this routine waits for other threads that work for it: autograd's, in a backward pass;
 * XLA's, which try kernels (autotuning) while JAX compiles. */
static int is_backward(const char *name, const char *file)
{
    static const char folder[] = "torch/autograd/", compiler[] = "backend_compile";
    const char *at = strstr(file, folder);
    if (at == NULL && strncmp(name, compiler, sizeof compiler - 1) == 0)
        return strstr(file, "jax/_src/compiler.py") != NULL;
    if (at == NULL)
        return strcmp(name, "run_backward") == 0;
    return strcmp(name, "_engine_run_backward") == 0 ||
           (strcmp(at + sizeof folder - 1, "__init__.py") == 0 &&
            (strcmp(name, "backward") == 0 || strcmp(name, "grad") == 0));
}

static void gpu_begin(void)
{
    void *library = dlopen(gpu_collector, RTLD_NOW | RTLD_LOCAL);
    void (*start)(GpuHost *) =
        library != NULL ? (void (*)(GpuHost *))dlsym(library, "taupy_gpu_begin") : NULL;
    gpu_lookout = 0;
    if (start != NULL)
        start(&taupy_gpu_host);
    else if ((gpu_problem = dlerror()) != NULL)
        gpu_problem = strdup(gpu_problem);
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(uint64_t *)data = info->dlpi_adds;
    return 1;
}

/* Whether a driver is loaded and initialised. Uses only queries without side effects. */
static int gpu_driver_works(void)
{
    int count = 0;
    uint64_t adds = 0;
    dl_iterate_phdr(count_adds, &adds);
    if (gpu_device_count == NULL && adds != gpu_adds) {
        void *driver = open_mapped("libcuda.so");
        if (driver != NULL)
            gpu_device_count = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    }
    gpu_adds = adds;
    return gpu_device_count != NULL && gpu_device_count(&count) == 0 && count > 0;
}

/* Called at new call paths; limited to a few times per millisecond. */
static __attribute__((noinline)) void gpu_look(uint64_t now)
{
    if (now - gpu_looked < sample_ticks / 4)
        return;
    gpu_looked = now;
    if (host_read(&taupy_gpu_host, tried))
        gpu_lookout = 0;
    else if (gpu_driver_works())
        gpu_begin();
}

static void on_path(Thread *thread, Routine *routine, Node *node)
{
    (void)thread;
    if (likely(!host_read(&taupy_gpu_host, enabled)) || node == NULL)
        return;
    if (routine->backward == BACKWARD_UNKNOWN)
        routine->backward =
            is_backward(routine->name, routine->file) ? BACKWARD_YES : BACKWARD_NO;
    if (routine->backward == BACKWARD_YES)
        node->flags |= NODE_BACKWARD;
    if (gpu_lookout)
        gpu_look(clock_ticks());
}

void gpu_arm(void)
{
    const char *before = getenv(GPU_INJECTION);
    if (gpu_collector == NULL || run_folder == NULL)
        return;
    taupy_gpu_host.place = gpu_place;
    taupy_gpu_host.part_start = gpu_part_start;
    taupy_gpu_host.run_folder = run_folder;
    taupy_gpu_host.spill_prefix = spill_prefix;
    host_write(&taupy_gpu_host, enabled, 1);
    gpu_lookout = 1;
    gpu_other_tool = before != NULL && strcmp(before, gpu_collector) != 0;
    for (int i = 0; i < GPU_VARIABLES; i++)
        if (getenv(gpu_variables[i]) == NULL)
            gpu_named[i] = setenv(gpu_variables[i], gpu_collector, 0) == 0;
}

static int gpu_is_ours(int variable)
{
    const char *now = gpu_named[variable] ? getenv(gpu_variables[variable]) : NULL;
    return now != NULL && strcmp(now, gpu_collector) == 0;
}

int gpu_hide(void)
{
    int hidden = 0;
    for (int i = 0; i < GPU_VARIABLES; i++)
        if (gpu_is_ours(i) && unsetenv(gpu_variables[i]) == 0)
            hidden |= 1 << i;
    return hidden;
}

void gpu_show(int hidden)
{
    for (int i = 0; i < GPU_VARIABLES; i++)
        if (hidden & 1 << i)
            setenv(gpu_variables[i], gpu_collector, 0);
}

PyObject *gpu_environment(void)
{
    extern char **environ;
    int ours[GPU_VARIABLES], any = 0;
    for (int i = 0; i < GPU_VARIABLES; i++)
        any |= ours[i] = gpu_is_ours(i);
    PyObject *list = any ? PyList_New(0) : NULL;
    for (char **at = environ; list != NULL && *at != NULL; at++) {
        int skip = 0;
        for (int i = 0; i < GPU_VARIABLES; i++) {
            size_t n = strlen(gpu_variables[i]);
            skip |= ours[i] && strncmp(*at, gpu_variables[i], n) == 0 && (*at)[n] == '=';
        }
        PyObject *item = skip ? NULL : PyBytes_FromString(*at);
        if (!skip && (item == NULL || PyList_Append(list, item) != 0))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyErr_Clear();
    return list;
}

void gpu_end(int last)
{
    void (*end)(int) = host_read(&taupy_gpu_host, end);
    if (end != NULL && !is_filtered())
        end(last);
    if (last)
        host_write(&taupy_gpu_host, enabled, 0);
}

void gpu_note(void)
{
    if (!is_measured() || waiting || part == NULL || host_read(&taupy_gpu_host, tried))
        return;
    if (gpu_problem != NULL)
        metadata_write("taupy.gpu.missed", gpu_problem);
    else if (!gpu_lookout)
        return;
    else if (gpu_driver_works())
        metadata_write("taupy.gpu.missed", gpu_other_tool ? "other tool" : "late");
    else if (gpu_device_count != NULL)
        metadata_write("taupy.gpu.missed", "not initialised");
}

void gpu_end_released(int last)
{
    if (host_read(&taupy_gpu_host, end) != NULL) {
        PyThreadState *state = PyEval_SaveThread();
        gpu_end(last);
        PyEval_RestoreThread(state);
    }
    if (last)
        gpu_note();
}

const char *gpu_snapshot(const char *path)
{
    if (host_read(&taupy_gpu_host, end) == NULL)
        return NULL; /* nothing is measured */
    int (*snapshot)(const char *) = host_read(&taupy_gpu_host, snapshot);
    if (snapshot == NULL)
        return "counters of kernels are read at the end";
    int result = snapshot(path);
    return result == GPU_COPIED        ? NULL
           : result == GPU_NOT_FLUSHED ? "this CUPTI (13.0 before its update 1) can crash when "
                                         "records are requested before the end"
                                       : "the GPU's records did not arrive in time";
}

void gpu_lend(int begins)
{
    void (*lend)(int) = host_read(&taupy_gpu_host, lend);
    if (lend != NULL && host_read(&taupy_gpu_host, enabled))
        lend(begins);
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    void (*forked)(void) = host_read(&taupy_gpu_host, forked);
    if (forked != NULL) {
        forked(); /* CUDA does not work in this child */
        host_write(&taupy_gpu_host, enabled, 0);
        host_write(&taupy_gpu_host, end, NULL);
        host_write(&taupy_gpu_host, forked, NULL);
        host_write(&taupy_gpu_host, snapshot, NULL);
        host_write(&taupy_gpu_host, lend, NULL);
        gpu_lookout = 0;
    }
    backward_thread = NULL;
}

Listener gpu_listener = {.on_path = on_path, .on_fork = on_fork};
