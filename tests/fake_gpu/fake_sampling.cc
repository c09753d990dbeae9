/* The played CUPTI's PM sampling. Samples follow each other from the start on, at the interval asked
 * for (a cycle is a nanosecond). In sample n (from 0), metric number i (from 1) is 10 * i + n % 2;
 * where its name ends in .sum it is 1000 * i; sample 0 is far off, as NVIDIA says. FAKE_PM makes it
 * misbehave: enable=CODE, config=CODE, start=CODE, decode=CODE (that function answers so), full (the
 * hardware's buffer is full once, ten samples are lost), clock (stamps count from 0), context (a
 * context is needed), time=27 (a number of nanoseconds is refused), availability (the configuration
 * must have been made for what is available), slow (the first answer takes half a second), fast (a
 * thousand samples for each one asked for). */
#include "played_cupti.h"

struct Image {
    uint64_t magic, capacity, count, first, began, interval;
};
#define SAMPLES_MAGIC 0x5A4D504Cull

struct Device {
    int is_enabled, runs, lost;
    uint64_t interval, began, next;
    const uint8_t *config;
};
static Device devices[8];

static uint64_t now()
{
    return now_ns(asked("FAKE_PM", "clock") ? CLOCK_MONOTONIC : CLOCK_REALTIME);
}

static int has_context()
{
    void *library = driver();
    auto contexts = library != NULL ? (int (*)(void))dlsym(library, "fake_contexts") : NULL;
    return contexts != NULL && contexts() > 0;
}

CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params *p)
{
    SIZED(CUpti_PmSampling_Enable_Params, p);
    if (asked("FAKE_PM", "context") && !has_context())
        return CUPTI_ERROR_INVALID_CONTEXT;
    if (asked("FAKE_PM", "slow"))
        usleep(500000);
    if (asked("FAKE_PM", "enable"))
        return (CUptiResult)asked("FAKE_PM", "enable");
    if (p->deviceIndex > 7 || devices[p->deviceIndex].is_enabled++)
        return CUPTI_ERROR_INVALID_OPERATION;
    p->pPmSamplingObject = (CUpti_PmSampling_Object *)&devices[p->deviceIndex];
    return CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params *p)
{
    SIZED(CUpti_PmSampling_SetConfig_Params, p);
    auto it = (Device *)p->pPmSamplingObject;
    auto config = (const Config *)p->pConfig;
    int by_time = p->triggerMode == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
    it->interval = asked("FAKE_PM", "fast") ? p->samplingInterval / 1000 : p->samplingInterval;
    it->config = p->pConfig;
    if (by_time && asked("FAKE_PM", "time"))
        return (CUptiResult)asked("FAKE_PM", "time");
    if (asked("FAKE_PM", "availability") && !config->has_availability)
        return CUPTI_ERROR_NOT_SUPPORTED;
    if (p->configSize != sizeof *config || p->hardwareBufferSize < 1 << 20)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return (CUptiResult)asked("FAKE_PM", "config");
}

CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params *p)
{
    SIZED(CUpti_PmSampling_Start_Params, p);
    auto it = (Device *)p->pPmSamplingObject;
    if (it->runs)
        return CUPTI_ERROR_INVALID_OPERATION;
    if (!it->began)
        it->began = it->next = now();
    it->runs = 1;
    return (CUptiResult)asked("FAKE_PM", "start");
}

CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params *p)
{
    SIZED(CUpti_PmSampling_Stop_Params, p);
    auto it = (Device *)p->pPmSamplingObject;
    if (!it->runs)
        return CUPTI_ERROR_INVALID_OPERATION;
    it->runs = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params *p)
{
    SIZED(CUpti_PmSampling_Disable_Params, p);
    ((Device *)p->pPmSamplingObject)->is_enabled = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params *p)
{
    SIZED(CUpti_PmSampling_GetCounterDataSize_Params, p);
    p->counterDataSize = sizeof(Image) + p->maxSamples;
    return p->numMetrics == 0 || p->pMetricNames[0] == NULL ? CUPTI_ERROR_INVALID_PARAMETER
                                                            : CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingCounterDataImageInitialize(
    CUpti_PmSampling_CounterDataImage_Initialize_Params *p)
{
    SIZED(CUpti_PmSampling_CounterDataImage_Initialize_Params, p);
    *(Image *)p->pCounterData = {SAMPLES_MAGIC, p->counterDataSize - sizeof(Image), 0, 0, 0, 0};
    return CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params *p)
{
    SIZED(CUpti_PmSampling_DecodeData_Params, p);
    auto it = (Device *)p->pPmSamplingObject;
    auto image = (Image *)p->pCounterDataImage;
    auto config = (const Config *)it->config; /* it must still be there */
    if (image->magic != SAMPLES_MAGIC || image->count != 0 || config->magic != CONFIG_MAGIC)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (asked("FAKE_PM", "decode"))
        return (CUptiResult)asked("FAKE_PM", "decode");
    *image = {SAMPLES_MAGIC, image->capacity, 0, (it->next - it->began) / it->interval, it->began,
              it->interval};
    while (!config->lacks && image->count < image->capacity && it->next + it->interval <= now()) {
        it->next += it->interval;
        image->count++;
    }
    p->decodeStopReason = image->count == image->capacity
                              ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
                              : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
    p->overflow = 0;
    if (asked("FAKE_PM", "full") && !it->lost && image->count > 0) {
        it->lost = 1;
        it->next += 10 * it->interval;
        return CUPTI_ERROR_OUT_OF_MEMORY;
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params *p)
{
    SIZED(CUpti_PmSampling_GetCounterDataInfo_Params, p);
    auto image = (const Image *)p->pCounterDataImage;
    p->numTotalSamples = image->capacity;
    p->numPopulatedSamples = p->numCompletedSamples = image->count;
    return image->magic != SAMPLES_MAGIC ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiPmSamplingCounterDataGetSampleInfo(
    CUpti_PmSampling_CounterData_GetSampleInfo_Params *p)
{
    SIZED(CUpti_PmSampling_CounterData_GetSampleInfo_Params, p);
    auto image = (const Image *)p->pCounterDataImage;
    p->startTimestamp = image->began + (image->first + p->sampleIndex) * image->interval;
    p->endTimestamp = p->startTimestamp + image->interval;
    return p->sampleIndex >= image->count ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

static double value_of(const char *name, size_t number, uint64_t sample)
{
    size_t length = strlen(name);
    if (sample == 0)
        return 1e15;
    if (length > 4 && strcmp(name + length - 4, ".sum") == 0)
        return 1000.0 * (double)number;
    return 10.0 * (double)number + (double)(sample % 2);
}

CUptiResult cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
    SIZED(CUpti_Profiler_Host_EvaluateToGpuValues_Params, p);
    if (is_range_data(p->pCounterDataImage, p->counterDataImageSize))
        return evaluate_range(p);
    auto image = (const Image *)p->pCounterDataImage;
    for (size_t i = 0; i < p->numMetrics; i++)
        p->pMetricValues[i] = value_of(p->ppMetricNames[i], i + 1, image->first + p->rangeIndex);
    return image->magic != SAMPLES_MAGIC || p->rangeIndex >= image->count
               ? CUPTI_ERROR_INVALID_PARAMETER
               : CUPTI_SUCCESS;
}
