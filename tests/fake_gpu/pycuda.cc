/* What PyCUDA calls of the driver besides what fake_cuda.cc has, as far as examples/pycuda_axpy.py
 * needs it: "device memory" is the host's, copies are made at once, the kernel is y += a x.
 * Part of libcuda.so.1 in tests/integration/test_pycuda_example.py, which refuses all other
 * functions that PyCUDA names. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uintptr_t Handle;

extern "C" {

int cuCtxPushCurrent_v2(Handle context);
int cuCtxSynchronize(void);
void fake_context_ends(int device);
void fake_driver_launch(const char *name, int device, int stream, uint64_t took, int grid, int block);
void fake_copy(int kind, uint64_t bytes, int device, int stream, uint64_t took);

enum { TO_DEVICE = 1, TO_HOST, PARAMETERS = 1, NS_OF_WORK = 20000 };

static int make(Handle *made)
{
    static Handle last; /* small numbers: the played driver takes them as numbers of streams */
    *made = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return 0;
}

static int give(Handle *memory, size_t bytes) { return (*memory = (Handle)malloc(bytes)) == 0; }

int cuGetErrorString(int error, const char **text) { return (void)error, *text = "not played", 0; }
int cuDeviceComputeCapability(int *major, int *minor, int device)
{
    return *major = 9, *minor = 0, device;
}

int cuCtxCreate_v4(Handle *context, const void *how, unsigned flags, int device)
{
    (void)how, (void)flags;
    return cuCtxPushCurrent_v2(*context = 0x1000 + (Handle)device);
}
int cuCtxAttach(Handle *context, unsigned flags) { return *context = 0x1000, (int)flags; }
int cuCtxDetach(Handle context) { return fake_context_ends((int)(context - 0x1000)), 0; }

int cuStreamCreate(Handle *stream, unsigned flags) { return (void)flags, make(stream); }
int cuStreamDestroy_v2(Handle stream) { return (void)stream, 0; }
int cuModuleLoadDataEx(Handle *module, const void *code, unsigned n, void *names, void *values)
{
    (void)code, (void)n, (void)names, (void)values;
    return make(module);
}
int cuModuleUnload(Handle module) { return (void)module, 0; }
int cuModuleGetFunction(char **function, Handle module, const char *name)
{
    (void)module;
    return *function = strdup(name), 0;
}

int cuFuncSetBlockShape(const char *name, int x, int y, int z) { return name == NULL || x * y * z == 0; }

int cuMemAlloc_v2(Handle *memory, size_t bytes) { return give(memory, bytes); }
int cuMemFree_v2(Handle memory) { return free((void *)memory), 0; }
int cuMemHostAlloc(Handle *memory, size_t bytes, unsigned flags) { return (void)flags, give(memory, bytes); }
int cuMemFreeHost(void *memory) { return free(memory), 0; }

static int copy(int kind, Handle to, Handle from, size_t bytes, Handle stream)
{
    memcpy((void *)to, (void *)from, bytes);
    fake_copy(kind, bytes, 0, (int)stream, NS_OF_WORK);
    return 0;
}
int cuMemcpyHtoDAsync_v2(Handle to, Handle from, size_t bytes, Handle stream)
{
    return copy(TO_DEVICE, to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(Handle to, Handle from, size_t bytes, Handle stream)
{
    return copy(TO_HOST, to, from, bytes, stream);
}

int cuLaunchKernel(const char *name, unsigned grid, unsigned y, unsigned z, unsigned block,
                   unsigned in_y, unsigned in_z, unsigned shared, Handle stream, void **parameters,
                   void **extra)
{
    (void)y, (void)z, (void)in_y, (void)in_z, (void)shared, (void)parameters;
    struct Given { float a; const float *x; float *y; int n; } *given = NULL;
    for (void **at = extra; at != NULL && *at != NULL; at += 2)
        if ((Handle)*at == PARAMETERS)
            given = (Given *)at[1];
    if (given == NULL)
        return 1;
    for (int i = 0; i < given->n; i++)
        given->y[i] += given->a * given->x[i];
    fake_driver_launch(name, 0, (int)stream, NS_OF_WORK, (int)grid, (int)block);
    return 0;
}

typedef struct timespec Event;

int cuEventCreate(Event **event, unsigned flags)
{
    return (void)flags, *event = (Event *)calloc(1, sizeof **event), 0;
}
int cuEventDestroy_v2(Event *event) { return free(event), 0; }
int cuEventRecord(Event *event, Handle stream)
{
    return (void)stream, clock_gettime(CLOCK_MONOTONIC, event);
}
int cuEventSynchronize(Event *event) { return (void)event, cuCtxSynchronize(); }
int cuEventElapsedTime_v2(float *ms, const Event *begin, const Event *end)
{
    *ms = 1e3f * (float)(end->tv_sec - begin->tv_sec) + 1e-6f * (float)(end->tv_nsec - begin->tv_nsec);
    return 0;
}

} /* extern "C" */
