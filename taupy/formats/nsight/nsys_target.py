"""Facts in an nsys SQLite file about the machine: devices, processes, the recording itself."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from taupy.formats import limits
from taupy.formats.nsight.nsys_tables import Tables
from taupy.model.gpu import Device, Fact
from taupy.model.profile import Thread

# Column of TARGET_INFO_GPU or TARGET_INFO_CUDA_GPU -> our name, unit, factor.
_FACTS: Final = {
    "chipName": ("Chip", "", 1),
    "numMultiprocessors": ("Multiprocessors", "", 1),
    "smCount": ("Multiprocessors", "", 1),
    "coreClockRate": ("Clock", "Hz", 1000),
    "clockRate": ("Clock", "Hz", 1),
    "globalMemorySize": ("Memory", "B", 1),
    "totalMemory": ("Memory", "B", 1),
    "globalMemoryBandwidth": ("Memory bandwidth", "B/s", 1000),
    "memoryBandwidth": ("Memory bandwidth", "B/s", 1),
    "l2CacheSize": ("L2 cache", "B", 1),
    "maxWarpsPerMultiprocessor": ("Warps per multiprocessor", "", 1),
    "maxWarpsPerSm": ("Warps per multiprocessor", "", 1),
    "maxBlocksPerMultiprocessor": ("Blocks per multiprocessor", "", 1),
    "maxBlocksPerSm": ("Blocks per multiprocessor", "", 1),
    "maxRegistersPerBlock": ("Registers per block", "", 1),
    "maxRegistersPerSm": ("Registers per multiprocessor", "", 1),
    "maxSharedMemoryPerMultiprocessor": ("Shared memory per multiprocessor", "B", 1),
    "maxShmemPerSm": ("Shared memory per multiprocessor", "B", 1),
    "maxSharedMemoryPerBlock": ("Shared memory per block", "B", 1),
    "maxShmemPerBlock": ("Shared memory per block", "B", 1),
    "maxThreadsPerBlock": ("Threads per block", "", 1),
    "numThreadsPerWarp": ("Threads per warp", "", 1),
    "threadsPerWarp": ("Threads per warp", "", 1),
    "pciBusId": ("PCI bus", "", 1),
    "busLocation": ("PCI bus", "", 1),
}


def metadata(tables: Tables) -> dict[str, str]:
    """Metadata of the recording; names given by nsys begin with `nsys.`."""
    facts: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE"):
        if tables.has(table, "name", "value"):
            for name, value in tables.select(
                table, "name", "value", more=f"LIMIT {limits.NSYS_FACTS}"
            ):
                facts[f"nsys.{name}"] = str(value)[:10_000]
    if tables.has("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        rows = tables.select(
            "TARGET_INFO_SYSTEM_ENV", "name", "value", more=f"LIMIT {limits.NSYS_FACTS}"
        )
        for name, value in rows:
            facts.setdefault(str(name), str(value)[:10_000])
    overhead = _total(tables, "PROFILER_OVERHEAD")
    if overhead:
        facts["nsys.profiler_overhead_ns"] = str(overhead)
    facts["time source"] = "nsys"
    return facts


def start_ns(tables: Tables) -> int | None:
    """Time 0 of the timestamps, in nanoseconds since the epoch; None if unknown."""
    if tables.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        for (value,) in tables.select("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
            if isinstance(value, int) and 0 < value < 1 << 62:
                return value
    return None


def application(tables: Tables, nodes: Mapping[int, int]) -> str:
    """The program of the first process; empty if the file does not name it."""
    names = _process_names(tables)
    for process in sorted(nodes, key=lambda node: nodes[node]):
        if names.get(process):
            return posixpath.basename(names[process].replace("\\", "/"))
    return ""


def node_metadata(tables: Tables, nodes: Mapping[int, int]) -> dict[int, dict[str, str]]:
    """Each node's process id, and its name if known."""
    names = _process_names(tables)
    facts_of = {}
    for process, node in nodes.items():
        facts = {"PID": str((process >> 24) & 0xFFFFFF)}
        if names.get(process):
            facts["Process Name"] = names[process]
        facts_of[node] = facts
    return facts_of


def devices(tables: Tables, nodes: Mapping[int, int], streams: set[Thread]) -> list[Device]:
    """The used GPUs, on the nodes that used them; all GPUs if none was used."""
    used = {(stream.node, stream.context - 1) for stream in streams}
    by_ordinal = _by_ordinal(tables)
    if not used:
        used = {(0, ordinal) for ordinal in by_ordinal}
    devices = []
    for node, ordinal in sorted(used):
        row = by_ordinal.get(ordinal)
        if row is not None:
            devices.append(_device(node, ordinal, row))
    return devices


def compute_capabilities(tables: Tables) -> dict[int, str]:
    """Of each GPU, by its CUDA ordinal; empty if unknown."""
    return {ordinal: _capability(row) for ordinal, row in _by_ordinal(tables).items()}


def _by_ordinal(tables: Tables) -> dict[int, dict[str, Any]]:
    """Facts about each GPU, by its CUDA ordinal."""
    rows: dict[int, dict[str, Any]] = {}
    for table, key in (("TARGET_INFO_GPU", "id"), ("TARGET_INFO_GPU", "deviceId"),
                       ("TARGET_INFO_CUDA_GPU", "deviceId")):  # fmt: skip
        if tables.has(table, key):
            columns = tables.columns[table]
            for values in tables.select(table, *columns, more="LIMIT 1024"):
                row = {name: value for name, value in zip(columns, values, strict=True)}
                if isinstance(row[key], int):
                    merged = rows.setdefault(row[key], {})
                    merged.update({k: v for k, v in row.items() if _says_something(v)})
    if tables.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        numbered: dict[int, dict[str, Any]] = {}
        more = "LIMIT 65536"
        for gpu, ordinal in tables.select("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", more=more):
            if gpu in rows and isinstance(ordinal, int):
                numbered.setdefault(ordinal, rows[gpu])
        rows = numbered or rows
    return rows


def _says_something(value: Any) -> bool:
    return value is not None and value != "" and value != "<UNKNOWN_BUS_ID>"


def _device(node: int, ordinal: int, row: Mapping[str, Any]) -> Device:
    facts: dict[str, Fact] = {}
    for column, (name, unit, factor) in _FACTS.items():
        value = row.get(column)
        if isinstance(value, (int, float)) and abs(value) < 1 << 62:
            facts.setdefault(name, Fact(name, value * factor, unit))
        elif isinstance(value, str):
            facts.setdefault(name, Fact(name, value[:1000], unit))
    return Device(
        node,
        ordinal,
        str(row.get("name", f"GPU {ordinal}"))[:1000],
        str(row.get("uuid", ""))[:1000],
        _capability(row),
        tuple(facts.values()),
    )


def _capability(row: Mapping[str, Any]) -> str:
    major = row.get("computeMajor", row.get("computeCapabilityMajor"))
    minor = row.get("computeMinor", row.get("computeCapabilityMinor"))
    return f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else ""


def _process_names(tables: Tables) -> dict[int, str]:
    names: dict[int, str] = {}
    if tables.has("PROCESSES", "globalPid", "name"):
        for process, name in tables.select("PROCESSES", "globalPid", "name"):
            if isinstance(process, int) and isinstance(name, str):
                names[process] = name
    for thread, name in tables.select("ThreadNames", "globalTid", "nameId"):
        if isinstance(thread, int) and (thread >> 24) & 0xFFFFFF == thread & 0xFFFFFF:
            names.setdefault(thread & ~0xFFFFFF, tables.text(name, ""))
    return names


def _total(tables: Tables, table: str) -> int:
    if not tables.has(table, "start", "end"):
        return 0
    total = tables.connection.execute(
        f'SELECT sum("end" - start) FROM {table} WHERE {tables.sane(table)} AND "end" > start'
    ).fetchone()[0]
    return int(total or 0)
