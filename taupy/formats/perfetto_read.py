"""Read Perfetto traces: slices of tracks become the call paths of threads.

Track descriptors and TrackEvents are read, as written by taupy and Perfetto's SDK; other packets
(scheduling, memory, counters) are ignored. In taupy's exports without single activities, each slice
has the number of calls of its call path; any other slice is one call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from taupy.formats import limits
from taupy.formats import protowire as wire
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.stacks import Stacks, profile_of, routine_timer
from taupy.model.profile import TIME, Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import CountedFile, Progress
from taupy.model.timers import Timers
from taupy.units import several

_PACKET = 1 << 3 | wire.BYTES
_STRAY = 0
_LANE = re.compile(r"(.*) \(([0-9]{1,4})\)", re.DOTALL)
_ARROW = " => "
_GROUPS = ("USER",)  # of slices without a category

Message = dict[int, list[int | bytes]]


def recognises(path: Path, first_bytes: bytes) -> bool:
    """Whether the file is a sequence of packets, one of which describes a track or a slice."""
    at, tracks = 0, False
    while at < len(first_bytes):
        if first_bytes[at] == _STRAY and at:
            at += 1
            continue
        if first_bytes[at] != _PACKET:
            return False
        try:
            size, begin = wire.varint(first_bytes, at + 1)
        except wire.WireError:
            return tracks
        if begin + size > len(first_bytes):
            return tracks
        try:
            packet = _message(first_bytes[begin : begin + size])
        except wire.WireError:
            return False
        tracks = tracks or any(isinstance(_last(packet, number), bytes) for number in (11, 60))
        at = begin + size
    return tracks


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    reading = _Reading(source)
    for at, packet in _packets(source, progress):
        try:
            if packet:
                reading.packet(_message(packet))
            else:
                reading.stray += 1
        except wire.WireError as problem:
            raise refusal(source, f"byte {at + problem.at}", str(problem)) from None
    yield reading.profile()


def _packets(source: Path, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Each packet and the offset at which it begins; an empty one for each zero byte between
    packets, which some writers leave and other readers skip."""
    with CountedFile(source, progress) as file:
        at = 0
        while key := file.read(1):
            if key[0] == _STRAY and at:
                yield at, b""
                at += 1
                continue
            if key[0] != _PACKET:
                raise refusal(source, f"byte {at}", "not a packet of a Perfetto trace")
            at += 1
            head = b""
            while not head or head[-1] > 127:
                byte = file.read(1)
                if not byte or len(head) > 9:
                    raise refusal(source, f"byte {at}", "the file is cut off")
                head += byte
            size, _ = wire.varint(head, 0)
            at += len(head)
            if size > limits.PACKET_BYTES:
                raise refusal(source, f"byte {at}", f"a packet of {size} bytes")
            packet = file.read(size)
            if len(packet) < size:
                raise refusal(source, f"byte {at}", "the file is cut off")
            if packet:
                yield at, packet
            at += size


def _message(data: bytes) -> Message:
    message: Message = {}
    for number, _, value in wire.fields(data):
        message.setdefault(number, []).append(value)
    return message


def _last(message: Message, number: int) -> int | bytes | None:
    values = message.get(number)
    return values[-1] if values else None


def _number(message: Message, number: int, default: int = 0) -> int:
    value = _last(message, number)
    return value if isinstance(value, int) else default


def _text(message: Message, number: int) -> str:
    value = _last(message, number)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


def _inner(message: Message, number: int) -> Message | None:
    value = _last(message, number)
    return _message(value) if isinstance(value, bytes) else None


@dataclass(slots=True)
class _Sequence:
    """The interned texts of one writer of packets, by number."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """A slice that has begun."""

    row: int
    start: int
    calls: int
    below: int = 0  # nanoseconds of nested slices


@dataclass(slots=True)
class _Track:
    name: str = ""
    parent: int = 0
    process: str | None = None
    pid: int = 0
    tid: int | None = None
    open: list[_Open] = field(default_factory=list)
    stacks: Stacks = field(default_factory=Stacks)
    streams: bool = False
    slices: int = 0


class _Reading:
    def __init__(self, source: Path) -> None:
        self._source = source
        self._timers = Timers()
        self._tracks: dict[int, _Track] = {}
        self._sequences: dict[int, _Sequence] = {}
        self._first: int | None = None
        self._last = 0
        self._unclosed = self._unopened = 0
        self.stray = 0  # zero bytes between packets

    def packet(self, packet: Message) -> None:
        if 50 in packet:
            raise refusal(
                self._source, "", "compressed packets; `traceconv decompress_packets` unpacks them"
            )
        sequence_id = _number(packet, 10)
        if _number(packet, 13) & 1 or sequence_id not in self._sequences:
            self._sequences[sequence_id] = _Sequence()
        sequence = self._sequences[sequence_id]
        if (interned := _inner(packet, 12)) is not None:
            self._intern(interned, sequence)
        if (descriptor := _inner(packet, 60)) is not None:
            self._describe(descriptor)
        if (event := _inner(packet, 11)) is not None:
            self._event(event, _number(packet, 8), sequence)

    def _intern(self, interned: Message, sequence: _Sequence) -> None:
        for number, table in (
            (1, sequence.categories),
            (2, sequence.names),
            (3, sequence.keys),
            (29, sequence.texts),
        ):
            for entry in interned.get(number, ()):
                if isinstance(entry, bytes):
                    message = _message(entry)
                    table[_number(message, 1)] = _text(message, 2)

    def _describe(self, descriptor: Message) -> None:
        track = self._tracks.setdefault(_number(descriptor, 1), _Track())
        track.name = _text(descriptor, 2) or track.name
        track.parent = _number(descriptor, 5) or track.parent
        if (process := _inner(descriptor, 3)) is not None:
            track.pid, track.process = _number(process, 1), _text(process, 6)
        if (thread := _inner(descriptor, 4)) is not None:
            track.pid, track.tid = _number(thread, 1), _number(thread, 2)
            track.name = _text(thread, 5) or track.name

    def _event(self, event: Message, moment: int, sequence: _Sequence) -> None:
        track = self._tracks.setdefault(_number(event, 11), _Track())
        kind = _number(event, 9)
        if kind not in (1, 2):
            return
        if moment > limits.SUM:
            raise refusal(self._source, "", f"a time stamp of {moment} ns")
        self._first = moment if self._first is None else min(self._first, moment)
        self._last = max(self._last, moment)
        if kind == 1:
            self._begin(track, event, moment, sequence)
        elif track.open:
            self._end(track, moment)
        else:
            self._unopened += 1

    def _begin(self, track: _Track, event: Message, moment: int, sequence: _Sequence) -> None:
        facts = dict(self._annotations(event, sequence))
        row = track.open[-1].row if track.open else 0
        path = facts.get("call path", "")
        if isinstance(path, str) and path and not track.open:
            for name in path.split(_ARROW):
                row = track.stacks.below(row, self._timers.place(routine_timer(name)))
        timer = self._timer(event, sequence)
        track.streams = track.streams or any(group.startswith("GPU_") for group in timer.groups)
        row = track.stacks.below(row, self._timers.place(timer))
        calls = facts.get("calls", 1)
        if not isinstance(calls, int) or calls > limits.SUM:
            raise refusal(self._source, "", f"{calls} calls in one slice")
        track.open.append(_Open(row, moment, calls))
        track.slices += 1

    def _end(self, track: _Track, moment: int) -> None:
        slice = track.open.pop()
        took = max(0, moment - slice.start)
        track.stacks.add(slice.row, took - slice.below)
        track.stacks.calls[slice.row] += slice.calls
        if track.open:
            track.open[-1].below += took

    def _timer(self, event: Message, sequence: _Sequence) -> Timer:
        name = _text(event, 23) or sequence.names.get(_number(event, 10), "(no name)")
        groups = [sequence.categories.get(iid, "") for iid in self._numbers(event, 3)]
        groups += [
            value.decode("utf-8", "backslashreplace")
            for value in event.get(22, ())
            if isinstance(value, bytes)
        ]
        timer = routine_timer(name)
        return timer._replace(groups=tuple(group for group in groups if group) or _GROUPS)

    @staticmethod
    def _numbers(event: Message, number: int) -> list[int]:
        return [number_ for value in event.get(number, ()) for number_ in wire.numbers(0, value)]

    @staticmethod
    def _annotations(event: Message, sequence: _Sequence) -> Iterator[tuple[str, Any]]:
        for value in event.get(4, ()):
            if not isinstance(value, bytes):
                continue
            note = _message(value)
            name = _text(note, 10) or sequence.keys.get(_number(note, 1), "")
            if 17 in note:
                yield name, sequence.texts.get(_number(note, 17), "")
            elif 6 in note:
                yield name, _text(note, 6)
            else:
                yield name, _number(note, 4, _number(note, 3))

    def profile(self) -> Profile:
        for track in self._tracks.values():
            self._unclosed += len(track.open)
            while track.open:
                self._end(track, self._last)
        used = [(uuid, track) for uuid, track in self._tracks.items() if track.slices]
        if not used:
            raise refusal(self._source, "", "contains no slices on a track")
        threads: dict[Thread, Stacks] = {}
        for thread, track in self._placed(used):
            if thread in threads:
                threads[thread].take(track.stacks)
            else:
                threads[thread] = track.stacks
        profiles = [
            ThreadProfile(thread, stacks.tree(TIME, self._timers))
            for thread, stacks in sorted(threads.items(), key=lambda pair: _order(pair[0]))
        ]
        names = [
            track.process
            for track in self._tracks.values()
            if track.process and track.pid < 1 << 29
        ]
        profile = profile_of(
            self._source,
            self._timers.timers,
            profiles,
            [TIME],
            application=names[0] if len(set(names)) == 1 else "",
            duration_ns=self._last - (self._first or 0),
        )
        notes = []
        if self.stray:
            notes.append(f"{several(self.stray, 'stray zero byte')} between packets")
        if self._unclosed:
            notes.append(f"{self._unclosed} slices had no end; they end with the trace")
        if self._unopened:
            notes.append(f"omitted: {self._unopened} ends of slices without a beginning")
        return replace(profile, metadata={IMPORT_NOTES: "\n".join(notes)} if notes else {})

    def _placed(self, used: list[tuple[int, _Track]]) -> Iterator[tuple[Thread, _Track]]:
        """Each track with its thread; additional lanes of taupy's exports share a thread."""
        nodes: dict[int, tuple[int, int]] = {}
        numbers: dict[tuple[int, int], int] = {}
        before: Thread | None = None
        for uuid, track in used:
            node, context = self._place(uuid, track, nodes)
            lane = _LANE.fullmatch(track.name)
            if (
                lane
                and before
                and _order(before)[:2] == (node, context)
                and (
                    lane[1] == (before.name or ("stream" if before.kind == "stream" else "thread"))
                )
            ):
                yield before, track
                continue
            number = numbers.get((node, context), 0)
            numbers[node, context] = number + 1
            kind = "stream" if track.streams or context else "host"
            name = "" if track.name in ("thread", "stream") else track.name
            before = Thread(node, context, number, kind, name)  # type: ignore[arg-type]
            yield before, track

    def _place(
        self, uuid: int, track: _Track, nodes: dict[int, tuple[int, int]]
    ) -> tuple[int, int]:
        """Node and context: in our own exports from the track's number, otherwise a node for each
        process."""
        above = track.parent
        if uuid >> 60 == 2 and above >> 60 == 1:
            return above >> 24 & 0xFFFF, above & 0xFFFF
        pid = track.pid or (self._tracks[above].pid if above in self._tracks else 0)
        return nodes.setdefault(pid, (len(nodes), 0))


def _order(thread: Thread) -> tuple[int, int, int]:
    return thread.node, thread.context, thread.thread
