"""The header of a Chrome trace: devices, rank, start time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taupy.formats.chrome import values
from taupy.model.gpu import Device, Fact

_FACTS: Final = {
    "numSms": ("Multiprocessors", ""),
    "totalGlobalMem": ("Memory", "B"),
    "maxThreadsPerMultiprocessor": ("Threads per multiprocessor", ""),
    "maxThreadsPerBlock": ("Threads per block", ""),
    "regsPerMultiprocessor": ("Registers per multiprocessor", ""),
    "regsPerBlock": ("Registers per block", ""),
    "sharedMemPerMultiprocessor": ("Shared memory per multiprocessor", "B"),
    "sharedMemPerBlock": ("Shared memory per block", "B"),
    "warpSize": ("Threads per warp", ""),
}

_OTHER_MAKERS: Final = re.compile(r"AMD|Radeon|Intel", re.IGNORECASE)
_OF_ONE: Final = ("id", "uuid")

OURS: Final = ("application", "experiment", "trial", "uuid")
LAID_OUT: Final = "laid out"
"""With `OURS`, the keys of taupy's own traces under `otherData`, before the trial's metadata."""

_SUFFIXES: Final = (".gz", ".json", ".trace", ".pt")


@dataclass(slots=True)
class Header:
    """General information about a trace.

    Attributes:
        base_ns: time 0 of its timestamps, in ns since the epoch; None if unknown.
        rank: rank of the process in a parallel job; None if not given.
        groups: the ranks of each group of processes, ascending, by the group's name.
    """

    application: str
    base_ns: int | None = None
    rank: int | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    gpus: dict[int, dict[str, Any]] = field(default_factory=dict)

    def devices(self, used: set[tuple[int, int]], names: dict[int, str]) -> list[Device]:
        """The used devices, given by (node, ordinal), that the trace describes.

        Args:
            names: ordinal -> name of devices that the header does not describe.
        """
        return [
            _device(node, ordinal, row)
            for node, ordinal in sorted(used)
            if (row := self.gpu(ordinal, names.get(ordinal, "")))
        ]

    def compute_capability(self, ordinal: int) -> str:
        """NVIDIA's, such as "9.0"; empty if the device is unknown or another maker's, whose GPUs
        have numbers of their own."""
        gpu = self.gpus.get(ordinal, {})
        is_nvidia = gpu.get("warpSize") == 32 and not _OTHER_MAKERS.search(str(gpu.get("name")))
        return _capability(gpu) if is_nvidia else ""

    def gpu(self, ordinal: int, label: str = "") -> dict[str, Any]:
        """The properties of a device, empty if unknown.

        On AMD's GPUs, work names the HSA agent, which is not the number in the header. If all
        devices of the header are of one model, the agent is of that model, too.

        Args:
            label: of the process that represents the device, such as `GPU 2` or `XPU 1`.
        """
        if ordinal in self.gpus:
            return self.gpus[ordinal]
        models = {str(gpu.get("name")) for gpu in self.gpus.values()}
        if len(models) == 1 and label in ("", f"GPU {ordinal}"):
            first = next(iter(self.gpus.values()))
            return {key: first[key] for key in first if key not in _OF_ONE}
        return {"name": label} if label else {}


def describe(header: dict[str, Any], path: Path) -> Header:
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    described = Header(name or path.name)
    base = values.integer(header.get("baseTimeNanoseconds"))
    if base is not None and base > 0:
        described.base_ns = base
    job = header.get("distributedInfo")
    if isinstance(job, dict):
        rank = values.integer(job.get("rank"))
        described.rank = rank if rank is not None and 0 <= rank < 1 << 24 else None
        for key in ("rank", "world_size", "backend", "nccl_version"):
            if isinstance(job.get(key), (str, int)):
                described.metadata[f"distributed {key}"] = str(job[key])[:1000]
        described.groups = _groups(job.get("pg_config"))
    _take_ours(described, header.get("otherData"))
    for key, value in header.items():
        if isinstance(value, (str, int)) and key not in ("baseTimeNanoseconds",):
            described.metadata[f"trace {key}"] = str(value)[:10_000]
    properties = header.get("deviceProperties")
    for gpu in properties if isinstance(properties, list) else ():
        ordinal = values.integer(gpu.get("id")) if isinstance(gpu, dict) else None
        if ordinal is not None and 0 <= ordinal < 1 << 16:
            described.gpus[ordinal] = gpu
    return described


def _groups(groups: Any) -> dict[str, tuple[int, ...]]:
    named: dict[str, tuple[int, ...]] = {}
    for group in groups if isinstance(groups, list) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks):
            named[str(group.get("pg_name"))[:1000]] = tuple(sorted({*ranks}))
    return named


def _take_ours(header: Header, facts: Any) -> None:
    """Take the trial's metadata from a trace written by taupy; ignore other tools' traces."""
    if not isinstance(facts, dict) or not {"application", "uuid", LAID_OUT} <= facts.keys():
        return
    if isinstance(facts["application"], str) and facts["application"]:
        header.application = facts["application"][:1000]
    for key, value in facts.items():
        if isinstance(value, str) and key not in OURS:
            header.metadata[key[:1000]] = value[:10_000]


def _device(node: int, ordinal: int, row: dict[str, Any]) -> Device:
    facts = []
    for key, (name, unit) in _FACTS.items():
        value = values.integer(row.get(key))
        if value is not None:
            facts.append(Fact(name, value, unit))
    name = str(row.get("name", f"GPU {ordinal}"))[:1000]
    uuid = str(row.get("uuid", ""))[:1000]
    return Device(node, ordinal, name, uuid, _capability(row), tuple(facts))


def _capability(row: dict[str, Any]) -> str:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    return f"{major}.{minor}" if type(major) is int and type(minor) is int else ""
