"""GPU parts and containers for tests, written in Python.

The layout is that of `_native/gpu_part.h`, through the structures of `gpu_layout`.
"""

from __future__ import annotations

import posix
import struct
from collections.abc import Iterable

from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import DeviceFacts, Live
from taupy.state.container import _HEADER, Header, Layout

_ALIGN = 64
_HEADER_BYTES = 384
"""The fixed fields and table of a chunk, aligned."""

_BLOCK = struct.Struct("<IIQ48x")
_SIZES = struct.Struct("<QQ")
_LIVE_AT_MOST = 128


def packed_header(layout: Layout, size: int, *, used: int, pid: int, start_ticks: int) -> bytes:
    """The header of a container with one chunk, which has `size` bytes with its table."""
    by_name = {
        "version": layout.version,
        "header_size": size,
        "chunk_count": 1,
        "used": used,
        "mapped": used,
        "pid": pid,
        "start_ticks": start_ticks,
    }
    fields = [by_name.get(name, 0) for name in Header._fields[1:]]
    return _HEADER.pack(layout.magic, *fields).ljust(size, b"\0")


class PartWriter:
    """The contents of a GPU part with these blocks.

    Args:
        pid: of the process.
        start_ticks: of the engine's part of the same process; 0 if it has none yet.
    """

    def __init__(self, pid: int, start_ticks: int) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self._blocks: list[bytes] = []

    def _block(self, kind: int, payload: bytes) -> None:
        padding = -len(payload) % _ALIGN
        self._blocks.append(_BLOCK.pack(kind, 0, _BLOCK.size + len(payload) + padding))
        self._blocks.append(payload + bytes(padding))

    def counters(self, values: dict[str, int]) -> None:
        names = gpu_layout.COUNTER_NAMES
        payload = struct.pack(f"<{len(names)}q", *[values.get(name, 0) for name in names])
        self._block(gpu_layout.COUNTERS, payload)

    def work(self, rows: Iterable[tuple[float, ...]]) -> None:
        """Rows of `cupti_python_sums`, in order."""
        pack = gpu_layout.WORK_ITEM.pack
        payload = b"".join([pack(*row, 0) for row in rows])
        if payload:
            self._block(gpu_layout.WORK, payload)

    def names(self, texts: dict[str, int]) -> None:
        for text, number in texts.items():
            self._text(gpu_layout.NAME, number, text)

    def call_names(self, names: dict[tuple[int, int], str]) -> None:
        for (domain, callback_id), text in names.items():
            self._text(gpu_layout.CALL_NAME, domain << 12 | callback_id, text)

    def _text(self, kind: int, number: int, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self._block(kind, _SIZES.pack(number, len(data)) + data + b"\0")

    def calls(self, table: bytes) -> None:
        """A table of `GpuCall`, as filled by callbacks."""
        self._block(gpu_layout.CALLS, table)

    def threads(self, threads: bytes) -> None:
        """The table of `GpuThread`, if any."""
        if threads:
            self._block(gpu_layout.THREADS, threads)

    def device(self, facts: DeviceFacts) -> None:
        name = facts.name.encode("utf-8", "replace")[:127]
        self._block(gpu_layout.DEVICE, gpu_layout.DEVICE_ITEM.pack(*facts[:-1], 0, name))

    def live(self, live: Iterable[Live]) -> None:
        """Memory in use, with as many rows as the reader accepts."""
        pack = gpu_layout.LIVE_ITEM.pack
        rows = [pack(1, *entry) for entry in live][:_LIVE_AT_MOST]
        room = bytes((_LIVE_AT_MOST - len(rows)) * gpu_layout.LIVE_ITEM.size)
        self._block(gpu_layout.LIVE, b"".join([*rows, room]))

    def notes(self, notes: dict[str, str]) -> None:
        for name, value in notes.items():
            n, v = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
            self._block(gpu_layout.NOTE, _SIZES.pack(len(n), len(v)) + n + b"\0" + v + b"\0")

    def write(self, path: bytes) -> bool:
        """Write the file. Returns False if that fails; the previous file then stays."""
        used = _HEADER_BYTES + sum([len(data) for data in self._blocks])
        header = packed_header(
            gpu_layout.LAYOUT,
            _HEADER_BYTES,
            used=used,
            pid=self.pid,
            start_ticks=self.start_ticks,
        )
        return write_file(path, b"".join([header, *self._blocks]))


def write_file(path: bytes, data: bytes) -> bool:
    """Replace a file. Returns False if that fails."""
    new = path + b".new"
    try:
        descriptor = posix.open(
            new, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600
        )
        try:
            view = memoryview(data)
            while view:
                view = view[posix.write(descriptor, view) :]
        finally:
            posix.close(descriptor)
        posix.rename(new, path)
    except OSError:
        return False
    return True


class TraceWriter:
    """The file of single activities: blocks, one stream per block, are appended."""

    def __init__(self, path: bytes) -> None:
        self.lost = 0
        try:
            flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC
            self._descriptor = posix.open(path, flags, 0o600)
        except OSError:
            self._descriptor = -1

    def write(self, slots: dict[int, list[tuple[int, ...]]]) -> None:
        """Slot -> (start, end, bytes, graph node, row, correlation) of its activities."""
        pack = gpu_layout.TRACE_ITEM.pack
        for slot, activities in slots.items():
            head = gpu_layout.TRACE_HEAD.pack(gpu_layout.TRACE_MAGIC, slot, len(activities))
            view = memoryview(b"".join([head, *[pack(*activity) for activity in activities]]))
            try:
                while view:
                    view = view[posix.write(self._descriptor, view) :]
            except OSError:
                self.lost += len(activities)
