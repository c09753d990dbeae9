#include "cupti_interest.h"
#include "captures.h"
#include "cupti_records.h"
#include <string.h>

/* Queries: frequent, short, and of no interest. */
static const char *const idle_calls[] = {
    "GetLastError", "PeekAtLastError", "GetDevice", "SetDevice", "PushCallConfiguration",
    "PopCallConfiguration", "GetAttribute", "DeviceGet", "StreamIsCapturing", "GetCaptureInfo",
    "StreamQuery", "EventQuery", "FuncGet", "FuncSet", "Occupancy", "CtxGetCurrent",
    "CtxSetCurrent", "CtxPushCurrent", "CtxPopCurrent", "CtxGetDevice", "CtxGetApiVersion",
    "GetErrorString", "GetErrorName", "DriverGetVersion", "RuntimeGetVersion", "GetProcAddress",
    "GetExportTable", "PointerGet", "StreamGet", "KernelGet", "KernelSet", "LibraryGet",
    "ModuleGet", "GetDriverEntryPoint", "GraphNodeGet", "MemGetInfo", "DeviceCanAccess",
    "GetStreamPriorityRange", "RegisterFatBinary", "RegisterFunction", "RegisterVar",
    "UnregisterFatBinary", "ThreadExchangeStreamCaptureMode", "StreamBeginCapture", "DevicePrimaryCtxGet",
    "TensorMapEncode", "CtxGetId", "GetFuncBySymbol", "GetSymbol", "GetTexture", "InitModule",
};
/* Driver calls are recorded only if programs make them directly; runtime calls go through the
 * driver, too. */
static const char *const driver_calls[] = {
    "cuLaunch", "cuMemcpy", "cuMemset", "cuGraph", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc",
    "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemPrefetch", "cuStreamSynchronize", "cuStreamWait", "cuCtxSynchronize",
    "cuEventSynchronize", "cuEventRecord", "cuModuleLoad", "cuLibraryLoad", "cuModuleUnload",
    "cuCtxCreate", "cuCtxDestroy", "cuDevicePrimaryCtxRetain", "cuStreamCreate",
    "cuStreamDestroy", "cuLink",
};
/* Queries that load a module not loaded yet, and copy its data to the GPU: only their call paths
 * are noted. */
static const char *const loading_calls[] = {
    "FuncGetAttribute", "FuncSetAttribute", "FuncSetCacheConfig", "OccupancyMaxActive",
    "OccupancyMaxPotential", "OccupancyAvailable", "GetFuncBySymbol", "GetSymbol", "ModuleGetFunction",
    "ModuleGetGlobal", "LibraryGetKernel", "LibraryGetGlobal", "KernelGetFunction", "FuncLoad",
    "InitModule",
};
static const char *const launching_calls[] = {
    "Launch", "Memcpy", "Memset", "MemPrefetch",
};

static int contains(const char *name, const char *const *words, size_t count, int at_start)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(name, words[i]);
        if (found != NULL && (!at_start || found == name))
            return 1;
    }
    return 0;
}

int interest_in(int domain, const char *name)
{
#define WORDS(words) words, sizeof words / sizeof *words
    const char *plain = name + strspn(name, "_");
    int captures = captures_by(name) ? CALL_CAPTURES : 0;
    if (strncmp(plain, domain == DOMAIN_RUNTIME ? "cuda" : "cu", domain == DOMAIN_RUNTIME ? 4 : 2) ||
        (domain == DOMAIN_DRIVER && !contains(name, WORDS(driver_calls), 1) &&
         !contains(name, WORDS(loading_calls), 0)))
        return captures;
    if (contains(name, WORDS(idle_calls), 0) || contains(name, WORDS(loading_calls), 0))
        return captures | (contains(name, WORDS(loading_calls), 0) ? CALL_LOADS : 0);
    int launches = contains(name, WORDS(launching_calls), 0) &&
                   strstr(name, "LaunchHostFunc") == NULL && strstr(name, "Node") == NULL;
    int is_kernel = launches && (strstr(name, "LaunchKernel") != NULL ||
                                 strstr(name, "LaunchCooperativeKernel") != NULL);
    return CALL_OF_INTEREST | captures | (launches ? CALL_LAUNCHES : 0) |
           (is_kernel && strstr(name, "MultiDevice") == NULL ? CALL_KERNEL : 0) |
           (strstr(name, "llocManaged") != NULL ? CALL_MANAGED : 0);
#undef WORDS
}
