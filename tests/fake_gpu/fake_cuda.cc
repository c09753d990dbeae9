/* A stand-in for libcuda.so.1 that computes nothing: what is launched "runs" for as many
 * nanoseconds as it is told to, on streams that keep their order.
 *
 * Like NVIDIA's it loads the library that CUDA_INJECTION64_PATH names at the first cuInit, and calls
 * InitializeInjection in it. FAKE_DEVICES: how many; FAKE_NAME: of each; FAKE_NO_DEVICE,
 * FAKE_NO_INJECTION; FAKE_DRIVER: its version. */
#include "played.h"
#include <set>
#include <string>

#define DEVICES 8
#define STREAMS 64

static Hooks *hooks;
static int initialised, ready, finished_synchronizations;
static uint32_t correlations;
static uint64_t stream_end[DEVICES][STREAMS];
static int has_context[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static thread_local CUcontext current;
static int retained;
static uint64_t signals; /* kernels that others wait for */
static std::set<CUstream> capturing; /* by the thread that tests it */

FOR_PROGRAMS void fake_set_hooks(Hooks *from_cupti) { hooks = from_cupti; }
FOR_PROGRAMS int fake_ready(void) { return ready; } /* is cuInit done? */
FOR_PROGRAMS int fake_contexts(void) { return retained; }
FOR_PROGRAMS int fake_synchronized(void) { return finished_synchronizations; }

static CUcontext context_of(int device) { return (CUcontext)(uintptr_t)(0x1000 + device); }

/* CUPTI's guide: within a callback, nothing of CUDA but synchronisation may be called. NVIDIA's may
 * hang then; this one aborts. */
static thread_local int in_callback;
#define NOT_IN_CALLBACK                                                                            \
    do {                                                                                           \
        if (in_callback) {                                                                         \
            fprintf(stderr, "the played driver: %s was called within a callback\n", __func__);     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void tell(CUpti_ApiCallbackSite site, Call *call)
{
    in_callback++;
    hooks->call(site, call);
    in_callback--;
}

static void tell_context(int created, CUcontext context, int device)
{
    in_callback++;
    hooks->context(created, context, (uint32_t)device);
    in_callback--;
}

/* ---------------------------------------------------------------- the driver's API */

CUresult cuInit(unsigned)
{
    if (initialised)
        return CUDA_SUCCESS;
    if (setting("FAKE_NO_DEVICE", 0))
        return CUDA_ERROR_NO_DEVICE;
    initialised = 1;
    const char *path = setting("FAKE_NO_INJECTION", 0) ? NULL : getenv("CUDA_INJECTION64_PATH");
    if (path != NULL) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        auto begin = library != NULL ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
        if (begin == NULL || begin() != 1)
            return CUDA_ERROR_OPERATING_SYSTEM;
    }
    ready = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    NOT_IN_CALLBACK;
    *count = initialised ? setting("FAKE_DEVICES", 1) : 0;
    return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuDriverGetVersion(int *version)
{
    return *version = setting("FAKE_DRIVER", 13000), CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    NOT_IN_CALLBACK;
    return *device = ordinal, CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice)
{
    return snprintf(name, (size_t)size, "%s", device_name()), CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) { return *bytes = 80ull << 30, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 0, sizeof *uuid);
    return uuid->bytes[15] = (char)(device + 1), CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult status, const char **text)
{
    return *text = "CUDA_ERROR", status == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    NOT_IN_CALLBACK;
    return current = context, CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    NOT_IN_CALLBACK;
    return *context = current, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context)
{
    NOT_IN_CALLBACK;
    return *context = current, CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context)
{
    NOT_IN_CALLBACK;
    return current = context, CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device)
{
    NOT_IN_CALLBACK;
    return *device = (int)((uintptr_t)current - 0x1000), CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    NOT_IN_CALLBACK;
    retained++;
    return *context = context_of(device), CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    NOT_IN_CALLBACK;
    *status = capturing.count(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                      : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static void wait_until(uint64_t when)
{
    while (now_ns() < when)
        usleep(20);
}

static void wait_for_signals(uint64_t count);
static uint64_t awaited_signals();

CUresult cuCtxSynchronize(void)
{
    wait_for_signals(awaited_signals());
    uint64_t last = 0;
    for (auto &streams : stream_end)
        for (uint64_t end : streams)
            last = end > last ? end : last;
    wait_until(last);
    __atomic_add_fetch(&finished_synchronizations, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- calls, contexts, streams */

/* A thread's use of a device: its context, which nobody uses before it is created. */
static CUcontext use(int device)
{
    static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
    current = context_of(device);
    pthread_mutex_lock(&creating);
    if (!has_context[device]++ && hooks != NULL)
        tell_context(1, current, device);
    pthread_mutex_unlock(&creating);
    return current;
}

FOR_PROGRAMS void fake_context_ends(int device)
{
    has_context[device] = 0;
    if (hooks != NULL)
        tell_context(0, context_of(device), device);
}

template <class Record> static void put(const Record &record)
{
    if (hooks != NULL && hooks->is_wanted(record.kind))
        hooks->record(&record, sizeof record);
}

class Api : public Call { /* from its beginning to its end */
  public:
    Api(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char *function,
        const char *symbol = NULL, const void *parameters = NULL)
        : Call{domain, id, function, symbol, parameters, current,
               __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED), 0, 0}
    {
        if (hooks != NULL)
            tell(CUPTI_API_ENTER, this);
        began = now_ns();
    }
    ~Api()
    {
        CUpti_ActivityAPI record = {};
        record.kind = domain == CUPTI_CB_DOMAIN_DRIVER_API ? CUPTI_ACTIVITY_KIND_DRIVER
                                                           : CUPTI_ACTIVITY_KIND_RUNTIME;
        record.cbid = id;
        record.start = began;
        record.end = now_ns();
        record.correlationId = correlation;
        put(record);
        if (hooks != NULL)
            tell(CUPTI_API_EXIT, this);
    }
};

#define RUNTIME(name, version) CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name##_##version, #name
#define DRIVER(name) CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name

static void span(int device, int stream, uint64_t took, uint64_t *start, uint64_t *end)
{
    pthread_mutex_lock(&lock);
    uint64_t now = now_ns(), free_at = stream_end[device][stream];
    *start = free_at > now ? free_at : now;
    *end = stream_end[device][stream] = *start + took;
    pthread_mutex_unlock(&lock);
    if (took == 0) /* what CUPTI gives when it runs out of room for stamps */
        *start = *end = 0;
}

/* Names in records are CUPTI's own, and outlive the program's. */
static const char *lasting(const char *name)
{
    static auto &names = *new std::set<std::string>;
    pthread_mutex_lock(&lock);
    const char *kept = name != NULL ? names.insert(name).first->c_str() : NULL;
    pthread_mutex_unlock(&lock);
    return kept;
}

static uint64_t awaited; /* signals that kernels under way wait for; whoever synchronises does */

static uint64_t awaited_signals() { return __atomic_load_n(&awaited, __ATOMIC_ACQUIRE); }

static void wait_for_signals(uint64_t count)
{
    while (__atomic_load_n(&signals, __ATOMIC_ACQUIRE) < count)
        usleep(1000);
}

/* `waits`: it ends only when so many kernels that signal have been launched. Where kernels are
 * counted one by one, the launch does not return before that. */
static void run(Kernel kernel, uint64_t waits = 0)
{
    if (capturing.count((CUstream)(uintptr_t)kernel.stream))
        return; /* it becomes a node of a graph */
    int counting = hooks != NULL ? hooks->is_counted(kernel.context) : 0;
    if (counting) {
        if (counting == 1)
            wait_for_signals(waits);
        else if (waits > awaited)
            awaited = waits;
        hooks->counted(&kernel);
        return;
    }
    CUpti_ActivityKernel9 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    record.name = lasting(kernel.name);
    record.deviceId = kernel.device;
    record.contextId = kernel.device + 1;
    record.streamId = kernel.stream;
    record.correlationId = kernel.correlation;
    record.gridX = kernel.grid;
    record.blockX = kernel.block;
    record.gridY = record.gridZ = record.blockY = record.blockZ = 1;
    record.registersPerThread = 32;
    record.staticSharedMemory = 1024;
    record.dynamicSharedMemory = 2048;
    record.sharedMemoryExecuted = 65536;
    record.graphNodeId = kernel.graph_node;
    record.graphId = kernel.graph;
    uint64_t start, end;
    span((int)kernel.device, (int)kernel.stream % STREAMS, kernel.took, &start, &end);
    record.start = start;
    record.end = end;
    put(record);
}

/* ---------------------------------------------------------------- what programs launch */

static cuLaunchKernel_params driver_parameters(const char *name, int grid, int block, int stream)
{
    cuLaunchKernel_params launch = {};
    launch.f = (CUfunction)name;
    launch.gridDimX = (unsigned)grid;
    launch.blockDimX = (unsigned)block;
    launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1;
    launch.hStream = (CUstream)(uintptr_t)stream;
    return launch;
}

static cudaLaunchKernel_v7000_params runtime_parameters(const char *name, int grid, int block,
                                                        int stream)
{
    cudaLaunchKernel_v7000_params launch = {};
    launch.func = name;
    launch.gridDim = {(unsigned)grid, 1, 1};
    launch.blockDim = {(unsigned)block, 1, 1};
    launch.stream = (cudaStream_t)(uintptr_t)stream;
    return launch;
}

/* What callbacks are told of a kernel's name: a library's handle of a kernel has none. */
enum Named { EVERYWHERE, BY_THE_DRIVER };

/* cudaLaunchKernel, which calls cuLaunchKernel inside with a correlation id of its own. */
static void launch(const char *name, int device, int stream, uint64_t took, int grid, int block,
                   Named named = EVERYWHERE, uint64_t waits = 0)
{
    CUcontext context = use(device);
    auto outer = runtime_parameters(name, grid, block, stream);
    Api call(RUNTIME(cudaLaunchKernel, v7000), named == EVERYWHERE ? name : NULL, &outer);
    auto inner = driver_parameters(name, grid, block, stream);
    Api nested(DRIVER(cuLaunchKernel), name, &inner);
    run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, took, grid, block}, waits);
}

FOR_PROGRAMS void fake_launch(const char *name, int device, int stream, uint64_t took, int grid,
                              int block)
{
    launch(name, device, stream, took, grid, block);
}

/* As cuBLASLt launches: the runtime's callback is told no name. */
FOR_PROGRAMS void fake_handle_launch(const char *name, int device, int stream, uint64_t took)
{
    launch(name, device, stream, took, 8, 128, BY_THE_DRIVER);
}

/* cudaStreamBeginCapture, which calls the driver's; `fails`: with a result of an error. */
FOR_PROGRAMS void fake_capture_begins(int stream, int fails)
{
    cudaStreamBeginCapture_v10000_params outer = {(cudaStream_t)(uintptr_t)stream};
    Api call(RUNTIME(cudaStreamBeginCapture, v10000), NULL, &outer);
    cuStreamBeginCapture_v2_params inner = {(CUstream)(uintptr_t)stream};
    Api nested(DRIVER(cuStreamBeginCapture_v2), NULL, &inner);
    if (!fails)
        capturing.insert(inner.hStream);
    call.result = nested.result = fails ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

/* cuStreamEndCapture, called by the program itself. */
FOR_PROGRAMS void fake_capture_ends(int stream)
{
    cuStreamEndCapture_params parameters = {(CUstream)(uintptr_t)stream};
    Api call(DRIVER(cuStreamEndCapture), NULL, &parameters);
    capturing.erase(parameters.hStream);
}

/* A launch that does not return before so many kernels that signal have been launched. */
FOR_PROGRAMS void fake_blocking_launch(const char *name, int device, int stream, uint64_t waits)
{
    CUcontext context = use(device);
    auto parameters = driver_parameters(name, 8, 128, stream);
    Api call(DRIVER(cuLaunchKernel), name, &parameters);
    while (__atomic_load_n(&signals, __ATOMIC_ACQUIRE) < waits)
        usleep(1000);
    run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, 1000, 8, 128});
}

/* A kernel whose record has no name. */
FOR_PROGRAMS void fake_nameless_launch(int device, int stream, uint64_t took)
{
    launch(NULL, device, stream, took, 8, 128);
}

/* A kernel that waits for others: see `run`. */
FOR_PROGRAMS void fake_waiting_launch(const char *name, int device, int stream, uint64_t waits)
{
    launch(name, device, stream, 1000, 8, 128, EVERYWHERE, waits);
}

/* One that they wait for. */
FOR_PROGRAMS void fake_signalling_launch(const char *name, int device, int stream)
{
    launch(name, device, stream, 1000, 8, 128);
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELEASE);
}

/* A launch that is refused: by the runtime itself, or by the driver. Nothing runs. */
FOR_PROGRAMS int fake_refused_launch(const char *name, int device, int by_the_driver)
{
    use(device);
    auto outer = runtime_parameters(name, 0, 2048, 7);
    Api call(RUNTIME(cudaLaunchKernel, v7000), name, &outer);
    if (by_the_driver) {
        auto inner = driver_parameters(name, 0, 2048, 7);
        Api nested(DRIVER(cuLaunchKernel), name, &inner);
        nested.result = CUDA_ERROR_INVALID_VALUE;
    }
    return call.result = cudaErrorInvalidConfiguration;
}

/* As Triton does. */
FOR_PROGRAMS void fake_driver_launch(const char *name, int device, int stream, uint64_t took,
                                     int grid, int block)
{
    CUcontext context = use(device);
    auto parameters = driver_parameters(name, grid, block, stream);
    Api call(DRIVER(cuLaunchKernel), name, &parameters);
    run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, took, grid, block});
}

/* cuLaunchKernelEx; its attributes may say that the blocks wait for each other. */
FOR_PROGRAMS void fake_config_launch(const char *name, int device, int stream, uint64_t took,
                                     int grid, int block, int cooperative)
{
    CUcontext context = use(device);
    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[1].value.cooperative = cooperative;
    CUlaunchConfig config = {};
    config.gridDimX = (unsigned)grid;
    config.blockDimX = (unsigned)block;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.hStream = (CUstream)(uintptr_t)stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    cuLaunchKernelEx_params parameters = {};
    parameters.config = &config;
    parameters.f = (CUfunction)name;
    Api call(DRIVER(cuLaunchKernelEx), name, &parameters);
    run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, took, grid, block});
}

FOR_PROGRAMS void fake_cooperative_launch(const char *name, int device, int stream, uint64_t took)
{
    CUcontext context = use(device);
    auto parameters = driver_parameters(name, 8, 128, stream); /* it begins like cuLaunchKernel */
    Api call(DRIVER(cuLaunchCooperativeKernel), name, &parameters);
    run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, took, 8, 128});
}

/* A kernel whose launch no callback tells of. */
FOR_PROGRAMS void fake_silent_launch(const char *name, int device, int stream, uint64_t took)
{
    CUcontext context = use(device);
    uint32_t correlation = __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED);
    run({name, context, (uint32_t)device, (uint32_t)stream, correlation, took, 1, 32});
}

FOR_PROGRAMS void fake_graph_launch(const char *name, int nodes, int device, int stream,
                                    uint64_t took)
{
    CUcontext context = use(device);
    Api call(RUNTIME(cudaGraphLaunch, v10000));
    Api nested(DRIVER(cuGraphLaunch));
    for (int i = 0; i < nodes; i++)
        run({name, context, (uint32_t)device, (uint32_t)stream, call.correlation, took, 4, 64,
             (uint64_t)i + 1, 7});
}

static void copy(int kind, uint64_t bytes, int device, int stream, uint64_t took,
                 uint32_t correlation)
{
    CUpti_ActivityMemcpy5 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    record.copyKind = (uint8_t)kind;
    record.srcKind = kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
                                                             : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.dstKind = kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
                                                             : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
    record.bytes = bytes;
    record.deviceId = (uint32_t)device;
    record.contextId = (uint32_t)device + 1;
    record.streamId = (uint32_t)stream;
    record.correlationId = correlation;
    uint64_t start, end;
    span(device, stream % STREAMS, took, &start, &end);
    record.start = start;
    record.end = end;
    put(record);
}

FOR_PROGRAMS void fake_copy(int kind, uint64_t bytes, int device, int stream, uint64_t took)
{
    use(device);
    Api call(RUNTIME(cudaMemcpyAsync, v3020));
    copy(kind, bytes, device, stream, took, call.correlation);
}

FOR_PROGRAMS void fake_memset(uint64_t bytes, int device, int stream, uint64_t took)
{
    use(device);
    Api call(RUNTIME(cudaMemsetAsync, v3020));
    CUpti_ActivityMemset4 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    record.bytes = bytes;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
    record.deviceId = (uint32_t)device;
    record.contextId = (uint32_t)device + 1;
    record.streamId = (uint32_t)stream;
    record.correlationId = call.correlation;
    uint64_t start, end;
    span(device, stream % STREAMS, took, &start, &end);
    record.start = start;
    record.end = end;
    put(record);
}

static void memory(int release, uint64_t bytes, int device, uint32_t correlation)
{
    CUpti_ActivityMemory3 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    record.memoryOperationType = release ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                                         : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.bytes = bytes;
    record.timestamp = now_ns();
    record.deviceId = (uint32_t)device;
    record.contextId = (uint32_t)device + 1;
    record.correlationId = correlation;
    put(record);
}

FOR_PROGRAMS void fake_alloc(int release, uint64_t bytes, int device)
{
    use(device);
    if (release) {
        Api call(RUNTIME(cudaFree, v3020));
        memory(1, bytes, device, call.correlation);
    } else {
        Api call(RUNTIME(cudaMalloc, v3020));
        memory(0, bytes, device, call.correlation);
    }
}

/* cudaMalloc that takes its time. */
FOR_PROGRAMS void fake_slow_alloc(uint64_t bytes, int device, uint64_t took)
{
    use(device);
    Api call(RUNTIME(cudaMalloc, v3020));
    usleep((useconds_t)(took / 1000));
    memory(0, bytes, device, call.correlation);
}

/* cuModuleLoadData, called by the program itself. */
FOR_PROGRAMS void fake_load_module(int device, uint64_t took)
{
    use(device);
    Api call(DRIVER(cuModuleLoadData));
    usleep((useconds_t)(took / 1000));
}

/* What is launched on a stream from now on waits for what was launched on another. */
FOR_PROGRAMS void fake_wait_event(int device, int stream, int other)
{
    Api call(RUNTIME(cudaStreamWaitEvent, v3020));
    uint64_t end = stream_end[device][other % STREAMS];
    if (stream_end[device][stream % STREAMS] < end)
        stream_end[device][stream % STREAMS] = end;
}

FOR_PROGRAMS void fake_managed(int device)
{
    use(device);
    Api call(RUNTIME(cudaMallocManaged, v6000));
}

FOR_PROGRAMS void fake_migrate(int counter, uint64_t value)
{
    CUpti_ActivityUnifiedMemoryCounter2 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    record.counterKind = (CUpti_ActivityUnifiedMemoryCounterKind)counter;
    record.value = value;
    record.start = now_ns();
    put(record);
}

FOR_PROGRAMS void fake_synchronize(int device, int stream)
{
    Api call(RUNTIME(cudaStreamSynchronize, v3020));
    wait_until(stream_end[device][stream % STREAMS]);
}

/* An idle call: one that nobody wants to hear of. */
FOR_PROGRAMS void fake_get_device(void) { Api call(RUNTIME(cudaGetDevice, v3020)); }

/* A call that only asks, but of a module that is loaded for it, data and all. */
FOR_PROGRAMS void fake_lazy_load(uint64_t bytes, int device)
{
    use(device);
    Api call(RUNTIME(cudaFuncGetAttributes, v3020));
    copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, bytes, device, 7, 300, call.correlation);
}

/* ---------------------------------------------------------------- threads without Python */

struct Backward {
    const char *name, *thread, *range;
    int count, device, stream;
    uint64_t took;
};

static void *backward_thread(void *data)
{
    auto work = (Backward *)data;
    auto nvtx = work->range != NULL ? dlopen("libfakenvtx.so", RTLD_NOW) : NULL;
    auto push = nvtx != NULL ? (int (*)(const char *))dlsym(nvtx, "xla_push") : NULL;
    auto pop = nvtx != NULL ? (int (*)(void))dlsym(nvtx, "xla_pop") : NULL;
    if (work->thread != NULL)
        pthread_setname_np(pthread_self(), work->thread);
    if (push != NULL)
        push(work->range);
    if (push != NULL)
        push("Thunk:#name=fusion#");
    for (int i = 0; i < work->count; i++)
        fake_launch(work->name, work->device, work->stream, work->took, 2, 64);
    for (int i = 0; i < 2 && pop != NULL; i++)
        pop();
    if (work->range != NULL)
        fake_launch("after", work->device, work->stream, work->took, 2, 64);
    return NULL;
}

static void in_thread(Backward work)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, backward_thread, &work) == 0)
        pthread_join(thread, NULL);
}

/* Launches from a thread that has no Python, while the caller waits: as autograd does. */
FOR_PROGRAMS void fake_launch_in_thread(const char *name, int count, int device, int stream,
                                        uint64_t took)
{
    in_thread({name, "pt_autograd_0", NULL, count, device, stream, took});
}

/* The same on the caller's thread, without the interpreter: as XLA does where it does not wait. */
FOR_PROGRAMS void fake_launch_in_range(const char *name, const char *range, int count)
{
    Backward work = {name, NULL, range, count, 0, 7, 1000};
    backward_thread(&work);
}

/* From a pool's thread, perhaps within a module's range of NVTX and an operation's: as XLA does. One
 * more kernel follows after them. */
FOR_PROGRAMS void fake_launch_in_pool(const char *name, const char *thread, const char *range,
                                      int count)
{
    in_thread({name, thread, range, count, 0, 7, 1000});
}
