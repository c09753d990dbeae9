"""Kernels, copies and memsets of a GPU part as timers, launches and user events of a profile."""

from __future__ import annotations

from dataclasses import replace

from taupy.catalog.occupancy import occupancy
from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import Work
from taupy.model.gpu import Configuration, Launch
from taupy.model.profile import Statistics, Timer, UserEvent

WAYS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
}  # fmt: skip
_LONG_WAYS = {
    "HtoD": "Host to Device",
    "DtoH": "Device to Host",
    "DtoD": "Device to Device",
    "HtoH": "Host to Host",
    "PtoP": "Device to another Device",
}
MEMORY = {
    1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static",
    7: "managed static",
}  # fmt: skip


def launch_of(work: Work) -> Launch:
    """The sums of all launches of a kernel or copy from one place [ns]."""
    timed = work.launches > work.untimed
    return Launch(
        count=work.launches,
        time_ns=work.time,
        minimum_ns=work.minimum if timed else 0,
        maximum_ns=work.maximum if timed else 0,
        sum_squares_ns2=work.squares,
        untimed=work.untimed,
    )


def kernel_launch(work: Work, capability: str) -> Launch:
    """As `launch_of`, with the configuration and the occupancy that it allows.

    Args:
        capability: of the GPU, such as "9.0"; occupancy is None if it is unknown.
    """
    if work.flags & gpu_layout.FOLDED:  # launches of several configurations
        return launch_of(work)
    threads = work.block[0] * work.block[1] * work.block[2]
    shared = work.static_shared + work.dynamic_shared
    fits = occupancy(capability, threads, work.registers, shared, work.shared_executed or None)
    configuration = Configuration(
        grid=work.grid,
        block=work.block,
        registers=work.registers,
        shared_static_bytes=work.static_shared,
        shared_dynamic_bytes=work.dynamic_shared,
        local_bytes=work.local,
        occupancy=fits.share if fits else None,
        limiter=fits.limiter if fits else None,
    )
    return replace(launch_of(work), configuration=configuration)


def copy_timer(work: Work) -> Timer:
    """The timer of a copy, by its direction, or of a memset."""
    if work.kind == gpu_layout.MEMSET:
        return Timer("Memset", groups=("GPU_COPY",))
    way = WAYS.get(work.name & 0xFF, "of unknown kind")
    return Timer(f"Memcpy {way}", groups=("GPU_COPY",))


def bytes_events(work: Work, row: int) -> list[UserEvent]:
    """Bytes of a copy, by direction and by the kinds of memory; one sample per copy."""
    if work.kind == gpu_layout.KERNEL or not work.launches:
        return []
    if work.kind == gpu_layout.MEMSET:
        names = ["Bytes set"]
    else:
        way = WAYS.get(work.name & 0xFF, "of unknown kind")
        long = _LONG_WAYS.get(way)
        names = [f"Bytes copied from {long}" if long else f"Bytes copied, {way}"]
        source, target = MEMORY.get(work.name >> 8 & 0xFF), MEMORY.get(work.name >> 16 & 0xFF)
        if source and target:
            names.append(f"Bytes copied from {source} to {target} memory")
    sums = Statistics(
        work.launches, work.least_bytes, work.most_bytes, work.bytes, work.bytes_squares
    )
    return [sums.event(name, "bytes", row) for name in names]
