"""Pairs of NVIDIA's structures, fields and numbers and their counterparts in taupy.

A field is listed by its name if that is the same in both, otherwise as `ours:theirs`.
"""

from __future__ import annotations

from typing import NamedTuple

from taupy.collectors import cupti_host, cupti_sampling


class Pair(NamedTuple):
    """A C structure of taupy and one of NVIDIA: our fields -> theirs."""

    ours: str
    theirs: str
    fields: dict[str, str]


def _pair(ours: str, theirs: str, text: str) -> Pair:
    both = (field.partition(":") for field in text.split())
    return Pair(ours, theirs, {mine: other or mine for mine, _, other in both})


RECORDS = {
    "Kernel": _pair("KernelRecord", "", "kind registers:registersPerThread start end "
    "device:deviceId context:contextId stream:streamId grid:gridX block:blockX "
    "static_shared:staticSharedMemory "
    "dynamic_shared:dynamicSharedMemory local:localMemoryPerThread correlation:correlationId name "
    "launch_type:launchType shared_executed:sharedMemoryExecuted graph_node:graphNodeId "
    "graph:graphId"),
    "Memcpy": _pair("MemcpyRecord", "", "kind copy_kind:copyKind source_kind:srcKind "
    "target_kind:dstKind flags bytes start end device:deviceId context:contextId stream:streamId "
    "correlation:correlationId graph_node:graphNodeId graph:graphId"),
    "MemcpyPtoP": _pair("PeerCopyRecord", "", "kind copy_kind:copyKind source_kind:srcKind "
    "target_kind:dstKind flags bytes start end device:deviceId context:contextId stream:streamId "
    "source_device:srcDeviceId target_device:dstDeviceId correlation:correlationId "
    "graph_node:graphNodeId graph:graphId"),
    "Memset": _pair("MemsetRecord", "", "kind value bytes start end device:deviceId "
    "context:contextId stream:streamId correlation:correlationId flags memory_kind:memoryKind "
    "graph_node:graphNodeId graph:graphId"),
    "API": _pair("ApiRecord", "", "kind callback_id:cbid start end thread:threadId "
    "correlation:correlationId"),
    "Synchronization": _pair("SynchronizationRecord", "", "kind type start end "
    "correlation:correlationId context:contextId stream:streamId"),
    "Memory": _pair("MemoryRecord", "", "kind operation:memoryOperationType memory_kind:memoryKind "
    "correlation:correlationId bytes timestamp device:deviceId context:contextId stream:streamId "
    "pool_type:memoryPoolConfig.memoryPoolType"),
    "MemoryPool": _pair("PoolRecord", "", "kind operation:memoryPoolOperationType "
    "pool_type:memoryPoolType "
    "correlation:correlationId device:deviceId address size timestamp utilized:utilizedSize"),
    "UnifiedMemoryCounter": _pair("UnifiedRecord", "", "kind counter:counterKind value start end "
    "source:srcId target:dstId"),
    "Device": _pair("DeviceRecord", "", "kind bandwidth_kib_s:globalMemoryBandwidth "
    "memory_bytes:globalMemorySize constant_bytes:constantMemorySize l2_bytes:l2CacheSize "
    "warp_threads:numThreadsPerWarp core_clock_khz:coreClockRate memcpy_engines:numMemcpyEngines "
    "multiprocessors:numMultiprocessors warps_per_multiprocessor:maxWarpsPerMultiprocessor "
    "blocks_per_multiprocessor:maxBlocksPerMultiprocessor "
    "shared_per_multiprocessor:maxSharedMemoryPerMultiprocessor "
    "registers_per_multiprocessor:maxRegistersPerMultiprocessor "
    "registers_per_block:maxRegistersPerBlock shared_per_block:maxSharedMemoryPerBlock "
    "threads_per_block:maxThreadsPerBlock major:computeCapabilityMajor "
    "minor:computeCapabilityMinor id ecc:eccEnabled uuid name mig:isMigEnabled"),
}  # fmt: skip
"""Kinds of records; NVIDIA's structure has another name in each version."""

STRUCTURES = (
    _pair("CallbackData", "CUpti_CallbackData", "site:callbackSite parameters:functionParams "
          "result:functionReturnValue symbol:symbolName context correlation:correlationId"),
    _pair("ResourceData", "CUpti_ResourceData", "context"),
    _pair("StateData", "CUpti_StateData",
          "result:notification.result message:notification.message"),
    _pair("UnifiedConfig", "CUpti_ActivityUnifiedMemoryCounterConfig",
          "scope counter:kind device:deviceId enable"),
    _pair("DriverLaunch", "cuLaunchKernel_params",
          "function:f grid:gridDimX block:blockDimX stream:hStream"),
    _pair("RuntimeLaunch", "cudaLaunchKernel_v7000_params",
          "function:func grid:gridDim block:blockDim stream"),
    _pair("ConfigLaunch", "cuLaunchKernelEx_params", "config function:f"),
    _pair("ConfigLaunch", "cudaLaunchKernelExC_v11060_params", "config"),
    _pair("LaunchConfig", "CUlaunchConfig", "grid:gridDimX block:blockDimX stream:hStream "
          "attributes:attrs attribute_count:numAttrs"),
    _pair("LaunchConfig", "cudaLaunchConfig_t", "grid:gridDim block:blockDim stream "
          "attributes:attrs attribute_count:numAttrs"),
    _pair("LaunchAttribute", "CUlaunchAttribute", "id cooperative:value.cooperative"),
    _pair("LaunchAttribute", "cudaLaunchAttribute", "id cooperative:val.cooperative"),
)  # fmt: skip

ARRAYS = ("LaunchAttribute",)
"""Their size matters, too, because they follow each other."""

_RANGE = "CUpti_RangeProfiler_"
_HOST = "CUpti_Profiler_Host_"
_OBJECT = "profiler:pRangeProfilerObject"
PARAMETERS = tuple(
    _pair(ours, f"{theirs}_Params", f"size:structSize {text}")
    for ours, theirs, text in (
        ("PInitialize", "CUpti_Profiler_Initialize", "reserved:pPriv"),
        ("PAvailability", "CUpti_Profiler_GetCounterAvailability",
         "context:ctx size_of_image:counterAvailabilityImageSize "
         "image:pCounterAvailabilityImage device_level:bAllowDeviceLevelCounters"),
        ("PSupported", "CUpti_Profiler_DeviceSupported",
         "device:cuDevice supported:isSupported architecture sli vgpu:vGpu "
         "confidential:confidentialCompute cmp wsl api sku"),
        ("PChipName", "CUpti_Device_GetChipName", "device:deviceIndex name:pChipName"),
        ("PHostInitialize", f"{_HOST}Initialize",
         "type:profilerType chip:pChipName availability:pCounterAvailabilityImage "
         "host:pHostObject metric_set:pSinglePassMetricSetName"),
        ("PProfiler", f"{_HOST}Deinitialize", "profiler:pHostObject"),
        ("PAddMetrics", f"{_HOST}ConfigAddMetrics",
         "host:pHostObject names:ppMetricNames count:numMetrics"),
        ("PImageSize", f"{_HOST}GetConfigImageSize", "host:pHostObject bytes:configImageSize"),
        ("PImage", f"{_HOST}GetConfigImage",
         "host:pHostObject bytes:configImageSize image:pConfigImage"),
        ("PPasses", f"{_HOST}GetNumOfPasses",
         "bytes:configImageSize image:pConfigImage passes:numOfPasses"),
        ("PEnable", f"{_RANGE}Enable", f"context:ctx {_OBJECT} cache_control:cacheControlMode"),
        ("PProfiler", f"{_RANGE}Disable", _OBJECT),
        ("PProfiler", f"{_RANGE}Start", _OBJECT),
        ("PProfiler", f"{_RANGE}PopRange", _OBJECT),
        ("PDataSize", f"{_RANGE}GetCounterDataSize",
         f"{_OBJECT} names:pMetricNames count:numMetrics ranges:maxNumOfRanges "
         "nodes:maxNumRangeTreeNodes bytes:counterDataSize"),
        ("PDataInitialize", f"{_RANGE}CounterDataImage_Initialize",
         f"{_OBJECT} bytes:counterDataSize data:pCounterData"),
        ("PSetConfig", f"{_RANGE}SetConfig",
         f"{_OBJECT} config_bytes:configSize config:pConfig data_bytes:counterDataImageSize "
         "data:pCounterDataImage range replay:replayMode ranges:maxRangesPerPass "
         "levels:numNestingLevels least_level:minNestingLevel pass:passIndex "
         "target_level:targetNestingLevel"),
        ("PPush", f"{_RANGE}PushRange", f"{_OBJECT} name:pRangeName"),
        ("PStop", f"{_RANGE}Stop", f"{_OBJECT} pass:passIndex target_level:targetNestingLevel "
         "all_passes:isAllPassSubmitted"),
        ("PDecode", f"{_RANGE}DecodeData", f"{_OBJECT} dropped:numOfRangeDropped"),
        ("PDataInfo", f"{_RANGE}GetCounterDataInfo",
         "data:pCounterDataImage bytes:counterDataImageSize ranges:numTotalRanges"),
        ("PEvaluate", f"{_HOST}EvaluateToGpuValues",
         "host:pHostObject data:pCounterDataImage bytes:counterDataImageSize range:rangeIndex "
         "names:ppMetricNames count:numMetrics values:pMetricValues"),
    )
)  # fmt: skip
"""Parameters written in C: all fields, so that each version's last one is included."""

SINCE = {
    ("PAvailability", "device_level"): "DEVICE_LEVEL_SINCE",
    ("PSupported", "sku"): "SKU_SINCE",
    ("PHostInitialize", "metric_set"): "METRIC_SET_SINCE",
    ("PEnable", "cache_control"): "CACHE_CONTROL_SINCE",
}
"""Fields missing in some versions -> the first CUPTI that has them, as our number."""

PYTHON = {
    **{
        f"CUpti_PmSampling_{theirs}_Params": getattr(cupti_sampling, ours)
        for ours, theirs in {
            "SetConfig": "SetConfig", "Availability": "GetCounterAvailability", "Enable": "Enable",
            "OnObject": "Start", "DataSize": "GetCounterDataSize", "Decode": "DecodeData",
            "DataInitialize": "CounterDataImage_Initialize", "DataInfo": "GetCounterDataInfo",
            "SampleInfo": "CounterData_GetSampleInfo",
        }.items()
    },
    "CUpti_PmSampling_Stop_Params": cupti_sampling.OnObject,
    "CUpti_PmSampling_Disable_Params": cupti_sampling.OnObject,
    **{
        f"CUpti_{theirs}_Params": getattr(cupti_host, ours)
        for ours, theirs in {
            "_ProfilerInitialize": "Profiler_Initialize", "_ChipName": "Device_GetChipName",
            "_SupportedChips": "Profiler_Host_GetSupportedChips",
            "_Initialize": "Profiler_Host_Initialize",
            "_Deinitialize": "Profiler_Host_Deinitialize",
            "_BaseMetrics": "Profiler_Host_GetBaseMetrics",
            "_SubMetrics": "Profiler_Host_GetSubMetrics",
            "_MetricProperties": "Profiler_Host_GetMetricProperties",
            "_AddMetrics": "Profiler_Host_ConfigAddMetrics",
            "_ImageSize": "Profiler_Host_GetConfigImageSize",
            "_Image": "Profiler_Host_GetConfigImage", "_Passes": "Profiler_Host_GetNumOfPasses",
            "_Evaluate": "Profiler_Host_EvaluateToGpuValues",
        }.items()
    },
}  # fmt: skip
"""NVIDIA's parameters -> their counterparts in Python, whose fields have NVIDIA's names."""

_KIND = "CUPTI_ACTIVITY_KIND_"
NUMBERS = {
    **{
        f"RECORD_{name}": f"{_KIND}{name}"
        for name in ("MEMCPY", "MEMSET", "KERNEL", "DRIVER", "RUNTIME", "DEVICE", "CONTEXT",
                     "CONCURRENT_KERNEL", "OVERHEAD", "MEMCPY2", "STREAM", "SYNCHRONIZATION",
                     "MEMORY2", "MEMORY_POOL")
    },
    "RECORD_UNIFIED_MEMORY": f"{_KIND}UNIFIED_MEMORY_COUNTER",
    "RECORD_EXTERNAL": f"{_KIND}EXTERNAL_CORRELATION",
    "DOMAIN_DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API", "DOMAIN_RUNTIME": "CUPTI_CB_DOMAIN_RUNTIME_API",
    "DOMAIN_RESOURCE": "CUPTI_CB_DOMAIN_RESOURCE", "DOMAIN_STATE": "CUPTI_CB_DOMAIN_STATE",
    "RESOURCE_CONTEXT_CREATED": "CUPTI_CBID_RESOURCE_CONTEXT_CREATED",
    "RESOURCE_CONTEXT_DESTROY": "CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING",
    "STATE_FATAL": "CUPTI_CBID_STATE_FATAL_ERROR", "STATE_ERROR": "CUPTI_CBID_STATE_ERROR",
    "STATE_WARNING": "CUPTI_CBID_STATE_WARNING",
    "CUPTI_MAX_LIMIT_REACHED": "CUPTI_ERROR_MAX_LIMIT_REACHED",
    "ALL_DEVICES": "CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES",
    "AUTO_RANGE": "CUPTI_AutoRange", "USER_RANGE": "CUPTI_UserRange",
    "KERNEL_REPLAY": "CUPTI_KernelReplay", "USER_REPLAY": "CUPTI_UserReplay",
    "RANGE_PROFILER": "CUPTI_PROFILER_TYPE_RANGE_PROFILER",
    "RANGE_PROFILING": "CUPTI_PROFILER_RANGE_PROFILING",
    "IS_SUPPORTED": "CUPTI_PROFILER_CONFIGURATION_SUPPORTED",
    "ATTRIBUTE_COOPERATIVE": "CU_LAUNCH_ATTRIBUTE_COOPERATIVE",
}  # fmt: skip
"""Our constants in C -> NVIDIA's."""

PYTHON_NUMBERS = {
    "CUPTI_ERROR_INVALID_PARAMETER": cupti_host._INVALID_PARAMETER,
    "CUPTI_PROFILER_TYPE_RANGE_PROFILER": cupti_host.RANGE_PROFILER,
    "CUPTI_PROFILER_TYPE_PM_SAMPLING": cupti_host.PM_SAMPLING,
    "CUPTI_METRIC_TYPE_COUNTER": cupti_host.KINDS.index("counter"),
    "CUPTI_METRIC_TYPE_RATIO": cupti_host.KINDS.index("ratio"),
    "CUPTI_METRIC_TYPE_THROUGHPUT": cupti_host.KINDS.index("throughput"),
    "CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL": cupti_sampling._BY_CYCLES,
    "CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL": cupti_sampling._BY_TIME,
    "CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL": cupti_sampling._IMAGE_FULL,
    "CUPTI_ERROR_OUT_OF_MEMORY": cupti_sampling._OUT_OF_MEMORY,
    "CUPTI_ERROR_NOT_SUPPORTED": cupti_sampling._NOT_SUPPORTED,
}
"""NVIDIA's constants -> ours in Python."""


def structures() -> dict[str, list[str]]:
    """NVIDIA's structures -> the fields that ours have, too."""
    found: dict[str, dict[str, None]] = {}
    for pair in (*STRUCTURES, *PARAMETERS):
        found.setdefault(pair.theirs, {}).update(dict.fromkeys(pair.fields.values()))
    for theirs, ours in PYTHON.items():
        found.setdefault(theirs, {}).update(dict.fromkeys(name for name, _ in ours._fields_))
    return {theirs: list(fields) for theirs, fields in found.items()}
