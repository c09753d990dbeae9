/* Launch information passed to callbacks: parameters of driver and runtime functions that launch
 * kernels, to the extent they are read here. Identical from CUDA 12.6 to 13.5.
 *
 * cuLaunchCooperativeKernel, cudaLaunchKernel with a library's handle, and similar functions start
 * with the same fields. */
#ifndef TAUPY_LAUNCH_PARAMETERS_H
#define TAUPY_LAUNCH_PARAMETERS_H

#include <stdint.h>

typedef struct DriverLaunch { /* cuLaunchKernel_params */
    void *function;
    uint32_t grid[3], block[3], shared_bytes;
    void *stream;
} DriverLaunch;

typedef struct RuntimeLaunch { /* cudaLaunchKernel_v7000_params */
    const void *function;
    uint32_t grid[3], block[3];
    void *arguments;
    uint64_t shared_bytes;
    void *stream;
} RuntimeLaunch;

typedef struct LaunchAttribute { /* CUlaunchAttribute, cudaLaunchAttribute */
    uint32_t id, padding;
    int cooperative; /* for that id; member of a 64-byte union */
    uint8_t others[60];
} LaunchAttribute;
enum { ATTRIBUTE_COOPERATIVE = 2 };

typedef struct LaunchConfig { /* CUlaunchConfig, cudaLaunchConfig_t */
    uint32_t grid[3], block[3];
    uint64_t shared_bytes; /* only four bytes in the driver's */
    void *stream;
    const LaunchAttribute *attributes;
    uint32_t attribute_count;
} LaunchConfig;

typedef struct ConfigLaunch { /* cuLaunchKernelEx_params, cudaLaunchKernelExC_v11060_params */
    const LaunchConfig *config;
    void *function;
} ConfigLaunch;

#endif
