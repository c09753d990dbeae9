/* A stand-in for libcuda.so.1 whose kernels do nothing: it loads the library that
 * CUDA_INJECTION64_PATH names, as NVIDIA's does, and tells the stand-in of CUPTI of launches. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Launch {
    const void *function;
    uint32_t grid[3], block[3];
    uint32_t shared;
    void *stream;
} Launch; /* as cuLaunchKernel_params */

typedef struct Config { /* as CUlaunchConfig */
    uint32_t grid[3], block[3], shared;
    void *stream;
    const void *attributes;
    uint32_t count;
} Config;

static void (*callback)(int site, int domain, uint32_t id, const char *kernel, const void *parameters,
                        void *context);
static void (*executed)(void *context, const char *kernel, uint64_t work);
static int ready, done, device;

void fake_connect(void *on_callback, void *on_kernel)
{
    callback = (void (*)(int, int, uint32_t, const char *, const void *, void *))on_callback;
    executed = (void (*)(void *, const char *, uint64_t))on_kernel;
}

int cuInit(unsigned flags)
{
    (void)flags;
    const char *path = ready++ ? NULL : getenv("CUDA_INJECTION64_PATH");
    void *library = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
    int (*begin)(void) = library != NULL ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    int result = begin != NULL && begin() != 1 ? 304 : 0;
    done = 1;
    return result;
}

/* Is cuInit done? */
int fake_ready(void) { return done; }

int cuDeviceGetCount(int *count) { return *count = 2, ready ? 0 : 3; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuCtxGetDevice(int *ordinal) { return *ordinal = device, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)(uintptr_t)(0x100 + device), 0; }
int cuStreamIsCapturing(void *stream, int *status) { return *status = stream == (void *)99, 0; }

static void tell(int site, int domain, uint32_t id, const char *kernel, const void *parameters)
{
    if (callback != NULL)
        callback(site, domain, id, kernel, parameters, (void *)(uintptr_t)(0x100 + device));
}

/* kind: 0 cudaLaunchKernel (calls cuLaunchKernel), 1 cuLaunchKernel, 2 cuLaunchKernelEx,
 * 3 the same, cooperative, 4 cuLaunchCooperativeKernel, 5 cuGraphLaunch of two kernels. */
void fake_launch(int kind, const char *kernel, int on_device, int grid, uint64_t stream, uint64_t work)
{
    Launch launch = {kernel, {(uint32_t)grid, 2, 1}, {64, 1, 1}, 0, (void *)stream};
    struct { uint32_t id, unused, value[16]; } cooperative = {2, 0, {1}};
    Config config = {{(uint32_t)grid, 2, 1}, {64, 1, 1}, 0, (void *)stream, &cooperative, kind == 3};
    const void *by_config = &config;
    device = on_device;
    struct { const void *function; uint32_t grid[3], block[3]; void *arguments; size_t shared; void *stream; }
        runtime = {kernel, {(uint32_t)grid, 2, 1}, {64, 1, 1}, NULL, 0, (void *)stream};
    static const uint32_t ids[] = {307, 307, 652, 652, 477, 514};
    const void *parameters = kind == 2 || kind == 3 ? (const void *)&by_config : &launch;
    if (kind == 0)
        tell(0, 2, 211, kernel, &runtime);
    tell(0, 1, ids[kind], kernel, parameters);
    if (executed != NULL && stream != 99)
        for (int i = 0; i < (kind == 5 ? 2 : 1); i++)
            executed((void *)(uintptr_t)(0x100 + device), kernel, work);
    tell(1, 1, ids[kind], kernel, parameters);
    if (kind == 0)
        tell(1, 2, 211, kernel, &runtime);
}
