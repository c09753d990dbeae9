#include "cupti_range.h"
#include <dlfcn.h>

const char *range_functions(RangeProfiler *functions, void *library)
{
    const struct {
        void **where;
        const char *name;
    } wanted[] = {
        {(void **)&functions->initialize, "cuptiProfilerInitialize"},
        {(void **)&functions->availability, "cuptiProfilerGetCounterAvailability"},
        {(void **)&functions->supported, "cuptiProfilerDeviceSupported"},
        {(void **)&functions->chip_name, "cuptiDeviceGetChipName"},
        {(void **)&functions->host_initialize, "cuptiProfilerHostInitialize"},
        {(void **)&functions->host_deinitialize, "cuptiProfilerHostDeinitialize"},
        {(void **)&functions->add_metrics, "cuptiProfilerHostConfigAddMetrics"},
        {(void **)&functions->image_size, "cuptiProfilerHostGetConfigImageSize"},
        {(void **)&functions->image, "cuptiProfilerHostGetConfigImage"},
        {(void **)&functions->passes, "cuptiProfilerHostGetNumOfPasses"},
        {(void **)&functions->enable, "cuptiRangeProfilerEnable"},
        {(void **)&functions->disable, "cuptiRangeProfilerDisable"},
        {(void **)&functions->data_size, "cuptiRangeProfilerGetCounterDataSize"},
        {(void **)&functions->data_initialize, "cuptiRangeProfilerCounterDataImageInitialize"},
        {(void **)&functions->set_config, "cuptiRangeProfilerSetConfig"},
        {(void **)&functions->start, "cuptiRangeProfilerStart"},
        {(void **)&functions->push, "cuptiRangeProfilerPushRange"},
        {(void **)&functions->pop, "cuptiRangeProfilerPopRange"},
        {(void **)&functions->stop, "cuptiRangeProfilerStop"},
        {(void **)&functions->decode, "cuptiRangeProfilerDecodeData"},
        {(void **)&functions->data_info, "cuptiRangeProfilerGetCounterDataInfo"},
        {(void **)&functions->evaluate, "cuptiProfilerHostEvaluateToGpuValues"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if ((*wanted[i].where = dlsym(library, wanted[i].name)) == NULL)
            return wanted[i].name;
    return NULL;
}
