"""NVIDIA's management library: facts about GPUs, and their state while a program ran.

The *sampler* (`begin`, `watch`) is a process beside the program, not its child. It reads power,
clocks, temperature and utilisation a few times per second until the program has ended, and keeps
sums in the file `nvml` of the run folder. libnvidia-ml comes with the driver and is called through
nvidia-ml-py; if either is missing, nothing is sampled.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import cache
from typing import Any, NamedTuple

from taupy.model.gpu import Fact
from taupy.model.processes import is_alive
from taupy.model.profile import Statistics, UserEvent
from taupy.state import values
from taupy.state.folder import Folder, open_run
from taupy.state.shape import fits
from taupy.watch import beside

SAMPLES = "nvml"
"""The file in the run folder: {uuid: [(name, unit, count, min, max, sum, sum of squares)]}."""

INTERVAL_S = 0.1
_SAVE_EVERY = 5

Sums = dict[tuple[str, str], Statistics]
_Row = tuple[str, str, int, float, float, float, float]


class _Reading(NamedTuple):
    """A value that a function of pynvml returns.

    `arguments` follow the device; the value is multiplied by `scale` to give `unit`.
    """

    name: str
    unit: str
    function: str
    arguments: tuple[int, ...] = ()
    scale: float = 1.0


_SM, _MEMORY = 1, 2  # nvmlClockType_t

_SAMPLED = (
    _Reading("Power", "W", "nvmlDeviceGetPowerUsage", scale=1e-3),
    _Reading("SM Clock", "Hz", "nvmlDeviceGetClockInfo", (_SM,), 1e6),
    _Reading("Memory Clock", "Hz", "nvmlDeviceGetClockInfo", (_MEMORY,), 1e6),
    _Reading("Temperature", "C", "nvmlDeviceGetTemperature", (0,)),
)

_FACTS = (
    _Reading("Power Limit", "W", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
    _Reading("Max SM Clock", "Hz", "nvmlDeviceGetMaxClockInfo", (_SM,), 1e6),
    _Reading("Max Memory Clock", "Hz", "nvmlDeviceGetMaxClockInfo", (_MEMORY,), 1e6),
    _Reading("PCIe Generation", "", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _Reading("PCIe Width", "", "nvmlDeviceGetCurrPcieLinkWidth"),
)

_MOST_LINKS = 18
_MODES = (("ECC Mode", "nvmlDeviceGetEccMode"), ("MIG Mode", "nvmlDeviceGetMigMode"))
_CONTROL = "/dev/nvidiactl"  # exists wherever NVIDIA's driver is


@cache
def problem() -> str | None:
    """Why NVML cannot be used on this machine; None if it can."""
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py cannot be imported"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"libnvidia-ml: {error}"
    return None


def _queried(function: str, *arguments: Any) -> Any:
    """The result of a function of pynvml; None if NVML is unavailable or returns an error."""
    if problem() is not None:
        return None
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError:
        return None


def driver_version() -> str | None:
    """NVIDIA's own version number of the driver: "580.65.06"."""
    version: str | None = _queried("nvmlSystemGetDriverVersion")
    return version


def uuids() -> list[str]:
    """The UUIDs of all GPUs that NVML reports; CUDA may be restricted to some of them."""
    handles = (
        _queried("nvmlDeviceGetHandleByIndex", index)
        for index in range(_queried("nvmlDeviceGetCount") or 0)
    )
    return [
        uuid for handle in handles if handle and (uuid := _queried("nvmlDeviceGetUUID", handle))
    ]


def _read(handle: Any, readings: Iterable[_Reading]) -> Iterator[tuple[_Reading, float]]:
    for reading in readings:
        value = _queried(reading.function, handle, *reading.arguments)
        if value is not None:
            yield reading, value * reading.scale


def facts(uuid: str) -> list[Fact]:
    """What NVML reports about a GPU; empty if it reports nothing."""
    handle = _queried("nvmlDeviceGetHandleByUUID", uuid)
    if handle is None:
        return []
    version = driver_version()
    facts = [Fact("Driver Version", version)] if version else []
    for reading, value in _read(handle, _FACTS):
        facts.append(Fact(reading.name, _whole(value), reading.unit))
    for name, function in _MODES:
        if (modes := _queried(function, handle)) is not None:
            facts.append(Fact(name, "on" if modes[0] else "off"))
    links = [_queried("nvmlDeviceGetNvLinkState", handle, link) for link in range(_MOST_LINKS)]
    if any(state is not None for state in links):
        facts.append(Fact("NVLink Links", sum(filter(None, links))))
    return facts


def _whole(value: float) -> float | int:
    return round(value) if abs(value - round(value)) < 1e-6 else value


def sample(uuid: str) -> dict[tuple[str, str], float]:
    """One sample of a GPU: (name, unit) -> value, for everything that can be read now."""
    handle = _queried("nvmlDeviceGetHandleByUUID", uuid)
    if handle is None:
        return {}
    values = {(reading.name, reading.unit): value for reading, value in _read(handle, _SAMPLED)}
    if rates := _queried("nvmlDeviceGetUtilizationRates", handle):
        values["Utilization", "%"] = float(rates.gpu)
        values["Memory Utilization", "%"] = float(rates.memory)
    if memory := _queried("nvmlDeviceGetMemoryInfo", handle):
        values["Memory Used", "B"] = float(memory.used)
    return values


def added(sums: Sums, values: dict[tuple[str, str], float]) -> None:
    """Add the values of one sample to the sums."""
    for key, value in values.items():
        sums.setdefault(key, Statistics()).add(value)


def user_events(folder: Folder, ordinals: dict[str, int]) -> list[UserEvent]:
    """The sampler's results as user events, such as `GPU[0] Power`.

    Args:
        folder: the run folder.
        ordinals: UUID -> CUDA's number, of the GPUs that the program used.
    """
    try:
        kept = values.loads((folder / SAMPLES).read_record())
    except (OSError, values.Damaged):
        return []
    if not fits(kept, dict[str, list[_Row]]):
        return []
    return [
        Statistics(*sums).event(f"GPU[{ordinals[uuid]}] {name}", unit)
        for uuid, rows in sorted(kept.items())
        if uuid in ordinals
        for name, unit, *sums in sorted(rows)
        if sums[0] > 0
    ]


def watch(folder: Folder, pid: int, start: int, interval_s: float = INTERVAL_S) -> None:
    """Sample all GPUs until the process or the run folder is gone."""
    kept: dict[str, Sums] = {uuid: {} for uuid in uuids()}
    looks = 0
    while kept and not folder.is_gone():
        for uuid, sums in kept.items():
            added(sums, sample(uuid))
        looks += 1
        alive = is_alive(pid, start)
        if looks % _SAVE_EVERY == 1 or not alive:
            try:
                (folder / SAMPLES).write_bytes(record(kept))
            except OSError:
                return  # the run is stored, or the disk is full: ignored for the program's sake
        if not alive:
            return
        time.sleep(interval_s)


def record(kept: dict[str, Sums]) -> bytes:
    """The file kept in the run folder: a row for each value of each GPU."""
    rows = {
        uuid: [(*key, *astuple(row)) for key, row in sums.items()] for uuid, sums in kept.items()
    }
    return values.dumps(rows)


def begin(folder: Folder, pid: int, start: int) -> bool:
    """Start the sampler if there is an NVIDIA driver; returns whether it was started.

    It is not a child of this process, which becomes the program: the program must not find a child
    that it did not start.
    """
    if not os.path.exists(_CONTROL):
        return False
    answer = beside.begin(__name__, [folder.path, str(pid), str(start)])
    if answer is None:
        return False
    os.close(answer)
    return True


def main(arguments: Sequence[str]) -> None:
    """The sampler's command line: FOLDER PID START."""
    folder, pid, start = arguments
    watch(open_run(folder), int(pid), int(start))


if __name__ == "__main__":
    main(sys.argv[1:])
