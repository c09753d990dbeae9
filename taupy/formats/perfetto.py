"""Write a trial as a Perfetto trace: protocol buffers for ui.perfetto.dev.
`perfetto_read.py` reads them.

Each GPU of a node is a process track, each stream a thread track in it. Slices of a track never
overlap, because Perfetto would drop them. An arrow leads from an API call to what it launched. The
few messages needed are encoded here; their field numbers are those of perfetto_trace.proto.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Final

from taupy.formats import protowire as wire
from taupy.formats.perfetto_read import read, recognises
from taupy.formats.registry import Format
from taupy.formats.tracks import (
    TIMELINE,
    Counter,
    Slice,
    Track,
    Tracks,
    frames,
    launches_by_row,
    process_name,
    tracks,
)
from taupy.model.gpu import UNCONFIGURED, Launch
from taupy.model.profile import Profile
from taupy.model.progress import Progress

_SEQUENCE: Final = wire.put_number(10, 1)  # TracePacket.trusted_packet_sequence_id
_CLEARED: Final = wire.put_number(13, 1)  # .sequence_flags: SEQ_INCREMENTAL_STATE_CLEARED
_NEEDS_STATE: Final = wire.put_number(13, 2)  # SEQ_NEEDS_INCREMENTAL_STATE

_BEGIN: Final = wire.put_number(9, 1)  # TrackEvent.type
_END: Final = wire.put_number(9, 2)
_VALUE: Final = wire.put_number(9, 4)


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the trace; returns what the format cannot hold."""
    laid = tracks(profile)
    progress.begin(target.name, len(laid.tracks))
    with open(target, "wb") as file:
        _Writer(profile, laid, file).write(progress)
    return laid.lost


class _Writer:
    def __init__(self, profile: Profile, laid: Tracks, file: BinaryIO) -> None:
        self._profile = profile
        self._tracks = laid
        self._file = file
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._base = 0 if not laid.laid_out else int(profile.started_at * 1e9)

    def write(self, progress: Progress) -> None:
        self._packet(_CLEARED)
        processes: set[tuple[int, int]] = set()
        for number, track in enumerate(self._tracks.tracks):
            at = track.thread
            if (at.node, at.context) not in processes:
                processes.add((at.node, at.context))
                self._describe_process(at.node, at.context)
            self._describe_thread(track, number)
            self._slices(track, number)
            progress.advance()
        for number, counter in enumerate(self._tracks.counters):
            if (counter.node, counter.context) not in processes:
                processes.add((counter.node, counter.context))
                self._describe_process(counter.node, counter.context)
            self._counter(counter, number)

    def _packet(self, content: bytes) -> None:
        self._file.write(wire.put_bytes(1, content + _SEQUENCE))

    def _process(self, node: int, context: int) -> int:
        """The process id for Perfetto: of a host process the real one, if it is known."""
        if context:
            return 1_000_000_000 + node * 1000 + context
        pid = self._profile.node_metadata.get(node, {}).get("PID", "")
        return int(pid) if pid.isdigit() and len(pid) < 9 else 900_000_000 + node

    @staticmethod
    def _process_uuid(node: int, context: int) -> int:
        return 1 << 60 | (node << 24 | context)

    @staticmethod
    def _uuid(number: int) -> int:
        return 2 << 60 | number

    def _describe_process(self, node: int, context: int) -> None:
        name = process_name(self._profile, node)
        if context:
            name = next(
                (
                    f"GPU {device.ordinal}: {device.name}"
                    for device in self._profile.devices
                    if (device.node, device.ordinal + 1) == (node, context)
                ),
                f"GPU {context - 1}",
            )
        described = wire.put_number(1, self._process(node, context)) + wire.put_text(6, name)
        descriptor = wire.put_number(1, self._process_uuid(node, context))
        descriptor += wire.put_bytes(3, described)
        self._packet(wire.put_bytes(60, descriptor))

    def _describe_thread(self, track: Track, number: int) -> None:
        at = track.thread
        thread = wire.put_number(1, self._process(at.node, at.context))
        thread += wire.put_number(2, 2_000_000_000 + number if at.context else self._tid(track))
        thread += wire.put_text(5, track.title())
        descriptor = wire.put_number(1, self._uuid(number))
        descriptor += wire.put_number(5, self._process_uuid(at.node, at.context))
        descriptor += wire.put_text(2, track.title())
        descriptor += wire.put_bytes(4, thread)
        self._packet(wire.put_bytes(60, descriptor))

    def _tid(self, track: Track) -> int:
        at = track.thread
        if at.native_id and not track.lane and at.native_id < 1 << 30:
            return at.native_id
        return 1_500_000_000 + at.thread * 100 + track.lane

    def _slices(self, track: Track, number: int) -> None:
        """Write begins and ends in order of time; a stack holds the ends of open slices."""
        to = wire.put_number(11, self._uuid(number))
        launches = launches_by_row(track.measured)
        heads: dict[int, bytes] = {}
        open_ends: list[int] = []
        for activity in track.slices:
            while open_ends and open_ends[-1] <= activity.start_ns:
                self._event(open_ends.pop(), _END + to)
            head = heads.get(activity.row)
            if head is None:
                head = heads[activity.row] = self._head(track, activity, launches.get(activity.row))
            self._event(activity.start_ns, _BEGIN + to + head + self._more(track, activity))
            open_ends.append(activity.end_ns)
        while open_ends:
            self._event(open_ends.pop(), _END + to)

    def _counter(self, counter: Counter, number: int) -> None:
        uuid = 3 << 60 | number
        descriptor = wire.put_number(1, uuid)
        descriptor += wire.put_number(5, self._process_uuid(counter.node, counter.context))
        descriptor += wire.put_text(2, counter.title)
        descriptor += wire.put_bytes(8, wire.put_text(6, counter.samples.unit))
        self._packet(wire.put_bytes(60, descriptor))
        to = _VALUE + wire.put_number(11, uuid)
        for moment, value in counter.values():
            double = wire.put_varint(44 << 3 | wire.FIXED64) + struct.pack("<d", value)
            self._event(moment - self._base, to + double)

    def _event(self, moment: int, event: bytes) -> None:
        stamp = wire.put_number(8, self._base + moment)
        self._packet(stamp + wire.put_bytes(11, event) + _NEEDS_STATE)

    def _head(self, track: Track, activity: Slice, launch: Launch | None) -> bytes:
        """What all slices of a row share: name, categories, configuration, call path."""
        timer = self._profile.timers[track.measured.tree.timer[activity.row]]
        head = wire.put_number(10, self._interned(2, self._names, timer.full_name))
        for group in timer.groups:
            head += wire.put_number(3, self._interned(1, self._categories, group))
        above = frames(track.measured, activity.row)
        if above and not self._tracks.laid_out:
            timers, rows = self._profile.timers, track.measured.tree.timer
            path = " => ".join(timers[rows[row]].full_name for row in above[-100:])
            head += self._text("call path", path)
        grid, block, registers, *_ = launch.configuration if launch else UNCONFIGURED
        if grid is not None and block is not None:
            head += self._text("grid", str(list(grid)))
            head += self._text("block", str(list(block)))
        if registers is not None:
            head += self._number("registers per thread", registers)
        return head

    def _more(self, track: Track, activity: Slice) -> bytes:
        more = b""
        if activity.correlation is not None:
            flow = (track.thread.node << 40 | activity.correlation & (1 << 40) - 1) & (1 << 64) - 1
            field = 47 if activity.kind == "api" else 48  # flow_ids, terminating_flow_ids
            more += wire.put_varint(field << 3 | wire.FIXED64) + flow.to_bytes(8, "little")
            more += self._number("correlation", activity.correlation)
        if activity.bytes is not None:
            more += self._number("bytes", activity.bytes)
        if activity.calls is not None:
            more += self._number("calls", activity.calls)
        return more

    def _text(self, name: str, text: str) -> bytes:
        """A debug annotation; its text is interned."""
        key = wire.put_number(1, self._interned(3, self._keys, name))
        value = wire.put_number(17, self._interned(29, self._texts, text))
        return wire.put_bytes(4, key + value)  # TrackEvent.debug_annotations

    def _number(self, name: str, number: int) -> bytes:
        key = wire.put_number(1, self._interned(3, self._keys, name))
        return wire.put_bytes(4, key + wire.put_number(4, number))

    def _interned(self, kind: int, numbers_of: dict[str, int], text: str) -> int:
        """The number of an interned text; a new text is written first (InternedData)."""
        number = numbers_of.get(text)
        if number is None:
            number = numbers_of[text] = len(numbers_of) + 1
            entry = wire.put_number(1, number) + wire.put_text(2, text)
            self._packet(wire.put_bytes(12, wire.put_bytes(kind, entry)) + _NEEDS_STATE)
        return number


FORMAT = Format(
    name="perfetto",
    title="Perfetto trace (protocol buffers)",
    suffixes=(".perfetto-trace", ".pftrace"),
    recognises=recognises,
    read=read,
    write=write,
    holds=TIMELINE,
)
