"""NVIDIA's management library: facts of GPUs, and how they fared while a program ran.

The *sampler* (`begin`, `watch`) is a process beside the program, not its child, that asks
power, clocks, temperature and utilisation some times a second until the program is gone,
and keeps sums in the file `nvml` of the run folder. libnvidia-ml comes with the driver;
where it is missing nothing is sampled.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
import time
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from functools import cache
from pathlib import Path
from typing import NamedTuple

from taupy.collectors import beside
from taupy.model.gpu import Fact
from taupy.model.processes import is_alive
from taupy.model.profile import UserEvent

SAMPLES = "nvml"
"""The file in the run folder: {uuid: {(name, unit): (count, min, max, sum, sum of squares)}}."""

INTERVAL_S = 0.1
_SAVE_EVERY = 5

Sums = dict[tuple[str, str], tuple[int, float, float, float, float]]


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Reading(NamedTuple):
    """A value that NVML gives as one unsigned number.

    `arguments` stand between the device and the result; `scale` makes it `unit`.
    """

    name: str
    unit: str
    function: str
    arguments: tuple[int, ...] = ()
    scale: float = 1.0


_GRAPHICS, _SM, _MEM = 0, 1, 2  # nvmlClockType_t

_SAMPLED = (
    _Reading("Power", "W", "nvmlDeviceGetPowerUsage", scale=1e-3),
    _Reading("SM Clock", "Hz", "nvmlDeviceGetClockInfo", (_SM,), 1e6),
    _Reading("Memory Clock", "Hz", "nvmlDeviceGetClockInfo", (_MEM,), 1e6),
    _Reading("Temperature", "C", "nvmlDeviceGetTemperature", (0,)),
)

_FACTS = (
    _Reading("Power Limit", "W", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
    _Reading("Max SM Clock", "Hz", "nvmlDeviceGetMaxClockInfo", (_SM,), 1e6),
    _Reading("Max Memory Clock", "Hz", "nvmlDeviceGetMaxClockInfo", (_MEM,), 1e6),
    _Reading("PCIe Generation", "", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _Reading("PCIe Width", "", "nvmlDeviceGetCurrPcieLinkWidth"),
)

_MODES = (("ECC Mode", "nvmlDeviceGetEccMode"), ("MIG Mode", "nvmlDeviceGetMigMode"))
_MOST_LINKS = 18
_CONTROL = "/dev/nvidiactl"  # there wherever NVIDIA's driver is


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


def is_there() -> bool:
    """Can NVML be asked on this machine?"""
    return _library() is not None


def driver_version() -> str | None:
    """NVIDIA's own number of the driver: "580.65.06"."""
    library = _library()
    text = ctypes.create_string_buffer(96)
    if library is None or library.nvmlSystemGetDriverVersion(text, c_uint(96)):
        return None
    return text.value.decode("utf-8", "replace")


def uuids() -> list[str]:
    """The UUIDs of all GPUs that NVML sees, which may be more than CUDA may use."""
    library = _library()
    count = c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(byref(count)):
        return []
    found = []
    for index in range(count.value):
        handle, text = c_void_p(), ctypes.create_string_buffer(96)
        if library.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)):
            continue
        if library.nvmlDeviceGetUUID(handle, text, c_uint(96)) == 0:
            found.append(text.value.decode("ascii", "replace"))
    return found


def _handle(uuid: str) -> c_void_p | None:
    library = _library()
    handle = c_void_p()
    if library is None:
        return None
    if library.nvmlDeviceGetHandleByUUID(c_char_p(uuid.encode()), byref(handle)):
        return None
    return handle


def _read(handle: c_void_p, reading: _Reading) -> float | None:
    function = getattr(_library(), reading.function, None)
    value = c_uint()
    if function is None or function(handle, *map(c_uint, reading.arguments), byref(value)):
        return None
    return value.value * reading.scale


def facts(uuid: str) -> list[Fact]:
    """What NVML tells of a GPU; empty where it tells nothing."""
    library, handle = _library(), _handle(uuid)
    if library is None or handle is None:
        return []
    found = []
    if version := driver_version():
        found.append(Fact("Driver Version", version))
    for reading in _FACTS:
        value = _read(handle, reading)
        if value is not None:
            found.append(Fact(reading.name, _whole(value), reading.unit))
    for name, function in (
        ("ECC Mode", "nvmlDeviceGetEccMode"),
        ("MIG Mode", "nvmlDeviceGetMigMode"),
    ):
        current, pending = c_uint(), c_uint()
        entry = getattr(library, function, None)
        if entry is not None and entry(handle, byref(current), byref(pending)) == 0:
            found.append(Fact(name, "on" if current.value else "off"))
    active = c_uint()
    links = [
        active.value
        for link in range(_MOST_LINKS)
        if library.nvmlDeviceGetNvLinkState(handle, c_uint(link), byref(active)) == 0
    ]
    if links:
        found.append(Fact("NVLink Links", sum(links)))
    return found


def _whole(value: float) -> float | int:
    return round(value) if abs(value - round(value)) < 1e-6 else value


def sample(uuid: str) -> dict[tuple[str, str], float]:
    """One look at a GPU: (name, unit) -> value, of what can be read now."""
    library, handle = _library(), _handle(uuid)
    if library is None or handle is None:
        return {}
    found = {}
    for reading in _SAMPLED:
        value = _read(handle, reading)
        if value is not None:
            found[reading.name, reading.unit] = value
    rates = _Utilization()
    if library.nvmlDeviceGetUtilizationRates(handle, byref(rates)) == 0:
        found["Utilization", "%"] = float(rates.gpu)
        found["Memory Utilization", "%"] = float(rates.memory)
    memory = _Memory()
    if library.nvmlDeviceGetMemoryInfo(handle, byref(memory)) == 0:
        found["Memory Used", "B"] = float(memory.used)
    return found


def added(sums: Sums, values: dict[tuple[str, str], float]) -> None:
    """Take one look into the sums."""
    for key, value in values.items():
        count, low, high, total, squares = sums.get(key, (0, value, value, 0.0, 0.0))
        sums[key] = (
            count + 1, min(low, value), max(high, value), total + value, squares + value * value,
        )  # fmt: skip


def user_events(folder: Path, ordinals: dict[str, int]) -> list[UserEvent]:
    """What the sampler has kept, as `GPU[0] Power` and so on.

    Args:
        folder: the run folder.
        ordinals: UUID -> CUDA's number, of the GPUs that the program used.
    """
    try:
        kept: dict[str, Sums] = marshal.loads((folder / SAMPLES).read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        return []
    return [
        UserEvent(f"GPU[{ordinals[uuid]}] {name}", unit, count, low, high, total / count, squares)
        for uuid, sums in sorted(kept.items())
        if uuid in ordinals
        for (name, unit), (count, low, high, total, squares) in sorted(sums.items())
    ]


def watch(folder: Path, pid: int, start: int, interval_s: float = INTERVAL_S) -> None:
    """Sample all GPUs until the process is gone or the run folder is."""
    found = uuids()
    kept: dict[str, Sums] = {uuid: {} for uuid in found}
    looks = 0
    while found and folder.is_dir():
        for uuid in found:
            added(kept[uuid], sample(uuid))
        looks += 1
        alive = is_alive(pid, start)
        if looks % _SAVE_EVERY == 1 or not alive:
            try:
                _save(folder / SAMPLES, kept)
            except OSError:
                return  # stored and gone, or no room: the program comes first
        if not alive:
            return
        time.sleep(interval_s)


def _save(path: Path, kept: dict[str, Sums]) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(marshal.dumps(kept))
    new.replace(path)


def begin(folder: Path, pid: int, start: int) -> bool:
    """Start the sampler where there is an NVIDIA driver. Is it started?

    It runs beside this process and is not its child: the program, which takes this process
    over, must not find a child that it did not start.
    """
    if not os.path.exists(_CONTROL):
        return False
    answer = beside.begin(__name__, [str(folder), str(pid), str(start)])
    if answer is None:
        return False
    os.close(answer)
    return True


def main(arguments: Sequence[str]) -> None:
    """The sampler's command line: FOLDER PID START."""
    folder, pid, start = arguments
    watch(Path(folder), int(pid), int(start))


if __name__ == "__main__":
    main(sys.argv[1:])
