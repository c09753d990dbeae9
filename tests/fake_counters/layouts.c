/* Prints where our layouts of CUPTI's parameters differ from NVIDIA's headers, which the test puts
 * before this. */
#include "cupti_range.h"

static int checked, wrong;

static void is(const char *what, size_t ours, size_t theirs)
{
    checked++;
    if (ours != theirs) {
        wrong++;
        printf("%s: %zu, not %zu\n", what, ours, theirs);
    }
}

#define FIELD(T, f, U, g)                                                                          \
    is(#U "." #g, offsetof(T, f), offsetof(U, g));                                                 \
    is("size of " #U "." #g, sizeof(((T *)0)->f), sizeof(((U *)0)->g))
#define SIZE(T, last, U) is("size of " #U, offsetof(T, last) + sizeof(((T *)0)->last), U##_STRUCT_SIZE)

int main(void)
{
    SIZE(PInitialize, reserved, CUpti_Profiler_Initialize_Params);
    FIELD(PAvailability, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
    FIELD(PAvailability, size_of_image, CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize);
    FIELD(PAvailability, image, CUpti_Profiler_GetCounterAvailability_Params, pCounterAvailabilityImage);
    FIELD(PSupported, device, CUpti_Profiler_DeviceSupported_Params, cuDevice);
    FIELD(PSupported, supported, CUpti_Profiler_DeviceSupported_Params, isSupported);
    FIELD(PSupported, sli, CUpti_Profiler_DeviceSupported_Params, sli);
    FIELD(PSupported, vgpu, CUpti_Profiler_DeviceSupported_Params, vGpu);
    FIELD(PSupported, confidential, CUpti_Profiler_DeviceSupported_Params, confidentialCompute);
    FIELD(PSupported, cmp, CUpti_Profiler_DeviceSupported_Params, cmp);
    FIELD(PSupported, wsl, CUpti_Profiler_DeviceSupported_Params, wsl);
    FIELD(PSupported, api, CUpti_Profiler_DeviceSupported_Params, api);
    SIZE(PChipName, name, CUpti_Device_GetChipName_Params);
    FIELD(PChipName, device, CUpti_Device_GetChipName_Params, deviceIndex);
    FIELD(PHostInitialize, type, CUpti_Profiler_Host_Initialize_Params, profilerType);
    FIELD(PHostInitialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
    FIELD(PHostInitialize, availability, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
    FIELD(PHostInitialize, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);
    SIZE(PProfiler, profiler, CUpti_Profiler_Host_Deinitialize_Params);
    FIELD(PProfiler, profiler, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
    SIZE(PAddMetrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params);
    FIELD(PAddMetrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
    FIELD(PAddMetrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
    FIELD(PAddMetrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
    SIZE(PImageSize, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params);
    FIELD(PImageSize, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject);
    SIZE(PImage, image, CUpti_Profiler_Host_GetConfigImage_Params);
    FIELD(PImage, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
    FIELD(PImage, image, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
    SIZE(PPasses, passes, CUpti_Profiler_Host_GetNumOfPasses_Params);
    FIELD(PPasses, bytes, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
    FIELD(PPasses, image, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
    FIELD(PPasses, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
    FIELD(PEnable, context, CUpti_RangeProfiler_Enable_Params, ctx);
    FIELD(PEnable, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
#if CACHE_CONTROL
    SIZE(PEnable, cache_control, CUpti_RangeProfiler_Enable_Params);
    FIELD(PEnable, cache_control, CUpti_RangeProfiler_Enable_Params, cacheControlMode);
#endif
    SIZE(PProfiler, profiler, CUpti_RangeProfiler_Start_Params);
    SIZE(PProfiler, profiler, CUpti_RangeProfiler_Disable_Params);
    FIELD(PProfiler, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
    SIZE(PDataSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params);
    FIELD(PDataSize, profiler, CUpti_RangeProfiler_GetCounterDataSize_Params, pRangeProfilerObject);
    FIELD(PDataSize, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
    FIELD(PDataSize, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
    FIELD(PDataSize, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
    FIELD(PDataSize, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
    FIELD(PDataSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
    SIZE(PDataInitialize, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    FIELD(PDataInitialize, profiler, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pRangeProfilerObject);
    FIELD(PDataInitialize, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
    FIELD(PDataInitialize, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);
    SIZE(PSetConfig, target_level, CUpti_RangeProfiler_SetConfig_Params);
    FIELD(PSetConfig, profiler, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject);
    FIELD(PSetConfig, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
    FIELD(PSetConfig, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
    FIELD(PSetConfig, data_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
    FIELD(PSetConfig, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
    FIELD(PSetConfig, range, CUpti_RangeProfiler_SetConfig_Params, range);
    FIELD(PSetConfig, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
    FIELD(PSetConfig, ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
    FIELD(PSetConfig, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
    FIELD(PSetConfig, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
    FIELD(PSetConfig, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
    FIELD(PSetConfig, target_level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
    SIZE(PPush, name, CUpti_RangeProfiler_PushRange_Params);
    FIELD(PPush, profiler, CUpti_RangeProfiler_PushRange_Params, pRangeProfilerObject);
    FIELD(PPush, name, CUpti_RangeProfiler_PushRange_Params, pRangeName);
    SIZE(PProfiler, profiler, CUpti_RangeProfiler_PopRange_Params);
    is("user range", USER_RANGE, CUPTI_UserRange);
    is("user replay", USER_REPLAY, CUPTI_UserReplay);
    SIZE(PStop, all_passes, CUpti_RangeProfiler_Stop_Params);
    FIELD(PStop, profiler, CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject);
    FIELD(PStop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
    SIZE(PDecode, dropped, CUpti_RangeProfiler_DecodeData_Params);
    FIELD(PDecode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
    SIZE(PDataInfo, ranges, CUpti_RangeProfiler_GetCounterDataInfo_Params);
    FIELD(PDataInfo, data, CUpti_RangeProfiler_GetCounterDataInfo_Params, pCounterDataImage);
    FIELD(PDataInfo, bytes, CUpti_RangeProfiler_GetCounterDataInfo_Params, counterDataImageSize);
    FIELD(PDataInfo, ranges, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);
    SIZE(PEvaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
    FIELD(PEvaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
    FIELD(PEvaluate, data, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
    FIELD(PEvaluate, bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
    FIELD(PEvaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
    FIELD(PEvaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
    FIELD(PEvaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
    FIELD(PEvaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
    is("auto range", AUTO_RANGE, CUPTI_AutoRange);
    is("kernel replay", KERNEL_REPLAY, CUPTI_KernelReplay);
    is("range profiler", RANGE_PROFILER, CUPTI_PROFILER_RANGE_PROFILING);
    is("range profiler, host", RANGE_PROFILER, CUPTI_PROFILER_TYPE_RANGE_PROFILER);
    is("supported", 3, CUPTI_PROFILER_CONFIGURATION_SUPPORTED);
    /* What a launch's parameters look like. */
    is("driver grid", 8, offsetof(cuLaunchKernel_params, gridDimX));
    is("driver block", 20, offsetof(cuLaunchKernel_params, blockDimX));
    is("driver stream", 40, offsetof(cuLaunchKernel_params, hStream));
    is("runtime grid", 8, offsetof(cudaLaunchKernel_v7000_params, gridDim));
    is("runtime block", 20, offsetof(cudaLaunchKernel_v7000_params, blockDim));
    is("runtime stream", 48, offsetof(cudaLaunchKernel_v7000_params, stream));
    is("driver config first", 0, offsetof(cuLaunchKernelEx_params, config));
    is("config block", 12, offsetof(CUlaunchConfig, blockDimX));
    is("config stream", 32, offsetof(CUlaunchConfig, hStream));
    is("config attributes", 40, offsetof(CUlaunchConfig, attrs));
    is("config attribute count", 48, offsetof(CUlaunchConfig, numAttrs));
    is("attribute", 72, sizeof(CUlaunchAttribute));
    is("attribute value", 8, offsetof(CUlaunchAttribute, value));
    is("cooperative", 2, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    is("runtime config first", 0, offsetof(cudaLaunchKernelExC_v11060_params, config));
    is("runtime config block", 12, offsetof(cudaLaunchConfig_t, blockDim));
    is("runtime config stream", 32, offsetof(cudaLaunchConfig_t, stream));
    is("runtime config attributes", 40, offsetof(cudaLaunchConfig_t, attrs));
    is("runtime config attribute count", 48, offsetof(cudaLaunchConfig_t, numAttrs));
    printf("checked %d, wrong %d\n", checked, wrong);
    return wrong != 0;
}
