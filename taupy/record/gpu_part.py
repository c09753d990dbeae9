"""Read a GPU part, complete or cut off: what one process did on its GPUs.

The file is written by `_native/cupti.c` (layout in
`_native/gpu_part.h`, for Python in `collectors/gpu_layout.py`) while the program
runs. Here it becomes plain data; `gpu_profile` interprets it for the profile.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import Call, DeviceFacts, Live, LoadedModule, Span, Work
from taupy.errors import FormatError
from taupy.record.part_files import GPU_TRACE_SUFFIX
from taupy.state import container
from taupy.state.container import Container
from taupy.state.container import text as _text
from taupy.state.folder import File

"""Suffix of a copy of a GPU part made when the program took a snapshot, beside the snapshot."""


@dataclass(slots=True)
class GpuPart:
    """Everything one process did on its GPUs.

    Attributes:
        start_ticks: of the engine's part of the same process; 0 if there was none yet.
        work: in the order to which `Span.work` refers.
        threads: number -> (native id, name) of threads without routines.
        ranges: number -> (number of the outer range or 0, name) of NVTX ranges pushed without
            the interpreter; work launched in one has `Work.node` = number << 6.
        range_places: number of an outermost range -> the call path in which it was pushed.
        range_sources: number of a range -> its source locations, as whoever pushed it spells them.
        call_names: (domain, callback id) -> CUPTI's name, `cudaLaunchKernel_v7000`.
        counters: see `GpuCounters` in gpu_part.h.
        notes: facts, and what went wrong (`error.step`, `error.code`, `error.text`).
        trace: the file of single activities, if there is one.
        lost_bytes: number of bytes in use that are not in any file.
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
    range_places: dict[int, int] = field(default_factory=dict)
    range_sources: dict[int, str] = field(default_factory=dict)
    devices: dict[int, DeviceFacts] = field(default_factory=dict)
    live: list[Live] = field(default_factory=list)
    modules: list[LoadedModule] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    trace: Path | File | None = None
    lost_bytes: int = 0


def read_gpu_part(path: Path | File, trace: File | None = None) -> GpuPart | None:
    """Decode a GPU part; None if it is still empty.

    Args:
        path: the part.
        trace: the file of single activities; None if it is beside the part.

    Raises:
        FormatError: the file is not a GPU part, or damaged.
    """
    file = container.read(path.name, path.read_bytes(), gpu_layout.LAYOUT)
    if file is None:
        return None
    part = GpuPart(path, file.header.pid, file.header.start_ticks)
    try:
        for block in file.blocks:
            _take(part, block.kind, file, block.start, block.end)
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise FormatError(f"{path.name} is damaged ({why})") from problem
    part.lost_bytes = file.lost_bytes
    beside = trace or path.with_suffix(GPU_TRACE_SUFFIX)
    part.trace = beside if beside.exists() else None
    return part


def _take(part: GpuPart, kind: int, file: Container, start: int, end: int) -> None:
    data = file.data

    def items(layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """The complete items of the block."""
        whole = start + (end - start) // layout.size * layout.size
        return layout.iter_unpack(memoryview(data)[start:whole])

    if kind == gpu_layout.WORK:
        for item in items(gpu_layout.WORK_ITEM):
            above, grid, block, below = item[:7], item[7:10], item[10:13], item[13:-1]
            work = Work._make((*above, grid, block, *below))
            if work.kind == 0:
                break  # not used yet
            part.work.append(work)
    elif kind == gpu_layout.CALLS:
        for key, calls, ticks, _ in items(gpu_layout.CALL):
            if key and calls:
                place = key >> 14
                part.calls.append(
                    Call(
                        place=place << 6 if place >= 1000 else place,
                        domain=key >> 12 & 3,
                        callback_id=key & 0xFFF,
                        calls=calls,
                        ticks=ticks,
                    )
                )
    elif kind in (
        *(gpu_layout.NAME, gpu_layout.CALL_NAME, gpu_layout.RANGE, gpu_layout.RANGE_PLACE),
        gpu_layout.RANGE_SOURCE,
    ):
        number, size = struct.unpack_from("<QQ", data, start)
        (text,) = file.texts(start + 16, end, size)
        if kind == gpu_layout.NAME:
            part.names[number] = text
        elif kind == gpu_layout.RANGE:
            part.ranges[number & 0xFFFFFFFF] = number >> 32, text
        elif kind == gpu_layout.RANGE_PLACE:
            part.range_places[number] = int(text, 16)
        elif kind == gpu_layout.RANGE_SOURCE:
            part.range_sources[number] = text
        else:
            part.call_names[number >> 12, number & 0xFFF] = text
    elif kind == gpu_layout.THREADS:
        for number, (native_id, name) in enumerate(items(gpu_layout.THREAD)):
            if native_id:
                part.threads[number] = native_id, _text(name.split(b"\0", 1)[0])
    elif kind == gpu_layout.DEVICE:
        *facts, _, name = gpu_layout.DEVICE_ITEM.unpack_from(data, start)
        device = DeviceFacts._make((*facts, _text(name.split(b"\0", 1)[0])))
        part.devices[device.ordinal] = device
    elif kind == gpu_layout.LIVE:
        for inuse, *live in gpu_layout.LIVE_ITEM.iter_unpack(
            memoryview(data)[start : start + 128 * gpu_layout.LIVE_ITEM.size]
        ):
            if inuse:
                part.live.append(Live(*live))
    elif kind == gpu_layout.MODULE:
        module = LoadedModule._make(gpu_layout.MODULE_ITEM.unpack_from(data, start))
        if module.loads:
            part.modules.append(module)
    elif kind == gpu_layout.COUNTERS:
        values = gpu_layout.COUNTER_VALUES.unpack_from(data, start)
        part.counters = dict(zip(gpu_layout.COUNTER_NAMES, values, strict=True))
    elif kind == gpu_layout.NOTE:
        sizes = struct.unpack_from("<QQ", data, start)
        if sizes[0]:
            name, value = file.texts(start + 16, end, *sizes)
            part.notes[name] = f"{part.notes[name]}; {value}" if name in part.notes else value


class Trace:
    """The single activities of a process, block by block from its file.

    Each stream's activities are in separate blocks, so that one stream can be read
    without the others. If the process was killed, the last block may be truncated.
    """

    def __init__(self, path: Path | File) -> None:
        self.path = path
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        at = 0
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            while at + gpu_layout.TRACE_HEAD.size <= size:
                file.seek(at)
                magic, slot, count = gpu_layout.TRACE_HEAD.unpack(
                    file.read(gpu_layout.TRACE_HEAD.size)
                )
                at += gpu_layout.TRACE_HEAD.size
                if magic != gpu_layout.TRACE_MAGIC:
                    break
                whole = min(count, (size - at) // gpu_layout.TRACE_ITEM.size)
                self._blocks.setdefault(slot, []).append((at, whole))
                at += count * gpu_layout.TRACE_ITEM.size

    def spans(self, slots: set[int]) -> Iterator[Span]:
        """The activities in the blocks of these slots (`Work.slot`), in file order."""
        blocks = sorted(block for slot in slots for block in self._blocks.get(slot, ()))
        with self.path.open("rb") as file:
            for at, count in blocks:
                file.seek(at)
                data = file.read(count * gpu_layout.TRACE_ITEM.size)
                whole = len(data) // gpu_layout.TRACE_ITEM.size * gpu_layout.TRACE_ITEM.size
                for start, end, moved, node, work, correlation in gpu_layout.TRACE_ITEM.iter_unpack(
                    memoryview(data)[:whole]
                ):
                    yield Span(work, start, end, moved, node, correlation)
