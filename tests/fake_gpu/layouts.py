"""Layouts of CUPTI's records and parameters in each version, as NVIDIA's headers have them.

`layouts.json` was written by `scripts/record_cupti_layouts.py`; nothing in it comes from taupy's
own structures. For each version: `records`, kind -> [structure, size, {field: [offset, size]}], and
`parameters`, structure -> the size that a caller must tell.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.fake_gpu.headers import Headers, compiler

LAYOUTS = Path(__file__).with_name("layouts.json")

_PLACE = "deviceId contextId streamId"
_GRAPH = "graphNodeId graphId"
RECORDS = {
    "Kernel": "kind registersPerThread start end gridX gridY gridZ blockX blockY blockZ "
    "staticSharedMemory dynamicSharedMemory localMemoryPerThread correlationId name "
    f"sharedMemoryExecuted launchType {_PLACE} {_GRAPH}",
    "Memcpy": "kind copyKind srcKind dstKind flags bytes start end "
    f"correlationId {_PLACE} {_GRAPH}",
    "MemcpyPtoP": "kind copyKind srcKind dstKind flags bytes start end srcDeviceId dstDeviceId "
    f"correlationId {_PLACE} {_GRAPH}",
    "Memset": f"kind value bytes start end correlationId flags memoryKind {_PLACE} {_GRAPH}",
    "API": "kind cbid start end threadId correlationId",
    "Synchronization": "kind type start end correlationId contextId streamId",
    "Memory": "kind memoryOperationType memoryKind correlationId bytes timestamp "
    f"{_PLACE} memoryPoolConfig.memoryPoolType",
    "MemoryPool": "kind memoryPoolOperationType memoryPoolType correlationId deviceId address "
    "size timestamp utilizedSize",
    "UnifiedMemoryCounter": "kind counterKind value start end srcId dstId",
    "Device": "kind globalMemoryBandwidth globalMemorySize constantMemorySize l2CacheSize "
    "numThreadsPerWarp coreClockRate numMemcpyEngines numMultiprocessors maxWarpsPerMultiprocessor "
    "maxBlocksPerMultiprocessor maxSharedMemoryPerMultiprocessor maxRegistersPerMultiprocessor "
    "maxRegistersPerBlock maxSharedMemoryPerBlock maxThreadsPerBlock computeCapabilityMajor "
    "computeCapabilityMinor id eccEnabled uuid name isMigEnabled",
    "Context": "kind contextId deviceId",
    "Stream": "kind contextId streamId",
    "Overhead": "kind",
    "ExternalCorrelation": "kind externalId correlationId",
}
"""Kinds of records -> the fields of each that are read, or made by hand in tests."""

PARAMETER_HEADERS = (
    "cupti_profiler_target.h", "cupti_target.h", "cupti_profiler_host.h", "cupti_range_profiler.h",
    "cupti_pmsampling.h",
)  # fmt: skip
INCLUDES = "".join(
    f"#include <{name}>\n"
    for name in ("cstddef", "cstdio", "cuda.h", "cuda_runtime_api.h", "cupti.h", *PARAMETER_HEADERS)
)


def recorded() -> dict[str, dict[str, Any]]:
    return json.loads(LAYOUTS.read_text())


def printed(headers: Headers, body: str, *options: str) -> list[str]:
    """What a C++ program with this `main`, compiled with NVIDIA's headers, prints, line by line."""
    cxx = compiler()
    assert cxx is not None
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layouts.cc"), Path(folder, "layouts")
        source.write_text(f"{INCLUDES}{body}")
        command = [*cxx.split(), "-std=gnu++20", "-w", "-fpermissive", *options, *headers.options]
        subprocess.run([*command, str(source), "-o", str(program), "-ldl"], check=True)
        done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def measured(headers: Headers, newest: dict[str, str]) -> dict[str, Any]:
    """The layouts of one version, as in `layouts.json`.

    Args:
        newest: kind of record -> the structure that this version writes.
    """
    body = ['#define F(T, f) printf(" %zu %zu", offsetof(T, f), sizeof(((T *)0)->f));']
    body.append("int main() {")
    for what, structure in newest.items():
        fields = "".join(f"F({structure}, {field})" for field in RECORDS[what].split())
        body.append(f'printf("%zu", sizeof({structure})); {fields} puts("");')
    structures = parameter_structures(headers)
    body += [f'printf("%zu\\n", (size_t){name}_STRUCT_SIZE);' for name in structures]
    lines = printed(headers, "\n".join([*body, "}"]))
    records = {}
    for (what, structure), line in zip(newest.items(), lines, strict=False):
        size, *numbers = map(int, line.split())
        places = zip(numbers[::2], numbers[1::2], strict=True)
        records[what] = [structure, size, dict(zip(RECORDS[what].split(), places, strict=True))]
    sizes = map(int, lines[len(newest) :])
    return {"records": records, "parameters": dict(zip(structures, sizes, strict=True))}


def parameter_structures(headers: Headers) -> list[str]:
    """Every structure of parameters that the headers give a size for."""
    names: list[str] = []
    for header in PARAMETER_HEADERS:
        path = next(folder / header for folder in headers.folders if (folder / header).exists())
        names += re.findall(r"#define (CUpti_\w+_Params)_STRUCT_SIZE", path.read_text())
    return sorted(set(names))
