/* Parameters of CUPTI's profiler host and Range Profiler functions.
 *
 * Layouts are those of cupti_range_profiler.h, cupti_profiler_host.h, cupti_profiler_target.h and
 * cupti_target.h, identical from CUDA 12.6 to 13.5 except for fields appended at the end. The size
 * passed to CUPTI must end at the last field its own version has, excluding padding: CUPTI refuses
 * what it does not know. */
#ifndef TAUPY_CUPTI_RANGE_H
#define TAUPY_CUPTI_RANGE_H

#include <stddef.h>
#include <stdint.h>

#define HEAD                                                                                       \
    size_t size;                                                                                   \
    void *reserved
#define SIZE_UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))
#define FILLED(type, last, ...) (type) { .size = SIZE_UP_TO(type, last), __VA_ARGS__ }
/* For a structure that has one more field, `newer`, from CUPTI version `since` on. */
#define FILLED_FOR(version, type, last, since, newer, ...)                                         \
    (type) {                                                                                       \
        .size = (version) >= (since) ? SIZE_UP_TO(type, newer) : SIZE_UP_TO(type, last),           \
        __VA_ARGS__                                                                                \
    }
/* From cuptiGetVersion; the first release of 13.1 does not have the former yet. */
enum { DEVICE_LEVEL_SINCE = 130101, SKU_SINCE = 130100, METRIC_SET_SINCE = 130200, CACHE_CONTROL_SINCE = 130400 };

typedef struct { HEAD; } PInitialize;
typedef struct { HEAD; void *context; size_t size_of_image; uint8_t *image; uint8_t device_level; } PAvailability;
typedef struct { HEAD; int device, supported, architecture, sli, vgpu, confidential, cmp, wsl, api, sku; } PSupported;
typedef struct { HEAD; size_t device; const char *name; } PChipName;
typedef struct { HEAD; int type; const char *chip; const uint8_t *availability; void *host; const char *metric_set; } PHostInitialize;
typedef struct { HEAD; void *host; const char **names; size_t count; } PAddMetrics;
typedef struct { HEAD; void *host; size_t bytes; } PImageSize;
typedef struct { HEAD; void *host; size_t bytes; uint8_t *image; } PImage;
typedef struct { HEAD; size_t bytes; const uint8_t *image; size_t passes; } PPasses;
typedef struct { HEAD; void *context, *profiler; int cache_control; } PEnable;
typedef struct { HEAD; void *profiler; } PProfiler;
typedef struct { HEAD; void *profiler; const char **names; size_t count, ranges; uint32_t nodes; size_t bytes; } PDataSize;
typedef struct { HEAD; void *profiler; size_t bytes; uint8_t *data; } PDataInitialize;
typedef struct {
    HEAD;
    void *profiler;
    size_t config_bytes;
    const uint8_t *config;
    size_t data_bytes;
    uint8_t *data;
    int range, replay;
    size_t ranges;
    uint16_t levels, least_level;
    size_t pass;
    uint16_t target_level;
} PSetConfig;
typedef struct { HEAD; void *profiler; const char *name; } PPush;
typedef struct { HEAD; void *profiler; size_t pass, target_level; uint8_t all_passes; } PStop;
typedef struct { HEAD; void *profiler; size_t dropped; } PDecode;
typedef struct { HEAD; const uint8_t *data; size_t bytes, ranges; } PDataInfo;
typedef struct { HEAD; void *host; const uint8_t *data; size_t bytes, range; const char **names; size_t count; double *values; } PEvaluate;

enum { CACHES_LEFT_ALONE = 0 }; /* CUpti_CacheControl_Mode */
enum { AUTO_RANGE = 1, USER_RANGE = 2, KERNEL_REPLAY = 2, USER_REPLAY = 3 };
enum { RANGE_PROFILER = 0, RANGE_PROFILING = 0, IS_SUPPORTED = 3 };
enum { INVALID_OPERATION = 7 }; /* CUPTI's result if it accepts no configuration */

typedef struct RangeProfiler {
    int (*initialize)(PInitialize *);
    int (*availability)(PAvailability *);
    int (*supported)(PSupported *);
    int (*chip_name)(PChipName *);
    int (*host_initialize)(PHostInitialize *);
    int (*host_deinitialize)(PProfiler *); /* the field is the host object here */
    int (*add_metrics)(PAddMetrics *);
    int (*image_size)(PImageSize *);
    int (*image)(PImage *);
    int (*passes)(PPasses *);
    int (*enable)(PEnable *);
    int (*disable)(PProfiler *);
    int (*data_size)(PDataSize *);
    int (*data_initialize)(PDataInitialize *);
    int (*set_config)(PSetConfig *);
    int (*start)(PProfiler *);
    int (*push)(PPush *);
    int (*pop)(PProfiler *);
    int (*stop)(PStop *);
    int (*decode)(PDecode *);
    int (*data_info)(PDataInfo *);
    int (*evaluate)(PEvaluate *);
} RangeProfiler;

/* NULL if all functions were found, else the name of the first missing one. */
const char *range_functions(RangeProfiler *functions, void *library);

#endif
