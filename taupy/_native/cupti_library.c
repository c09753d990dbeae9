#define _GNU_SOURCE
#include "cupti_library.h"
#include "cupti_records.h"
#include "mapped.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int major_of_path(const char *path)
{
    const char *at = strstr(path, "libcupti.so.");
    return at != NULL ? atoi(at + strlen("libcupti.so.")) : 0;
}

/* A CUPTI for a newer CUDA than the driver's does not work with it: try the next one. */
static void reject_newer(Cupti *cupti, const char *path, char *problem, size_t room)
{
    uint32_t version = 0;
    if (cupti->handle == NULL || cupti->driver == 0)
        return;
    int (*get_version)(uint32_t *) = (int (*)(uint32_t *))dlsym(cupti->handle, "cuptiGetVersion");
    if (get_version == NULL || get_version(&version) != 0)
        return;
    int major = cuda_version_of(version) / 100;
    if (major <= cupti->driver / 1000)
        return;
    snprintf(problem, room, "%s is for CUDA %d, the driver serves CUDA %d.%d", path, major,
             cupti->driver / 1000, cupti->driver % 1000 / 10);
    dlclose(cupti->handle);
    cupti->handle = NULL;
}

int cupti_open(Cupti *cupti, char **libraries, char *problem, size_t room)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    static const char *const toolkits[] = {
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/opt/cuda/extras/CUPTI/lib64/libcupti.so"};
    Mapped found;
    void *driver = open_mapped("libcuda.so");
    if (driver != NULL) {
        int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
        if (version == NULL || version(&cupti->driver) != 0)
            cupti->driver = 0;
        cupti->context_push = (int (*)(void *))dlsym(driver, "cuCtxPushCurrent_v2");
        cupti->context_pop = (int (*)(void **))dlsym(driver, "cuCtxPopCurrent_v2");
        cupti->context_synchronize = (int (*)(void))dlsym(driver, "cuCtxSynchronize");
    }
    problem[0] = 0;
    if (find_mapped("libcupti.so", &found))
        cupti->handle = dlopen(found.path, RTLD_NOW | RTLD_NOLOAD);
    int in_process = cupti->handle != NULL;
    for (char **at = libraries; cupti->handle == NULL && at != NULL && *at != NULL; at++) {
        int major = major_of_path(*at);
        if (major != 0 && cupti->driver != 0 && major > cupti->driver / 1000)
            snprintf(problem, room, "%s is for CUDA %d, the driver serves CUDA %d.%d", *at, major,
                     cupti->driver / 1000, cupti->driver % 1000 / 10);
        else if ((cupti->handle = dlopen(*at, RTLD_NOW | RTLD_LOCAL)) == NULL)
            snprintf(problem, room, "%s", dlerror());
        else
            reject_newer(cupti, *at, problem, room);
    }
    for (size_t i = 0; cupti->handle == NULL && i < sizeof names / sizeof *names; i++) {
        int major = major_of_path(names[i]);
        if (major == 0 || cupti->driver == 0 || major <= cupti->driver / 1000)
            cupti->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        reject_newer(cupti, names[i], problem, room);
    }
    for (size_t i = 0; cupti->handle == NULL && i < sizeof toolkits / sizeof *toolkits; i++)
        if ((cupti->handle = dlopen(toolkits[i], RTLD_NOW | RTLD_LOCAL)) != NULL)
            reject_newer(cupti, toolkits[i], problem, room);
    if (in_process)
        problem[0] = 0;
    if (cupti->handle == NULL) {
        if (problem[0] == 0)
            snprintf(problem, room,
                     "there is no libcupti in the process, the packages or a toolkit");
        return -1;
    }
    if (find_mapped("libcupti.so", &found))
        strcpy(cupti->path, found.path);
#define FUNCTION(field, name)                                                                      \
    if ((*(void **)&cupti->field = dlsym(cupti->handle, name)) == NULL) {                          \
        snprintf(problem, room, "%s has no " name, cupti->path);                                   \
        return -1;                                                                                 \
    }
    FUNCTION(get_version, "cuptiGetVersion")
    FUNCTION(subscribe, "cuptiSubscribe")
    FUNCTION(unsubscribe, "cuptiUnsubscribe")
    FUNCTION(enable_callback, "cuptiEnableCallback")
    FUNCTION(callback_name, "cuptiGetCallbackName")
    FUNCTION(result_string, "cuptiGetResultString")
    FUNCTION(register_callbacks, "cuptiActivityRegisterCallbacks")
    FUNCTION(enable, "cuptiActivityEnable")
    FUNCTION(disable, "cuptiActivityDisable")
    FUNCTION(flush_all, "cuptiActivityFlushAll")
    FUNCTION(next_record, "cuptiActivityGetNextRecord")
    FUNCTION(dropped_records, "cuptiActivityGetNumDroppedRecords")
#undef FUNCTION
    *(void **)&cupti->configure_unified_memory =
        dlsym(cupti->handle, "cuptiActivityConfigureUnifiedMemoryCounter");
    *(void **)&cupti->device_of = dlsym(cupti->handle, "cuptiGetDeviceId");
    if (cupti->get_version(&cupti->version) != 0)
        cupti->version = 0;
    return 0;
}
