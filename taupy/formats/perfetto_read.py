"""Read Perfetto traces: slices of tracks become the call paths of threads.

Track descriptors and TrackEvents are read, as written by taupy, Perfetto's SDK and Chrome; other
packets (scheduling, memory, counters) are ignored. In taupy's exports without single activities,
each slice has the number of calls of its call path; any other slice is one call.

Packets come in any order of time, and rely on earlier ones of their sequence: interned names,
defaults, clocks. Events are therefore kept by track, and sorted after the last packet.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from taupy.formats import limits
from taupy.formats import protowire as wire
from taupy.formats.perfetto_clocks import (
    MONOTONIC,
    UNSTATED,
    Clock,
    ClockError,
    Clocks,
    Conversion,
)
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
_END: Final = -1
_NEVER: Final = 1 << 63
_NOT_ALIKE: Final = frozenset((1, 6, 16))
"""Fields of events that may mean something else in another event of the same bytes."""
_MOST_SEEN: Final = 4096
_UNOPENED: Final = "end", "of slices without a beginning"
_PHASES_LEFT_OUT: Final = "CDIMNOPRTcinpstv()"  # of Chrome's traces: instants, counters, flows

Message = dict[int, list[int | bytes]]
TrackKey = int | tuple[Hashable, ...]
"""The number of a track, or what else tells it apart."""


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
    """The state of one writer of packets.

    Attributes:
        names, categories, keys, texts: interned, by number.
        clock: of packets that name none.
        track: of events that name none.
        complete: the packets that rely on this state can be understood.
        legacy_us: the time of the last event, of writers that count from one event to the next.
        seen: the track and the head of events, by their bytes, as long as the state is the same.
    """

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    clock: int = UNSTATED
    track: TrackKey = 0
    complete: bool = False
    legacy_us: int = 0
    seen: dict[bytes, tuple[_Track, int]] = field(default_factory=dict)


class _Head(NamedTuple):
    """What begins with a slice: its timer, the callers that it names itself, its calls."""

    timer: int
    callers: tuple[int, ...]
    calls: int


@dataclass(slots=True)
class _Open:
    """A slice that has begun.

    Attributes:
        latest: when it ends at the latest, as it or a slice around it began with its duration.
        is_timed: it began with its duration, so that no other event ends it.
        below: nanoseconds of nested slices.
    """

    row: int
    start: int
    calls: int
    latest: int
    is_timed: bool = False
    below: int = 0


@dataclass(slots=True)
class _Track:
    """A track, and its events in the order of the file.

    Attributes:
        moments, clocks: when an event was, by which clock.
        heads: the position of what begins; _END for an end.
        took: the duration of slices that have one, by the position of their event.
    """

    name: str = ""
    parent: TrackKey = 0
    machine: int = 0
    process: str | None = None
    pid: int = 0
    tid: int | None = None
    streams: bool = False
    moments: array[int] = field(default_factory=lambda: array("q"))
    clocks: array[int] = field(default_factory=lambda: array("i"))
    heads: array[int] = field(default_factory=lambda: array("i"))
    took: dict[int, int] = field(default_factory=dict)

    def event(self, moment: int, clock: int, head: int) -> None:
        self.moments.append(moment)
        self.clocks.append(clock)
        self.heads.append(head)

    def take(self, other: _Track) -> None:
        """Add the events of another track of the same thread."""
        self.took |= {len(self.heads) + at: took for at, took in other.took.items()}
        self.moments += other.moments
        self.clocks += other.clocks
        self.heads += other.heads
        self.streams |= other.streams
        self.name = self.name or other.name


class _Reading:
    def __init__(self, source: Path) -> None:
        self._source = source
        self._timers = Timers()
        self._tracks: dict[TrackKey, _Track] = {}
        self._sequences: dict[int, _Sequence] = {}
        self._clocks = Clocks()
        self._heads: dict[_Head, int] = {}
        self._first, self._last = _NEVER, -_NEVER
        self._left_out: Counter[tuple[str, str]] = Counter()
        self._unclosed = self._outlasting = self._nameless = self._gaps = 0
        self.stray = 0  # zero bytes between packets

    def packet(self, packet: Message) -> None:
        if 50 in packet or 133 in packet:
            raise refusal(
                self._source, "", "compressed packets; `traceconv decompress_packets` unpacks them"
            )
        sequence_id = _number(packet, 10)
        sequence = self._sequence(sequence_id, packet)
        if (descriptor := _inner(packet, 60)) is not None:
            self._describe(descriptor, _number(packet, 98))
        if 12 in packet or 44 in packet or 59 in packet:
            sequence.seen.clear()
        if 59 in packet and (defaults := _inner(packet, 59)) is not None:
            sequence.clock = _number(defaults, 58)
            sequence.track = _number(_inner(defaults, 11) or {}, 11)
        if (interned := _inner(packet, 12)) is not None:
            self._intern(interned, sequence)
        try:
            if 6 in packet and (snapshot := _inner(packet, 6)) is not None:
                self._snapshot(snapshot, sequence_id)
                return
            if 44 in packet and (thread := _inner(packet, 44)) is not None:
                self._describe_legacy(thread, sequence_id, sequence)
            if _number(packet, 13) & 2 and not sequence.complete:
                self._left_out["packet", "relying on packets that were lost"] += 1
                return
            stamp = _last(packet, 8)
            clock = self._clocks.clock(_number(packet, 58) or sequence.clock, sequence_id)
            moment = None
            if isinstance(stamp, int):
                moment = clock.moment(wire.signed(stamp))
            elif clock.since is not None:
                moment = clock.since
            event = _last(packet, 11)
            if not isinstance(event, bytes):
                return
            if moment is not None and (seen := sequence.seen.get(event)) is not None:
                seen[0].event(moment, clock.at, seen[1])
            else:
                self._event(event, moment, clock, sequence)
        except ClockError as problem:
            raise refusal(self._source, "", str(problem)) from None

    def _sequence(self, id: int, packet: Message) -> _Sequence:
        sequence = self._sequences.get(id)
        if sequence is None:
            sequence = self._sequences[id] = _Sequence()
        elif _number(packet, 42):
            self._gaps += 1
            sequence.complete = False
        if _number(packet, 13) & 1 or _number(packet, 41):
            sequence = self._sequences[id] = _Sequence(
                complete=True,
                track=sequence.track if isinstance(sequence.track, tuple) else 0,
                legacy_us=sequence.legacy_us,
            )
        return sequence

    def _snapshot(self, snapshot: Message, sequence_id: int) -> None:
        of_trace = _number(snapshot, 2)
        readings = []
        for value in snapshot.get(1, ()):
            if isinstance(value, bytes):
                reading = _message(value)
                clock = self._clocks.clock(_number(reading, 1), sequence_id)
                stamp, unit_ns = _number(reading, 2), _number(reading, 4)
                readings.append((clock, stamp, unit_ns, bool(_number(reading, 3))))
        self._clocks.snapshot(readings, self._clocks.clock(of_trace, 0) if of_trace else None)

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

    def _describe(self, descriptor: Message, machine: int) -> None:
        track = self._track(_number(descriptor, 1))
        track.machine = machine
        track.name = next(filter(None, (_text(descriptor, at) for at in (2, 10, 13))), track.name)
        track.parent = _number(descriptor, 5) or track.parent
        if (process := _inner(descriptor, 3)) is not None:
            track.pid, track.process = _number(process, 1), _text(process, 6)
        if (thread := _inner(descriptor, 4)) is not None:
            track.pid, track.tid = _number(thread, 1), _number(thread, 2)
            track.name = _text(thread, 5) or track.name

    def _describe_legacy(self, thread: Message, sequence_id: int, sequence: _Sequence) -> None:
        """Take over the description of a sequence's thread, as older writers give it."""
        key = ("sequence", sequence_id, _number(thread, 1), _number(thread, 2))
        track = self._track(key)
        track.pid, track.tid = _number(thread, 1), _number(thread, 2)
        track.name = _text(thread, 5) or track.name
        sequence.track = key
        sequence.legacy_us = _number(thread, 6)

    def _track(self, key: TrackKey) -> _Track:
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track()
        return track

    def _event(self, data: bytes, moment: int | None, clock: Clock, sequence: _Sequence) -> None:
        event, nameless = _message(data), self._nameless
        if 1 in event or 16 in event:
            sequence.legacy_us += wire.signed(_number(event, 1))
            stamp_us = wire.signed(_number(event, 16)) if 16 in event else sequence.legacy_us
            clock = self._clocks.clock(MONOTONIC, 0)
            moment = clock.moment(stamp_us * 1000)
        key = _number(event, 11) if 11 in event else sequence.track
        track = self._track(key)
        kind = _number(event, 9)
        took = None
        if not kind and (legacy := _inner(event, 6)) is not None:
            kind, took, track = self._legacy(legacy, key, track, event, sequence)
        if kind not in (1, 2):
            if kind not in (3, 4):
                self._left_out["event", f"of the unknown type {kind}"] += 1
            return
        if moment is None:
            self._left_out["event", "without a time"] += 1
            return
        if took is not None:
            track.took[len(track.heads)] = took
        head = _END if kind == 2 else self._head(track, event, sequence)
        track.event(moment, clock.at, head)
        if not event.keys() & _NOT_ALIKE and self._nameless == nameless:
            if len(sequence.seen) >= _MOST_SEEN:
                sequence.seen.clear()
            sequence.seen[data] = track, head

    def _legacy(
        self, legacy: Message, key: TrackKey, track: _Track, event: Message, sequence: _Sequence
    ) -> tuple[int, int | None, _Track]:
        """Type, duration and track of an event with a phase of Chrome's traces instead of a
        type; asynchronous slices of an id are a track of their own."""
        phase = chr(_number(legacy, 2) & 0x7F)
        if phase == "X":
            took = wire.signed(_number(legacy, 3)) * 1000
            if not 0 <= took < limits.SLICE_NS:
                raise refusal(self._source, "", f"a slice of {took} ns")
            return 1, took, track
        if phase in "BE":
            return (1 if phase == "B" else 2), None, track
        if phase not in "beSF":
            return (3 if phase in _PHASES_LEFT_OUT else 0), None, track
        category = ",".join(self._categories(event, sequence))
        scope: tuple[Hashable, ...] = (_text(legacy, 7), category)
        if phase in "SF":
            scope += (self._name(event, sequence),)
        for which in (6, 10, 11):
            if which in legacy:
                scope += (which, _number(legacy, which), track.pid if which == 10 else 0)
        own = self._track(("id", *scope))
        own.parent, own.name = own.parent or key, own.name or f"asynchronous {category}".strip()
        return (1 if phase in "bS" else 2), None, own

    def _head(self, track: _Track, event: Message, sequence: _Sequence) -> int:
        """The position of what begins with a slice."""
        facts = dict(self._annotations(event, sequence)) if 4 in event else {}
        path, calls = facts.get("call path", ""), facts.get("calls", 1)
        callers: tuple[int, ...] = ()
        if isinstance(path, str) and path:
            callers = tuple(self._timers.place(routine_timer(name)) for name in path.split(_ARROW))
        if not isinstance(calls, int) or calls > limits.SUM:
            raise refusal(self._source, "", f"{calls} calls in one slice")
        timer = self._timer(event, sequence)
        track.streams = track.streams or any(group.startswith("GPU_") for group in timer.groups)
        head = _Head(self._timers.place(timer), callers, calls)
        return self._heads.setdefault(head, len(self._heads))

    def _name(self, event: Message, sequence: _Sequence) -> str:
        if name := _text(event, 23):
            return name
        number = _number(event, 10) or _number(_inner(event, 6) or {}, 1)
        if number and number not in sequence.names:
            self._nameless += 1
        return sequence.names.get(number) or "(no name)"

    def _categories(self, event: Message, sequence: _Sequence) -> list[str]:
        categories = [sequence.categories.get(iid, "") for iid in self._numbers(event, 3)]
        categories += [
            value.decode("utf-8", "backslashreplace")
            for value in event.get(22, ())
            if isinstance(value, bytes)
        ]
        return [category for category in categories if category]

    def _timer(self, event: Message, sequence: _Sequence) -> Timer:
        timer = routine_timer(self._name(event, sequence))
        return timer._replace(groups=tuple(self._categories(event, sequence)) or _GROUPS)

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
        used = self._used()
        if not used:
            raise refusal(self._source, "", "contains no slices on a track")
        clocks = {at for track in used.values() for at in set(track.clocks)}
        try:
            conversions = self._clocks.conversions(clocks)
            ordered = {key: self._ordered(track, conversions) for key, track in used.items()}
        except ClockError as problem:
            raise refusal(self._source, "", str(problem)) from None
        threads: dict[Thread, Stacks] = {}
        for thread, key in self._placed(used):
            stacks = self._nested(*ordered.pop(key))
            if thread in threads:
                threads[thread].take(stacks)
            else:
                threads[thread] = stacks
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
            duration_ns=self._last - self._first,
        )
        notes = self._notes()
        return replace(profile, metadata={IMPORT_NOTES: "\n".join(notes)} if notes else {})

    def _notes(self) -> list[str]:
        notes = []
        if self.stray:
            notes.append(f"{several(self.stray, 'stray zero byte')} between packets")
        if self._gaps:
            notes.append(
                f"packets were lost in {several(self._gaps, 'place')}: what they held is missing"
            )
        if self._nameless:
            notes.append(
                f"{several(self._nameless, 'slice')} with a name that the file does not hold"
            )
        if self._unclosed:
            notes.append(
                f"{several(self._unclosed, 'slice')} without an end, which is that of the trace"
            )
        if self._outlasting:
            notes.append(
                f"{several(self._outlasting, 'slice')} outlasted the slice around: cut off there"
            )
        return notes + [
            f"omitted: {several(count, noun)} {about}"
            for (noun, about), count in sorted(self._left_out.items())
        ]

    def _used(self) -> dict[TrackKey, _Track]:
        """The tracks with slices; several of one thread are one."""
        used: dict[TrackKey, _Track] = {}
        of_thread: dict[tuple[int, int, int], _Track] = {}
        for key, track in self._tracks.items():
            if not track.heads:
                continue
            if track.tid is not None:
                first = of_thread.setdefault((track.machine, track.pid, track.tid), track)
                if first is not track:
                    first.take(track)
                    continue
            used[key] = track
        for key, track in list(used.items()):
            if max(track.heads) == _END:
                self._left_out[_UNOPENED] += len(track.heads)
                del used[key]
        return used

    def _ordered(
        self, track: _Track, conversions: dict[int, Conversion]
    ) -> tuple[list[int], list[int], dict[int, int]]:
        """The events of a track by time, then in the order of the file: moments of the trace,
        heads, and the duration of slices that have one."""
        import numpy

        moments = numpy.array(track.moments, dtype=numpy.int64)
        clocks = numpy.frombuffer(track.clocks, dtype=numpy.int32)
        for at in set(track.clocks):
            of_clock = clocks == at
            moments[of_clock] = conversions[at](moments[of_clock])
        order = numpy.argsort(moments, kind="stable")
        heads = numpy.frombuffer(track.heads, dtype=numpy.int32)
        took = {}
        if track.took:
            took = {
                at: track.took[place]
                for at, place in enumerate(order.tolist())
                if place in track.took
            }
        first, last = int(moments[order[0]]), int(moments[order[-1]])
        for at, duration in took.items():
            last = max(last, int(moments[order[at]]) + duration)
        self._first = min(self._first, first)
        self._last = max(self._last, last)
        heads = heads[order]
        if not track.name and track.parent and track.tid is None:
            # Perfetto, too, names a track that has no name by its first slice.
            timer = list(self._heads)[int(heads[heads != _END][0])].timer
            track.name = self._timers.timers[timer].name
        return moments[order].tolist(), heads.tolist(), took

    def _nested(self, moments: list[int], heads: list[int], took: dict[int, int]) -> Stacks:
        """The call paths of a track's slices: a slice that begins within another is below it."""
        stacks = Stacks()
        begins = list(self._heads)
        open_ones: list[_Open] = []
        for at, (moment, head) in enumerate(zip(moments, heads, strict=True)):
            is_end = head == _END
            while open_ones and open_ones[-1].latest < moment + (not is_end):
                self._outlasting += not open_ones[-1].is_timed
                self._end(stacks, open_ones, open_ones[-1].latest)
            if is_end:
                if all(slice.is_timed for slice in open_ones):
                    self._left_out[_UNOPENED] += 1
                    continue
                while open_ones[-1].is_timed:
                    self._outlasting += open_ones[-1].latest > moment
                    self._end(stacks, open_ones, moment)
                self._end(stacks, open_ones, moment)
                continue
            timer, callers, calls = begins[head]
            row, latest = 0, _NEVER
            if open_ones:
                row, latest = open_ones[-1].row, open_ones[-1].latest
            else:
                for caller in callers:
                    row = stacks.below(row, caller)
            is_timed = at in took
            if is_timed:
                self._outlasting += moment + took[at] > latest
                latest = min(latest, moment + took[at])
            open_ones.append(_Open(stacks.below(row, timer), moment, calls, latest, is_timed))
        while open_ones:
            self._unclosed += not open_ones[-1].is_timed
            self._end(stacks, open_ones, min(open_ones[-1].latest, self._last))
        return stacks

    @staticmethod
    def _end(stacks: Stacks, open_ones: list[_Open], moment: int) -> None:
        slice = open_ones.pop()
        took = moment - slice.start
        stacks.add(slice.row, took - slice.below)
        stacks.calls[slice.row] += slice.calls
        if open_ones:
            open_ones[-1].below += took

    def _placed(self, used: dict[TrackKey, _Track]) -> Iterator[tuple[Thread, TrackKey]]:
        """The thread of each track; additional lanes of taupy's exports share a thread."""
        nodes: dict[tuple[int, int], tuple[int, int]] = {}
        numbers: dict[tuple[int, int], int] = {}
        before: Thread | None = None
        for key, track in used.items():
            node, context = self._place(key, track, nodes)
            lane = _LANE.fullmatch(track.name)
            if (
                lane
                and before
                and _order(before)[:2] == (node, context)
                and (
                    lane[1] == (before.name or ("stream" if before.kind == "stream" else "thread"))
                )
            ):
                yield before, key
                continue
            number = numbers.get((node, context), 0)
            numbers[node, context] = number + 1
            kind = "stream" if track.streams or context else "host"
            name = "" if track.name in ("thread", "stream") else track.name
            before = Thread(node, context, number, kind, name)  # type: ignore[arg-type]
            yield before, key

    def _place(
        self, key: TrackKey, track: _Track, nodes: dict[tuple[int, int], tuple[int, int]]
    ) -> tuple[int, int]:
        """Node and context: in our own exports from the track's number, otherwise a node for each
        process."""
        above = track.parent
        if isinstance(key, int) and isinstance(above, int) and key >> 60 == 2 and above >> 60 == 1:
            return above >> 24 & 0xFFFF, above & 0xFFFF
        seen = {key}
        while not track.pid and above in self._tracks and above not in seen:
            seen.add(above)
            track = self._tracks[above]
            above = track.parent
        return nodes.setdefault((track.machine, track.pid), (len(nodes), 0))


def _order(thread: Thread) -> tuple[int, int, int]:
    return thread.node, thread.context, thread.thread
