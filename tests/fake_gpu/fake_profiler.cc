/* The played CUPTI's host functions: chips, metrics, configurations.
 *
 * Every metric is known but those of another version's (see below); each call that adds metrics takes
 * a pass, besides the first. Of ranges, FAKE_RANGE: host=CODE, initialize=CODE, one pass (all metrics
 * take one), unknown (in the program one of the metrics is not known). Of samples, FAKE_PM: most=N (N
 * metrics fit into a pass); metrics with "sass" or "_op_global_" in their names are unknown. The
 * chip knows those with "nvl", but its GPUs cannot count them, as seen with CUPTI 13.0 on an H100:
 * asked for what is available, it answers 999; otherwise there are no samples. FAKE_PM=nvlink: they
 * can.
 * FAKE_CHIPS: chips of the devices. */
#include "played_cupti.h"

struct Host {
    Config config;
};

static const char availability[] = "what is available here";

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *p)
{
    SIZED(CUpti_Profiler_Initialize_Params, p);
    if (!driver_is_ready())
        return CUPTI_ERROR_NOT_INITIALIZED;
    return (CUptiResult)asked("FAKE_RANGE", "initialize");
}

CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p)
{
    static char names[8][16];
    const char *chips = getenv("FAKE_CHIPS");
    SIZED(CUpti_Device_GetChipName_Params, p);
    if (chips == NULL)
        chips = "GH100";
    for (size_t i = 0; chips != NULL && i < p->deviceIndex; i++)
        chips = strchr(chips, ',') != NULL ? strchr(chips, ',') + 1 : NULL;
    if (p->deviceIndex > 7 || chips == NULL) /* seen with CUPTI 13.0 on an H200 */
        return p->pChipName = "Unknown", CUPTI_SUCCESS;
    char *name = names[p->deviceIndex];
    snprintf(name, sizeof *names, "%.*s", (int)strcspn(chips, ","), chips);
    p->pChipName = name;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params *p)
{
    SIZED(CUpti_Profiler_DeviceSupported_Params, p);
    p->isSupported = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
    return CUPTI_SUCCESS;
}

static void give_availability(uint8_t *image, size_t *size)
{
    if (image != NULL)
        memcpy(image, availability, sizeof availability);
    *size = sizeof availability;
}

CUptiResult cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params *p)
{
    SIZED(CUpti_Profiler_GetCounterAvailability_Params, p);
    give_availability(p->pCounterAvailabilityImage, &p->counterAvailabilityImageSize);
    return p->ctx != NULL ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiPmSamplingGetCounterAvailability(CUpti_PmSampling_GetCounterAvailability_Params *p)
{
    SIZED(CUpti_PmSampling_GetCounterAvailability_Params, p);
    give_availability(p->pCounterAvailabilityImage, &p->counterAvailabilityImageSize);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetSupportedChips(CUpti_Profiler_Host_GetSupportedChips_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetSupportedChips_Params, p);
    p->numChips = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *p)
{
    SIZED(CUpti_Profiler_Host_Initialize_Params, p);
    if (p->profilerType == CUPTI_PROFILER_TYPE_RANGE_PROFILER && asked("FAKE_RANGE", "host"))
        return (CUptiResult)asked("FAKE_RANGE", "host");
    if (p->profilerType == CUPTI_PROFILER_TYPE_PM_SAMPLING && strncmp(p->pChipName, "GV", 2) == 0)
        return CUPTI_ERROR_NOT_SUPPORTED;
    const uint8_t *image = p->pCounterAvailabilityImage;
    if (image != NULL && memcmp(image, availability, sizeof availability) != 0)
        return CUPTI_ERROR_INVALID_PARAMETER;
    p->pHostObject = (CUpti_Profiler_Host_Object *)new Host{
        {CONFIG_MAGIC, (uint64_t)p->profilerType, 0, 0, 0, image != NULL}};
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *p)
{
    SIZED(CUpti_Profiler_Host_Deinitialize_Params, p);
    delete (Host *)p->pHostObject;
    return CUPTI_SUCCESS;
}

static int lacks_nvlink(const char *metric)
{
    return strstr(metric, "nvl") != NULL && !asked("FAKE_PM", "nvlink");
}

static int is_unknown(const Host *host, const char *metric)
{
    if (host->config.type == CUPTI_PROFILER_TYPE_PM_SAMPLING)
        return strstr(metric, "sass") || strstr(metric, "_op_global_") ||
               (lacks_nvlink(metric) && host->config.has_availability);
    /* The launcher's questions are answered, the program's are not. */
    return asked("FAKE_RANGE", "unknown") && host->config.has_availability &&
           strstr(metric, "_op_global_ld");
}

/* What there is of each kind, in NVIDIA's order of kinds. */
static const char *bases[][2] = {{"dram__bytes", "sm__inst_executed"},
                                 {"lts__t_sector_hit_rate", NULL},
                                 {"sm__throughput", NULL}};
static const char *submetrics[][3] = {{".avg", ".max", ".sum"},
                                      {".pct", ".ratio", NULL},
                                      {".avg.pct_of_peak_sustained_elapsed", NULL, NULL}};
static const char *units[] = {"byte", "", "%"};
#define KINDS 3

static int kind_of(const char *metric)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (auto base : bases[kind])
            if (base != NULL && strncmp(metric, base, strlen(base)) == 0)
                return kind;
    return -1;
}

static size_t count_of(const char *const *names, size_t most)
{
    size_t count = 0;
    while (count < most && names[count] != NULL)
        count++;
    return count;
}

CUptiResult cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetBaseMetrics_Params, p);
    if (p->metricType >= KINDS || p->pHostObject == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    p->ppMetricNames = bases[p->metricType];
    p->numMetrics = count_of(bases[p->metricType], 2);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetSubMetrics_Params, p);
    int kind = kind_of(p->pMetricName);
    if (kind < 0 || kind != (int)p->metricType)
        return CUPTI_ERROR_INVALID_METRIC_NAME;
    p->ppSubMetrics = submetrics[kind];
    p->numOfSubmetrics = count_of(submetrics[kind], 3);
    return CUPTI_SUCCESS;
}

/* From 13.1 on the scope follows at the end, which the headers at hand may not have. */
CUptiResult
cuptiProfilerHostGetMetricProperties(CUpti_Profiler_Host_GetMetricProperties_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetMetricProperties_Params, p);
    const size_t scope = offsetof(CUpti_Profiler_Host_GetMetricProperties_Params, metricType) +
                         sizeof p->metricType;
    int kind = kind_of(p->pMetricName);
    if (kind < 0)
        return CUPTI_ERROR_INVALID_METRIC_NAME;
    p->pDescription = "as it is played";
    p->pHwUnit = "dram";
    p->pDimUnit = units[kind];
    p->metricType = (CUpti_MetricType)kind;
    if (p->structSize > scope)
        *(uint32_t *)((char *)p + scope) = 0; /* the context */
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *p)
{
    SIZED(CUpti_Profiler_Host_ConfigAddMetrics_Params, p);
    auto host = (Host *)p->pHostObject;
    for (size_t i = 0; i < p->numMetrics; i++)
        if (is_unknown(host, p->ppMetricNames[i]))
            return lacks_nvlink(p->ppMetricNames[i]) ? CUPTI_ERROR_UNKNOWN
                                                     : CUPTI_ERROR_INVALID_PARAMETER;
    for (size_t i = 0; i < p->numMetrics; i++)
        host->config.lacks |= lacks_nvlink(p->ppMetricNames[i]);
    for (size_t i = 0; i < p->numMetrics; i++)
        host->config.has_sass |= strstr(p->ppMetricNames[i], "__sass_") != NULL;
    host->config.metrics += p->numMetrics;
    host->config.calls++;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetConfigImageSize_Params, p);
    p->configImageSize = sizeof(Config);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetConfigImage_Params, p);
    if (p->configImageSize != sizeof(Config))
        return CUPTI_ERROR_INVALID_PARAMETER;
    memcpy(p->pConfigImage, &((Host *)p->pHostObject)->config, sizeof(Config));
    return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p)
{
    SIZED(CUpti_Profiler_Host_GetNumOfPasses_Params, p);
    auto config = (const Config *)p->pConfigImage;
    if (p->configImageSize != sizeof *config || config->magic != CONFIG_MAGIC)
        return CUPTI_ERROR_INVALID_PARAMETER;
    size_t most = asked("FAKE_PM", "most") ? (size_t)asked("FAKE_PM", "most") : 1000;
    if (config->type == CUPTI_PROFILER_TYPE_PM_SAMPLING)
        p->numOfPasses = (config->metrics + most - 1) / most;
    else
        p->numOfPasses = asked("FAKE_RANGE", "one pass") ? 1 : 1 + config->calls;
    return CUPTI_SUCCESS;
}
