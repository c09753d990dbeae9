/* Between the played driver and the played CUPTI, which are two libraries as NVIDIA's are.
 *
 * Both are written against NVIDIA's own headers, and know nothing of taupy's. FAKE_* variables make
 * them misbehave; each is described where it is looked at. */
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_pmsampling.h>
#include <cupti_target.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOR_PROGRAMS extern "C" __attribute__((visibility("default")))

/* A call of the API, as its callbacks are told of it. */
struct Call {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
    const char *function, *symbol;
    const void *parameters;
    CUcontext context;
    uint32_t correlation;
    uint64_t began;
    int result; /* a CUresult or cudaError_t */
};

struct Kernel {
    const char *name;
    CUcontext context;
    uint32_t device, stream, correlation;
    uint64_t took; /* ns; 0: CUPTI had no room for its stamps */
    int grid, block;
    uint64_t graph_node;
    uint32_t graph;
};

/* What the driver tells CUPTI. */
struct Hooks {
    void (*call)(CUpti_ApiCallbackSite site, Call *call);
    void (*context)(int created, CUcontext context, uint32_t device);
    int (*is_wanted)(CUpti_ActivityKind kind);
    void (*record)(const void *record, size_t size);
    int (*is_counted)(CUcontext context); /* then kernels run one by one, or (2) in a range */
    void (*counted)(const Kernel *kernel);
};

static inline int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

static inline const char *device_name()
{
    const char *name = getenv("FAKE_NAME");
    return name != NULL ? name : "Fake H100";
}

/* Of a list such as "enable=35 late": the number of `what`, 1 where it has none, 0 if not there. */
static inline int asked(const char *variable, const char *what)
{
    const char *list = getenv(variable), *at = list != NULL ? strstr(list, what) : NULL;
    return at == NULL ? 0 : at[strlen(what)] == '=' ? atoi(at + strlen(what) + 1) : 1;
}

static inline uint64_t now_ns(clockid_t clock = CLOCK_REALTIME)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
