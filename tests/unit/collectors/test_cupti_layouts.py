"""taupy's layouts of CUPTI's records, callbacks and parameters, against NVIDIA's own headers.

Those of the version that the tests install, of a toolkit, and of every version in the folder that
TAUPY_CUPTI_HEADERS names (see scripts/record_cupti_layouts.py).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taupy.collectors import cupti_host, cupti_sampling
from tests.fake_gpu.headers import REASON, Headers, compiler, installed
from tests.fake_gpu.layouts import measured, printed, recorded

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"
CHECKS = Path(__file__).parents[2] / "fake_counters"
OURS = (f"-I{NATIVE}", "-D_Static_assert=static_assert")

INSTALLED = installed() if compiler() else []
each_version = pytest.mark.parametrize(
    "headers",
    INSTALLED or [pytest.param(None, marks=pytest.mark.skip(reason=REASON))],
    ids=lambda headers: headers.version if headers else "none",
)

RECORDS = {
    ("Kernel", "KernelRecord"): "kind registers:registersPerThread start end device:deviceId "
    "context:contextId stream:streamId grid:gridX block:blockX static_shared:staticSharedMemory "
    "dynamic_shared:dynamicSharedMemory local:localMemoryPerThread correlation:correlationId name "
    "launch_type:launchType shared_executed:sharedMemoryExecuted graph_node:graphNodeId "
    "graph:graphId",
    ("Memcpy", "MemcpyRecord"): "kind copy_kind:copyKind source_kind:srcKind target_kind:dstKind "
    "flags bytes start end device:deviceId context:contextId stream:streamId "
    "correlation:correlationId graph_node:graphNodeId graph:graphId",
    ("MemcpyPtoP", "PeerCopyRecord"): "kind copy_kind:copyKind source_kind:srcKind "
    "target_kind:dstKind flags bytes start end device:deviceId context:contextId stream:streamId "
    "source_device:srcDeviceId target_device:dstDeviceId correlation:correlationId "
    "graph_node:graphNodeId graph:graphId",
    ("Memset", "MemsetRecord"): "kind value bytes start end device:deviceId context:contextId "
    "stream:streamId correlation:correlationId flags memory_kind:memoryKind "
    "graph_node:graphNodeId graph:graphId",
    ("API", "ApiRecord"): "kind callback_id:cbid start end thread:threadId "
    "correlation:correlationId",
    ("Synchronization", "SynchronizationRecord"): "kind type start end correlation:correlationId "
    "context:contextId stream:streamId",
    ("Memory", "MemoryRecord"): "kind operation:memoryOperationType memory_kind:memoryKind "
    "correlation:correlationId bytes timestamp device:deviceId context:contextId stream:streamId "
    "pool_type:memoryPoolConfig.memoryPoolType",
    ("MemoryPool", "PoolRecord"): "kind operation:memoryPoolOperationType pool_type:memoryPoolType "
    "correlation:correlationId device:deviceId address size timestamp utilized:utilizedSize",
    ("UnifiedMemoryCounter", "UnifiedRecord"): "kind counter:counterKind value start end "
    "source:srcId target:dstId",
    ("Device", "DeviceRecord"): "kind bandwidth_kib_s:globalMemoryBandwidth "
    "memory_bytes:globalMemorySize constant_bytes:constantMemorySize l2_bytes:l2CacheSize "
    "warp_threads:numThreadsPerWarp core_clock_khz:coreClockRate memcpy_engines:numMemcpyEngines "
    "multiprocessors:numMultiprocessors warps_per_multiprocessor:maxWarpsPerMultiprocessor "
    "blocks_per_multiprocessor:maxBlocksPerMultiprocessor "
    "shared_per_multiprocessor:maxSharedMemoryPerMultiprocessor "
    "registers_per_multiprocessor:maxRegistersPerMultiprocessor "
    "registers_per_block:maxRegistersPerBlock shared_per_block:maxSharedMemoryPerBlock "
    "threads_per_block:maxThreadsPerBlock major:computeCapabilityMajor "
    "minor:computeCapabilityMinor id ecc:eccEnabled uuid name mig:isMigEnabled",
}
"""(NVIDIA's record, our structure) -> our fields, and NVIDIA's where they have another name."""

CALLBACKS = {
    ("CUpti_CallbackData", "CallbackData"): "site:callbackSite result:functionReturnValue "
    "parameters:functionParams symbol:symbolName context correlation:correlationId",
    ("CUpti_ResourceData", "ResourceData"): "context",
    ("CUpti_StateData", "StateData"): "result:notification.result message:notification.message",
}

NUMBERS = {
    "RECORD_MEMCPY": "CUPTI_ACTIVITY_KIND_MEMCPY", "RECORD_MEMSET": "CUPTI_ACTIVITY_KIND_MEMSET",
    "RECORD_KERNEL": "CUPTI_ACTIVITY_KIND_KERNEL", "RECORD_DRIVER": "CUPTI_ACTIVITY_KIND_DRIVER",
    "RECORD_RUNTIME": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "RECORD_DEVICE": "CUPTI_ACTIVITY_KIND_DEVICE",
    "RECORD_CONTEXT": "CUPTI_ACTIVITY_KIND_CONTEXT",
    "RECORD_CONCURRENT_KERNEL": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    "RECORD_OVERHEAD": "CUPTI_ACTIVITY_KIND_OVERHEAD",
    "RECORD_MEMCPY2": "CUPTI_ACTIVITY_KIND_MEMCPY2",
    "RECORD_UNIFIED_MEMORY": "CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER",
    "RECORD_STREAM": "CUPTI_ACTIVITY_KIND_STREAM",
    "RECORD_SYNCHRONIZATION": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "RECORD_EXTERNAL": "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION",
    "RECORD_MEMORY2": "CUPTI_ACTIVITY_KIND_MEMORY2",
    "RECORD_MEMORY_POOL": "CUPTI_ACTIVITY_KIND_MEMORY_POOL",
    "DOMAIN_DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API", "DOMAIN_RUNTIME": "CUPTI_CB_DOMAIN_RUNTIME_API",
    "DOMAIN_RESOURCE": "CUPTI_CB_DOMAIN_RESOURCE", "DOMAIN_STATE": "CUPTI_CB_DOMAIN_STATE",
    "RESOURCE_CONTEXT_CREATED": "CUPTI_CBID_RESOURCE_CONTEXT_CREATED",
    "RESOURCE_CONTEXT_DESTROY": "CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING",
    "STATE_FATAL": "CUPTI_CBID_STATE_FATAL_ERROR", "STATE_ERROR": "CUPTI_CBID_STATE_ERROR",
    "STATE_WARNING": "CUPTI_CBID_STATE_WARNING",
    "CUPTI_MAX_LIMIT_REACHED": "CUPTI_ERROR_MAX_LIMIT_REACHED",
}  # fmt: skip


@each_version
def test_what_is_recorded_of_the_headers_is_what_they_say(headers: Headers):
    layouts = recorded()[headers.version]
    newest = {what: structure for what, (structure, _, _) in layouts["records"].items()}
    found = measured(headers, newest)
    for record in found["records"].values():
        record[2] = {field: list(place) for field, place in record[2].items()}
    assert found == layouts


@each_version
def test_our_records_and_callbacks_are_nvidias(headers: Headers):
    records = recorded()[headers.version]["records"]
    pairs = [(records[what][0], ours, text) for (what, ours), text in RECORDS.items()]
    pairs += [(theirs, ours, text) for (theirs, ours), text in CALLBACKS.items()]
    body = ['#include "cupti_records.h"', "int main() {"]
    for theirs, ours, text in pairs:
        for field in text.split():
            mine, _, other = field.partition(":")
            offsets = f"offsetof({ours}, {mine}), offsetof({theirs}, {other or mine})"
            body.append(f'printf("{ours}.{mine} %zu %zu\\n", {offsets});')
    for mine, other in NUMBERS.items():
        body.append(f'printf("{mine} %zu %zu\\n", (size_t){mine}, (size_t){other});')
    lines = [line.split() for line in printed(headers, "\n".join([*body, "}"]), *OURS)]
    assert [line for line in lines if line[1] != line[2]] == []
    assert len(lines) == sum(len(text.split()) for *_, text in pairs) + len(NUMBERS)


@each_version
def test_sizes_of_records_are_nvidias(headers: Headers):
    """The table that serves the replay of saved buffers where there is no CUPTI."""
    records = recorded()[headers.version]["records"]
    kinds = {what: ours for (what, ours) in RECORDS}
    number = {"Kernel": 10, "Memcpy": 1, "MemcpyPtoP": 22, "Memset": 2, "API": 5,
              "Synchronization": 38, "Memory": 49, "MemoryPool": 50, "UnifiedMemoryCounter": 25,
              "Device": 8, "Context": 9, "Stream": 37, "Overhead": 17,
              "ExternalCorrelation": 39}  # fmt: skip
    assert set(kinds) < set(number) == set(records)
    major, minor = map(int, headers.version.split("."))
    body = '#include "cupti_records.h"\nint main() {\n' + "".join(
        f'printf("{what} %zu\\n", record_size({kind}, {100 * major + minor}));\n'
        for what, kind in number.items()
    )
    lines = dict(line.split() for line in printed(headers, body + "}", *OURS))
    assert lines == {what: str(size) for what, (_, size, _) in records.items()}


@pytest.mark.skipif(not INSTALLED, reason=REASON)
def test_our_records_are_those_of_every_recorded_version():
    """12.6 to 13.5, whichever headers are here: their offsets are on record."""
    fields = [
        (ours, *field.partition(":")) for (_, ours), t in RECORDS.items() for field in t.split()
    ]
    body = ['#include "cupti_records.h"', "int main() {"]
    body += [f'printf("%zu\\n", offsetof({ours}, {mine}));' for ours, mine, *_ in fields]
    lines = printed(INSTALLED[0], "\n".join([*body, "}"]), *OURS)
    offsets = dict(zip(((ours, mine) for ours, mine, *_ in fields), map(int, lines), strict=True))
    assert {"12.6", "13.0", "13.1", "13.5"} <= set(recorded())
    for version, layouts in recorded().items():
        for (what, ours), text in RECORDS.items():
            places = layouts["records"][what][2]
            for mine, _, other in (field.partition(":") for field in text.split()):
                assert offsets[ours, mine] == places[other or mine][0], (version, ours, mine)


ENABLE = "CUpti_RangeProfiler_Enable_Params"


@each_version
def test_our_parameters_of_the_range_profiler_are_nvidias(headers: Headers):
    body = (CHECKS / "layouts.c").read_text()
    has_cache_control = recorded()[headers.version]["parameters"][ENABLE] > 32  # since 13.4
    differing = printed(headers, body, *OURS, f"-DCACHE_CONTROL={int(has_cache_control)}")
    assert differing == [f"checked {177 if has_cache_control else 174}, wrong 0"]


SAMPLING = {
    "SetConfig": "SetConfig", "Availability": "GetCounterAvailability", "Enable": "Enable",
    "OnObject": "Start", "DataSize": "GetCounterDataSize", "Decode": "DecodeData",
    "DataInitialize": "CounterDataImage_Initialize", "DataInfo": "GetCounterDataInfo",
    "SampleInfo": "CounterData_GetSampleInfo",
}  # fmt: skip
HOST = {
    "_SupportedChips": "Host_GetSupportedChips", "_Initialize": "Host_Initialize",
    "_Deinitialize": "Host_Deinitialize", "_BaseMetrics": "Host_GetBaseMetrics",
    "_SubMetrics": "Host_GetSubMetrics", "_MetricProperties": "Host_GetMetricProperties",
    "_AddMetrics": "Host_ConfigAddMetrics", "_ImageSize": "Host_GetConfigImageSize",
    "_Image": "Host_GetConfigImage", "_Passes": "Host_GetNumOfPasses",
    "_Evaluate": "Host_EvaluateToGpuValues",
}  # fmt: skip


@each_version
def test_the_parameters_that_python_makes_are_nvidias(headers: Headers):
    """Fields lie where NVIDIA's do, and the size told is one that this version knows."""
    pairs = [(cupti_sampling, name, f"CUpti_PmSampling_{of}") for name, of in SAMPLING.items()]
    pairs += [(cupti_host, name, f"CUpti_Profiler_{of}") for name, of in HOST.items()]
    pairs = [(module, name, f"{theirs}_Params") for module, name, theirs in pairs]
    known = known_sizes(headers.version)
    body, expected = ["int main() {"], []
    for module, name, theirs in pairs:
        ours = getattr(module, name)
        fields = [field for field in ours._fields_ if exists(headers, theirs, field[0])]
        for field, _ in fields:
            place = getattr(ours, field)
            body.append(f'printf("%zu %zu\\n", offsetof({theirs}, {field}), '
                        f"sizeof((({theirs} *)0)->{field}));")  # fmt: skip
            expected.append(f"{place.offset} {place.size}")
    assert printed(headers, "\n".join([*body, "}"])) == expected
    for module, name, theirs in pairs:
        ours = getattr(module, name)
        told = {ours().structSize, *getattr(ours, "older_sizes", ())}
        assert told & known[theirs], (name, told, known[theirs])


def known_sizes(version: str) -> dict[str, set[int]]:
    """Of each structure, the sizes of this version and of those before it."""
    known: dict[str, set[int]] = {}
    for name, layouts in recorded().items():
        for structure, size in layouts["parameters"].items():
            known.setdefault(structure, set()).add(size)
        if name == version:
            break
    return known


def exists(headers: Headers, structure: str, field: str) -> bool:
    """Has this version the field: is it in the structure's own text?"""
    for header in ("cupti_pmsampling.h", "cupti_profiler_host.h"):
        text = (headers.folders[0] / header).read_text()
        found = re.search(rf"struct {structure}\s*{{(.*?)}}", text, re.DOTALL)
        if found:
            return re.search(rf"\b{field};", found[1]) is not None
    raise AssertionError(f"{structure} is in no header")
