"""Layouts of CUPTI's records and parameters in each version, according to NVIDIA's headers.

`layouts.json` was written by `scripts/record_cupti_layouts.py`; nothing in it comes from taupy's
own structures. For each version: `api`, the result of cuptiGetVersion; `records`, kind ->
[structure, size, {field: [offset, size]}]; `parameters`, structure -> the size that a caller must
pass; `structures`, structure -> [size, {field: [offset, size]}], for the fields that the version
has; `numbers`, name -> value.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.fake_gpu.headers import Headers, compiler
from tests.fake_gpu.pairs import NUMBERS, PYTHON_NUMBERS, structures

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
"""Kinds of records -> the fields that taupy reads or tests write."""

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


def printed(headers: Headers, body: str, *options: str, includes: str = INCLUDES) -> list[str]:
    """The output lines of a C++ program with this `main`, compiled with these headers."""
    cxx = compiler()
    assert cxx is not None
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layouts.cc"), Path(folder, "layouts")
        source.write_text(f"{includes}{body}")
        command = [*cxx.split(), "-std=gnu++20", "-w", "-fpermissive", *options, *headers.options]
        subprocess.run([*command, str(source), "-o", str(program), "-ldl"], check=True)
        done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def measured(headers: Headers, newest: dict[str, str]) -> dict[str, Any]:
    """The layouts of one version, as in `layouts.json`.

    Args:
        newest: kind of record -> the structure that this version writes.
    """
    sized = parameter_structures(headers)
    described = [(newest[what], RECORDS[what].split()) for what in newest]
    described += structures().items()
    numbers = [*dict.fromkeys([*NUMBERS.values(), *PYTHON_NUMBERS])]
    body = [FIELD, "int main() {"]
    for structure, fields in described:
        body.append(f'printf("%zu", sizeof({structure}));')
        body += [f"F({structure}, {field})" for field in fields]
        body.append('puts("");')
    body += [f'printf("%zu\\n", (size_t){name}_STRUCT_SIZE);' for name in sized]
    body += [f'printf("%zu\\n", (size_t){name});' for name in (*numbers, "CUPTI_API_VERSION")]
    lines = iter(printed(headers, "\n".join([*body, "}"])))
    layouts = [_described(next(lines), fields) for _, fields in described]
    records = dict(zip(newest, layouts, strict=False))
    return {
        "records": {what: [newest[what], *layout] for what, layout in records.items()},
        "structures": dict(zip(structures(), layouts[len(newest) :], strict=True)),
        "parameters": {name: int(next(lines)) for name in sized},
        "numbers": {name: int(next(lines)) for name in numbers},
        "api": int(next(lines)),
    }


FIELD = """
#define F(T, f) []<class A>() { \\
    if constexpr (requires(A &a) { a.f; }) \\
        printf(" %zu %zu", offsetof(A, f), sizeof(((A *)0)->f)); \\
    else \\
        printf(" - -"); \\
}.template operator()<T>();
"""
"""Code that prints a field's offset and size, if the version has it."""


def _described(line: str, fields: list[str]) -> list[Any]:
    size, *numbers = line.split()
    places = dict(zip(fields, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    known = {field: [int(at), int(n)] for field, (at, n) in places.items() if at != "-"}
    return [int(size), known]


def parameter_structures(headers: Headers) -> list[str]:
    """All structures of parameters whose size the headers define."""
    names: list[str] = []
    for header in PARAMETER_HEADERS:
        path = next(folder / header for folder in headers.folders if (folder / header).exists())
        names += re.findall(r"#define (CUpti_\w+_Params)_STRUCT_SIZE", path.read_text())
    return sorted(set(names))
