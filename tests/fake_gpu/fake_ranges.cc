/* The played CUPTI's Range Profiler: metric number i (from 1) of a kernel that takes `took` is took *
 * i; gpu__time_duration.sum is 1000 * took. Each start and stop adds its ranges to those in the data
 * image, until that is initialised again.
 *
 * As two public tools have met it, nothing is configured from within a launch's callbacks: an invalid
 * operation. With "from launches" it is, and is not where a context is created; with "from nowhere" in
 * no callback at all. FAKE_RANGE makes it misbehave further: enable=CODE, config=CODE, start=CODE (that function answers so), twice (two
 * ranges a kernel), silent (nothing is told of calls of the driver that the runtime makes), late (a
 * range is there after its launch has ended), busy (nor can the profiler be stopped before), no sass
 * (nor does it start with metrics of that name), now and then (every other start fails),
 * keep image (data images are not initialised within launches either). */
#include "played_cupti.h"
#include <mutex>

#define CONTEXTS 8

struct Profiler {
    CUcontext context;
    int is_started, is_user, is_pushed;
    Config config;
    RangeData *data;
    uint64_t finished[16]; /* and not decoded yet */
    size_t count, late;
};

static Profiler profilers[CONTEXTS];
static unsigned starts;

/* Calls of other threads end while one is counted: without it a range was now and then lost. */
static std::mutex of_the_ranges;
#define LOCKED std::lock_guard<std::mutex> held(of_the_ranges)

static Profiler *profiler_of(CUcontext context)
{
    for (auto &profiler : profilers)
        if (profiler.context == context)
            return &profiler;
    return NULL;
}

static int may_configure()
{
    if (asked("FAKE_RANGE", "from launches"))
        return place != CONTEXT_BEGINS;
    if (asked("FAKE_RANGE", "from nowhere"))
        return place == ELSEWHERE;
    return place != LAUNCH_BEGINS && place != LAUNCH_ENDS;
}

int is_counted(CUcontext context)
{
    LOCKED;
    auto profiler = profiler_of(context);
    return profiler == NULL || !profiler->is_started ? 0 : profiler->is_user ? 2 : 1;
}

static void add_range(Profiler *profiler, uint64_t work)
{
    if (profiler->count + profiler->late < 16) {
        profiler->finished[profiler->count + profiler->late] = work;
        *(asked("FAKE_RANGE", "late") ? &profiler->late : &profiler->count) += 1;
    }
}

void counted(const Kernel *kernel)
{
    LOCKED;
    auto profiler = profiler_of(kernel->context);
    if (profiler == NULL) /* disabled meanwhile */
        return;
    if (profiler->is_user) {
        if (profiler->is_pushed)
            profiler->finished[0] += kernel->took;
        return;
    }
    add_range(profiler, kernel->took);
    if (asked("FAKE_RANGE", "twice"))
        add_range(profiler, kernel->took);
}

void ranges_arrive()
{
    LOCKED;
    for (auto &profiler : profilers) {
        profiler.count += profiler.late;
        profiler.late = 0;
    }
}

void forget_ranges(CUcontext context)
{
    LOCKED;
    if (profiler_of(context) != NULL)
        *profiler_of(context) = {};
}

CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *p)
{
    static unsigned enabled;
    SIZED(CUpti_RangeProfiler_Enable_Params, p);
    LOCKED;
    if (!may_configure())
        return CUPTI_ERROR_INVALID_OPERATION;
    if (asked("FAKE_RANGE", "enable"))
        return (CUptiResult)asked("FAKE_RANGE", "enable");
    Profiler *free = profiler_of(NULL);
    if (free == NULL || profiler_of(p->ctx) != NULL)
        return CUPTI_ERROR_INVALID_OPERATION;
    fprintf(stderr, "enabled %u, %zu bytes\n", ++enabled, p->structSize);
    *free = {};
    free->context = p->ctx;
    p->pRangeProfilerObject = (CUpti_RangeProfiler_Object *)free;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *p)
{
    SIZED(CUpti_RangeProfiler_Disable_Params, p);
    LOCKED;
    *(Profiler *)p->pRangeProfilerObject = {};
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *p)
{
    SIZED(CUpti_RangeProfiler_GetCounterDataSize_Params, p);
    p->counterDataSize = sizeof(RangeData);
    return p->numMetrics == 0 || p->maxNumRangeTreeNodes < p->maxNumOfRanges
               ? CUPTI_ERROR_INVALID_PARAMETER
               : CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params *p)
{
    SIZED(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, p);
    if (asked("FAKE_RANGE", "keep image") && place != ELSEWHERE && place != CONTEXT_BEGINS)
        return CUPTI_ERROR_INVALID_OPERATION;
    if (p->counterDataSize != sizeof(RangeData))
        return CUPTI_ERROR_INVALID_PARAMETER;
    auto data = (RangeData *)p->pCounterData;
    memset(data, 0, sizeof *data);
    data->magic = RANGES_MAGIC;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *p)
{
    SIZED(CUpti_RangeProfiler_SetConfig_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    if (!may_configure() || profiler->is_started)
        return CUPTI_ERROR_INVALID_OPERATION;
    if (asked("FAKE_RANGE", "config"))
        return (CUptiResult)asked("FAKE_RANGE", "config");
    auto config = (const Config *)p->pConfig;
    profiler->is_user = p->range == CUPTI_UserRange;
    if (p->replayMode != (profiler->is_user ? CUPTI_UserReplay : CUPTI_KernelReplay) ||
        config->magic != CONFIG_MAGIC || !config->has_availability || p->numNestingLevels != 1 ||
        !is_range_data(p->pCounterDataImage, p->counterDataImageSize))
        return CUPTI_ERROR_INVALID_PARAMETER;
    profiler->config = *config;
    profiler->data = (RangeData *)p->pCounterDataImage;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *p)
{
    SIZED(CUpti_RangeProfiler_Start_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    if (profiler->is_started || profiler->data == NULL)
        return CUPTI_ERROR_INVALID_OPERATION;
    if (asked("FAKE_RANGE", "no sass") && profiler->config.has_sass)
        return CUPTI_ERROR_NOT_SUPPORTED;
    if (asked("FAKE_RANGE", "now and then") && ++starts % 2)
        return CUPTI_ERROR_UNKNOWN;
    if (asked("FAKE_RANGE", "start"))
        return (CUptiResult)asked("FAKE_RANGE", "start");
    profiler->count = profiler->late = 0;
    profiler->is_started = 1;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params *p)
{
    SIZED(CUpti_RangeProfiler_PushRange_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    if (!profiler->is_started || !profiler->is_user)
        return CUPTI_ERROR_INVALID_OPERATION;
    profiler->finished[0] = 0;
    profiler->count = 1;
    profiler->is_pushed = 1;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params *p)
{
    SIZED(CUpti_RangeProfiler_PopRange_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    if (!profiler->is_pushed)
        return CUPTI_ERROR_INVALID_OPERATION;
    profiler->is_pushed = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *p)
{
    SIZED(CUpti_RangeProfiler_Stop_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    if (!profiler->is_started || (asked("FAKE_RANGE", "busy") && place == LAUNCH_ENDS))
        return CUPTI_ERROR_INVALID_OPERATION;
    profiler->is_started = 0;
    p->isAllPassSubmitted = 1;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *p)
{
    SIZED(CUpti_RangeProfiler_DecodeData_Params, p);
    LOCKED;
    auto profiler = (Profiler *)p->pRangeProfilerObject;
    RangeData *data = profiler->data;
    p->numOfRangeDropped = 0;
    for (size_t i = 0; i < profiler->count; i++)
        if (data->ranges < sizeof data->works / sizeof *data->works)
            data->works[data->ranges++] = profiler->finished[i];
        else
            p->numOfRangeDropped++;
    profiler->count = 0;
    return CUPTI_SUCCESS;
}

int is_range_data(const uint8_t *image, size_t size)
{
    return size == sizeof(RangeData) && ((const RangeData *)image)->magic == RANGES_MAGIC;
}

CUptiResult cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *p)
{
    SIZED(CUpti_RangeProfiler_GetCounterDataInfo_Params, p);
    if (!is_range_data(p->pCounterDataImage, p->counterDataImageSize))
        return CUPTI_ERROR_INVALID_PARAMETER;
    p->numTotalRanges = ((const RangeData *)p->pCounterDataImage)->ranges;
    return CUPTI_SUCCESS;
}

CUptiResult evaluate_range(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
    auto data = (const RangeData *)p->pCounterDataImage;
    if (p->rangeIndex >= data->ranges)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint64_t work = data->works[p->rangeIndex];
    for (size_t i = 0; i < p->numMetrics; i++)
        p->pMetricValues[i] = strcmp(p->ppMetricNames[i], "gpu__time_duration.sum") == 0
                                  ? 1000.0 * (double)work
                                  : (double)(work * (i + 1));
    return CUPTI_SUCCESS;
}
