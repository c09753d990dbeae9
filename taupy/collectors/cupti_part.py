"""Read a GPU part: what one process did on its GPUs, whole or cut off.

The file is written by `_native/cupti.c` (layout in `_native/gpu_part.h`) while the program
runs. Here it becomes plain data; what it means for the profile is `cupti_profile`'s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from taupy.errors import FormatError
from taupy.state import container
from taupy.state.container import Container, Layout
from taupy.state.container import text as _text
from taupy.state.folder import File

SUFFIX = ".gpu"
TRACE_SUFFIX = ".gputrace"
SNAPSHOT_SUFFIX = ".gpucopy"
"""Of a GPU part as it stood when the program took a snapshot, beside the snapshot."""

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL = 1, 2, 4, 5, 10
MEMCPY_PEER, UNIFIED_MEMORY, SYNCHRONIZATION, MEMORY = 22, 25, 38, 49
IN_GRAPH, FOLDED = 1, 2
STARTING, RUNNING, FAILED, ENDED = 0, 1, 2, 3

_COUNTERS, _NAME, _WORK, _CALLS, _CALL_NAME, _THREADS, _DEVICE, _NOTE, _LIVE, _RANGE = range(16, 26)
_WORK_ITEM = struct.Struct("<Q 6I 6i 6I 6Q d QQ II QQ d Q".replace(" ", ""))
_CALL = struct.Struct("<QQQQ")
_THREAD = struct.Struct("<Q24s")
_DEVICE_ITEM = struct.Struct("<Q IIII QQ IIII II II IIII 16s II 128s".replace(" ", ""))
_LIVE_ITEM = struct.Struct("<IIIIqq")
_TRACE_HEAD = struct.Struct("<IIQ")
_TRACE_ITEM = struct.Struct("<QQQQII")
_TRACE_MAGIC = 0x45434152
_COUNTER_NAMES = (  # noqa: SIM905
    "state records buffers launches kernels untimed dropped lost unknown refused calls_lost "
    "folded flush_timed_out trace_lost walk_errors realtime_start monotonic_start realtime_end "
    "monotonic_end told lent lendings"
).split()
LAYOUT = Layout(
    b"TAUPYGPU",
    2,
    "GPU part",
    {
        _COUNTERS: 8 * len(_COUNTER_NAMES),
        _NAME: 16,
        _CALL_NAME: 16,
        _DEVICE: _DEVICE_ITEM.size,
        _NOTE: 16,
        _RANGE: 16,
    },
)


class Work(NamedTuple):
    """Launches of one kernel or copy with one configuration from one call path, summed up.

    Times are nanoseconds; of memory and counters, `time`, `minimum` and `maximum` are
    values. `node` is an address in the measured process, 0 where nobody saw the launch;
    `name` an id of a kernel's name, else bits that say what kind of copy it is.
    """

    node: int
    kind: int
    name: int
    device: int
    context: int
    stream: int
    peers: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    static_shared: int
    dynamic_shared: int
    local: int
    shared_executed: int
    launch_type: int
    launches: int
    untimed: int
    time: int
    minimum: int
    maximum: int
    bytes: int
    squares: float
    first: int
    last: int
    flags: int
    slot: int
    least_bytes: int
    most_bytes: int
    bytes_squares: float


class Call(NamedTuple):
    """Calls of one function of CUDA's API from one place: a node's address, or the number
    (below 1000) of a thread that has no routines of its own. Time in ticks."""

    place: int
    domain: int
    callback_id: int
    calls: int
    ticks: int


class DeviceFacts(NamedTuple):
    """What CUPTI says of a device; sizes in bytes, clock in kHz, bandwidth in KiB/s."""

    ordinal: int
    major: int
    minor: int
    multiprocessors: int
    memcpy_engines: int
    memory_bytes: int
    bandwidth_kib_s: int
    constant_bytes: int
    l2_bytes: int
    warp_threads: int
    core_clock_khz: int
    warps_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    registers_per_multiprocessor: int
    registers_per_block: int
    shared_per_block: int
    threads_per_block: int
    ecc: int
    uuid: bytes
    mig: int
    name: str


class Live(NamedTuple):
    """Memory in use: of a kind of memory on a device, or of one pool (kind 100, 101)."""

    device: int
    kind: int
    pool: int
    live: int
    peak: int


class Span(NamedTuple):
    """One activity of a trace; stamps are nanoseconds since the epoch."""

    work: int
    start: int
    end: int
    bytes: int
    graph_node: int
    correlation: int


@dataclass(slots=True)
class GpuPart:
    """All that one process did on its GPUs.

    Attributes:
        start_ticks: of the engine's part of the same process; 0 if that had none yet.
        work: in the order in which `Span.work` counts them.
        threads: number -> (native id, name) of threads without routines.
        ranges: number -> (number of the outer one or 0, name) of NVTX ranges that such threads
            pushed; work that was launched in one has `Work.node` = number << 6.
        call_names: (domain, callback id) -> CUPTI's name, `cudaLaunchKernel_v7000`.
        counters: see `GpuCounters` in gpu_part.h.
        notes: facts, and what went wrong (`error.step`, `error.code`, `error.text`).
        trace: the file of single activities, if there is one.
        lost_bytes: of those in use, so many are in no file.
    """

    path: Path | File
    pid: int
    start_ticks: int
    counters: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    work: list[Work] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    call_names: dict[tuple[int, int], str] = field(default_factory=dict)
    threads: dict[int, tuple[int, str]] = field(default_factory=dict)
    ranges: dict[int, tuple[int, str]] = field(default_factory=dict)
    devices: dict[int, DeviceFacts] = field(default_factory=dict)
    live: list[Live] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    trace: Path | File | None = None
    lost_bytes: int = 0


def read_gpu_part(path: Path | File, trace: File | None = None) -> GpuPart | None:
    """Decode a GPU part; None if nothing stands in it yet.

    Args:
        path: the part.
        trace: the file of single activities; None: it lies beside the part.

    Raises:
        FormatError: the file is no GPU part, or damaged.
    """
    found = container.read(path.name, path.read_bytes(), LAYOUT)
    if found is None:
        return None
    part = GpuPart(path, found.header.pid, found.header.start_ticks)
    try:
        for block in found.blocks:
            _take(part, block.kind, found, block.start, block.end)
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise FormatError(f"{path.name} is damaged ({why})") from problem
    part.lost_bytes = found.lost_bytes
    beside = trace or path.with_suffix(TRACE_SUFFIX)
    part.trace = beside if beside.exists() else None
    return part


def _take(part: GpuPart, kind: int, found: Container, start: int, end: int) -> None:
    data = found.data
    if kind == _WORK:
        whole = start + (end - start) // _WORK_ITEM.size * _WORK_ITEM.size
        for item in _WORK_ITEM.iter_unpack(memoryview(data)[start:whole]):
            if item[1] == 0:
                break  # not used yet
            part.work.append(Work._make([*item[:7], item[7:10], item[10:13], *item[13:-1]]))
    elif kind == _CALLS:
        for key, calls, ticks, _ in _CALL.iter_unpack(memoryview(data)[start:end]):
            if key and calls:
                place = key >> 14
                part.calls.append(
                    Call(
                        place << 6 if place >= 1000 else place,
                        key >> 12 & 3,
                        key & 0xFFF,
                        calls,
                        ticks,
                    )
                )
    elif kind in (_NAME, _CALL_NAME, _RANGE):
        number, size = struct.unpack_from("<QQ", data, start)
        (text,) = found.texts(start + 16, end, size)
        if kind == _NAME:
            part.names[number] = text
        elif kind == _RANGE:
            part.ranges[number & 0xFFFFFFFF] = number >> 32, text
        else:
            part.call_names[number >> 12, number & 0xFFF] = text
    elif kind == _THREADS:
        whole = start + (end - start) // _THREAD.size * _THREAD.size
        for number, (native_id, name) in enumerate(
            _THREAD.iter_unpack(memoryview(data)[start:whole])
        ):
            if native_id:
                part.threads[number] = native_id, _text(name.split(b"\0", 1)[0])
    elif kind == _DEVICE:
        item = _DEVICE_ITEM.unpack_from(data, start)
        name = _text(item[-1].split(b"\0", 1)[0])
        part.devices[item[0]] = DeviceFacts._make([*item[:-2], name])
    elif kind == _LIVE:
        for inuse, *live in _LIVE_ITEM.iter_unpack(
            memoryview(data)[start : start + 128 * _LIVE_ITEM.size]
        ):
            if inuse:
                part.live.append(Live(*live))
    elif kind == _COUNTERS:
        values = struct.unpack_from(f"<{len(_COUNTER_NAMES)}q", data, start)
        part.counters = dict(zip(_COUNTER_NAMES, values, strict=True))
    elif kind == _NOTE:
        sizes = struct.unpack_from("<QQ", data, start)
        if sizes[0]:
            name, value = found.texts(start + 16, end, *sizes)
            part.notes[name] = f"{part.notes[name]}; {value}" if name in part.notes else value


class Trace:
    """The single activities of a process, block by block from its file.

    Each stream's activities stand in blocks of their own, so that one stream is read
    without the others. A block that was cut off by a kill ends its file.
    """

    def __init__(self, path: Path | File) -> None:
        self.path = path
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        at = 0
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            while at + _TRACE_HEAD.size <= size:
                file.seek(at)
                magic, slot, count = _TRACE_HEAD.unpack(file.read(_TRACE_HEAD.size))
                at += _TRACE_HEAD.size
                if magic != _TRACE_MAGIC:
                    break
                whole = min(count, (size - at) // _TRACE_ITEM.size)
                self._blocks.setdefault(slot, []).append((at, whole))
                at += count * _TRACE_ITEM.size

    def spans(self, slots: set[int]) -> Iterator[Span]:
        """The activities in the blocks of some slots (`Work.slot`), as they were written."""
        blocks = sorted(block for slot in slots for block in self._blocks.get(slot, ()))
        with self.path.open("rb") as file:
            for at, count in blocks:
                file.seek(at)
                data = file.read(count * _TRACE_ITEM.size)
                whole = len(data) // _TRACE_ITEM.size * _TRACE_ITEM.size
                for start, end, moved, node, work, correlation in _TRACE_ITEM.iter_unpack(
                    memoryview(data)[:whole]
                ):
                    yield Span(work, start, end, moved, node, correlation)
