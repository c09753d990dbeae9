/* The driver's questions about one GPU, answered as an H200 would. */
#include <string.h>

int cuInit(unsigned flags) { return 0; }
int cuGetErrorName(int status, const char **text) { *text = "CUDA_ERROR_INVALID_VALUE"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? 101 : 0; }
int cuDeviceGetName(char *text, int size, int device) { strncpy(text, "NVIDIA H200", size); return 0; }
int cuDeviceGetUuid_v2(char *raw, int device) { for (int i = 0; i < 16; i++) raw[i] = i; return 0; }
int cuDeviceTotalMem_v2(unsigned long *size, int device) { *size = 150754820096ul; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; return 0;
    case 76: *value = 0; return 0;
    case 16: *value = 132; return 0;
    case 13: *value = 1980000; return 0;
    case 36: *value = 3201000; return 0;
    case 37: *value = 6144; return 0;
    case 39: *value = 2048; return 0;
    case 10: *value = 32; return 0;
    case 33: *value = 0x1b; return 0;
    case 34: case 50: *value = 0; return 0;
    case 40: *value = 3; return 0;
    default: return 1;
    }
}
