/* A libnvidia-ml of two GPUs for tests: the second one knows less. */
#include <string.h>

typedef unsigned int u32;
static const char *uuids[] = {"GPU-aaaa", "GPU-bbbb"};
static int looks;

int nvmlInitWithFlags(u32 flags) { return 0; }
int nvmlSystemGetDriverVersion(char *text, u32 size) { strncpy(text, "580.1", size); return 0; }
int nvmlDeviceGetCount_v2(u32 *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, const char **handle) { *handle = uuids[index]; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, const char **handle) {
    for (int i = 0; i < 2; i++)
        if (!strcmp(uuid, uuids[i])) { *handle = uuids[i]; return 0; }
    return 6;
}
int nvmlDeviceGetUUID(const char *handle, char *text, u32 size) { strncpy(text, handle, size); return 0; }
int nvmlDeviceGetPowerUsage(const char *handle, u32 *milliwatts) { *milliwatts = 100000 + 50000 * (looks++ % 3); return 0; }
int nvmlDeviceGetEnforcedPowerLimit(const char *handle, u32 *milliwatts) { *milliwatts = 700000; return 0; }
int nvmlDeviceGetClockInfo(const char *handle, u32 kind, u32 *mhz) { *mhz = kind == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetMaxClockInfo(const char *handle, u32 kind, u32 *mhz) { *mhz = kind == 1 ? 1980 : 3201; return handle == uuids[1] ? 3 : 0; }
int nvmlDeviceGetTemperature(const char *handle, u32 sensor, u32 *celsius) { *celsius = 45; return handle == uuids[1] ? 3 : 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(const char *handle, u32 *value) { *value = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(const char *handle, u32 *value) { *value = 16; return 0; }
int nvmlDeviceGetEccMode(const char *handle, u32 *current, u32 *pending) { *current = *pending = 1; return 0; }
int nvmlDeviceGetMigMode(const char *handle, u32 *current, u32 *pending) { *current = *pending = 0; return handle == uuids[1] ? 3 : 0; }
int nvmlDeviceGetNvLinkState(const char *handle, u32 link, u32 *active) { *active = link < 3; return link < 4 ? 0 : 2; }
int nvmlDeviceGetUtilizationRates(const char *handle, u32 *rates) { rates[0] = 90; rates[1] = 30; return handle == uuids[1] ? 3 : 0; }
int nvmlDeviceGetMemoryInfo(const char *handle, unsigned long long *memory) { memory[0] = 100; memory[1] = 60; memory[2] = 40; return 0; }
