/* What the sampler asks of a CUDA driver, besides what tests/fake_gpu plays. */
#include <stddef.h>
#include <string.h>

static int contexts;

int fake_contexts(void) { return contexts; }
int cuGetErrorName(int status, const char **text) { return *text = "CUDA_ERROR", status == 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetUuid_v2(char *uuid, int device)
{
    memset(uuid, 0, 16);
    return uuid[15] = (char)(device + 1), 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    contexts++;
    return *context = (void *)(size_t)(device + 1), 0;
}
int cuCtxSetCurrent(void *context) { return context == NULL; }
