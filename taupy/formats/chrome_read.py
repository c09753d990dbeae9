"""The events of a Chrome trace, gathered in columns and made into a profile.

Events come in any order. Slices are kept as numbers, a few dozen bytes each, and are
put in order thread by thread when the last one is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from taupy.formats import chrome_values as values
from taupy.formats.chrome_frames import StackFrames
from taupy.formats.chrome_gpu import GpuSlices
from taupy.formats.chrome_header import describe
from taupy.formats.gpu_records import NOWHERE, root_timer
from taupy.formats.json_events import Events
from taupy.formats.launchers import Launchers
from taupy.formats.progress import Progress
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.slices import LONGEST_NS, Timeline, overlaps
from taupy.model.profile import Profile, Thread, ThreadProfile, Timer, UserEvent
from taupy.model.streams import Owner

_BEGIN: Final = -1
_END: Final = -2
_MARK: Final = -3
"""In place of a duration: a begin, an end, or the foot of an arrow to the GPU."""

_CODE_BITS: Final = 40
_FRAMES: Final = -2
"""Codes from here down are rows of the tree of stack frames."""

_BLOCK: Final = 1 << 16

_NO_FRAMES: Final = array("q", [-1])

ThreadKey = tuple[Hashable, Hashable]


class _Slices:
    """What was traced on one thread, in the order of the file."""

    __slots__ = ("duration", "frame", "has_pairs", "link", "number", "start", "timer")

    def __init__(self, number: int) -> None:
        self.number = number
        self.start = array("q")
        self.duration = array("q")
        self.timer = array("i")
        self.link = array("q")  # 2 * correlation + 1, 2 * External id, -1 for neither
        self.frame = array("q")  # of the slices up to the last one that has a frame
        self.has_pairs = False

    def append(self, start: int, duration: int, timer: int, link: int, frame: int) -> None:
        self.start.append(start)
        self.duration.append(duration)
        self.timer.append(timer)
        self.link.append(link)
        if frame >= 0:
            self.frame.extend([-1] * (len(self.start) - 1 - len(self.frame)))
            self.frame.append(frame)

    def frame_of(self, at: int) -> int:
        return self.frame[at] if at < len(self.frame) else -1


class _Statistics:
    """Values of one counter."""

    __slots__ = ("count", "largest", "smallest", "squares", "total")

    def __init__(self) -> None:
        self.count = 0
        self.smallest, self.largest = float("inf"), float("-inf")
        self.total = self.squares = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)
        self.total += value
        self.squares += value * value

    def event(self, name: str, unit: str) -> UserEvent:
        mean = self.total / self.count
        return UserEvent(name, unit, self.count, self.smallest, self.largest, mean, self.squares)


class TraceReader:
    """Takes events, gives a profile."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.timers: list[Timer] = [root_timer()]
        self._timer_places: dict[Timer, int] = {}
        self._places: dict[tuple[str, str], int] = {}
        self._threads: dict[ThreadKey, _Slices] = {}
        self.gpu = GpuSlices()
        self._asynchronous: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        self._counters: dict[ThreadKey, dict[tuple[str, str], _Statistics]] = {}
        self.process_facts: dict[Hashable, dict[str, str]] = {}
        self._thread_names: dict[ThreadKey, str] = {}
        self._left_out: dict[str, int] = {}
        self._whole_microseconds = True

    @property
    def anything(self) -> bool:
        """Was there a slice, a piece of GPU work or a counter?"""
        slices = any(len(one.start) for one in self._threads.values())
        return slices or bool(len(self.gpu)) or bool(self._counters)

    def add(self, event: dict[str, Any]) -> None:
        """Take one event. What has no kind or no time is counted and left out."""
        kind = event.get("ph")
        if kind == "X":
            self._slice(event)
        elif kind == "B" or kind == "E":
            self._half(event, kind)
        elif kind == "C":
            self._counter(event)
        elif kind == "M":
            self._name_of(event)
        elif kind in ("b", "e", "S", "F"):
            self._asynchronous_half(event, kind in ("b", "S"))
        elif kind == "s" or kind == "f":
            if event.get("cat") in ("ac2g", "async_gpu", "async_cpu_to_gpu"):
                self._arrow(event, kind)
        elif kind in ("i", "I", "n", "R"):
            self._instant(event)
        elif kind is None:
            self._leave_out("events without ph")
        elif kind not in ("t", "P", "N", "O", "D", "v", "V", "c", "(", ")", "T", "p"):
            self._leave_out(f"events of the unknown kind ph={str(kind)[:20]!r}")
        elif kind in ("P", "T", "p"):
            self._leave_out(f"events of the kind ph={kind!r}")

    def _slice(self, event: dict[str, Any]) -> None:
        start = self._time(event.get("ts"))
        duration = self._time(event.get("dur", 0))
        if start is None or duration is None:
            self._leave_out("slices without a time")
            return
        if not 0 <= duration < LONGEST_NS:
            self._leave_out("slices that end before they begin")
            return
        category = event.get("cat")
        category = category if isinstance(category, str) else ""
        name = event.get("name")
        name = name if isinstance(name, str) else "(unnamed)"
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        gpu = values.GPU_CATEGORIES.get(category.lower())
        if gpu == "sync":
            self.gpu.add_wait(name, duration, args)
            return
        if gpu is not None:
            self.gpu.add(event, name, gpu, start, duration, args)
            return
        if category.lower() in values.LEFT_OUT:
            self._leave_out(f"slices of the category {category}")
            return
        link = -1
        if args:
            number = values.integer(args.get("correlation"))
            if number is not None and category.lower() in values.API_CATEGORIES:
                link = 2 * number + 1
            elif (number := values.integer(args.get("External id"))) is not None:
                link = 2 * number
        self._append(event, start, duration, self._place(name, category), link)

    def _half(self, event: dict[str, Any], kind: str) -> None:
        moment = self._time(event.get("ts"))
        if moment is None:
            self._leave_out("slices without a time")
            return
        name, category = event.get("name"), event.get("cat")
        place = self._place(
            name if isinstance(name, str) else "(unnamed)",
            category if isinstance(category, str) else "",
        )
        slices = self._append(event, moment, _BEGIN if kind == "B" else _END, place, -1)
        if slices is not None:
            slices.has_pairs = True

    def _asynchronous_half(self, event: dict[str, Any], begins: bool) -> None:
        """Asynchronous slices lie on no thread; each category of a process is drawn as one."""
        moment = self._time(event.get("ts"))
        category = str(event.get("cat", ""))[:1000]
        name = event.get("name")
        id = event.get("id", event.get("id2"))
        key = (str(event.get("pid")), category, str(id))
        if moment is None:
            self._leave_out("slices without a time")
        elif begins:
            place = self._place(name if isinstance(name, str) else "(unnamed)", category)
            self._asynchronous.setdefault(key, []).append((moment, place))
        else:
            open_ones = self._asynchronous.get(key)
            if not open_ones:
                self._leave_out("ends without a begin")
                return
            start, place = open_ones.pop()
            if 0 <= moment - start < LONGEST_NS:
                on = {"pid": event.get("pid"), "tid": f"asynchronous {category}".strip()}
                self._append(on, start, moment - start, place, -1)
            else:
                self._leave_out("slices that end before they begin")

    def _arrow(self, event: dict[str, Any], kind: str) -> None:
        moment, number = self._time(event.get("ts")), values.integer(event.get("id"))
        if moment is None or number is None:
            return
        if kind == "f":
            self.gpu.head(event, moment, number)
        else:
            self._append(event, moment, _MARK, 0, number)

    def _counter(self, event: dict[str, Any]) -> None:
        args, name = event.get("args"), str(event.get("name", ""))[: values.LONGEST_NAME]
        if not isinstance(args, dict):
            self._leave_out("counters without a value")
            return
        for series, value in args.items():
            number = values.real(value)
            if number is None:
                self._leave_out("counters without a value")
                continue
            title = name if series in (name, "value", "") or not name else f"{name}: {series}"
            self._count((event.get("pid"), None), title, "", number)

    def _instant(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if event.get("name") != "[memory]" or not isinstance(args, dict):
            self._leave_out("instants")
            return
        device = "CPU" if args.get("Device Type") == 0 else f"device {args.get('Device Id')}"
        key = (event.get("pid"), event.get("tid"))
        for series in ("Bytes", "Total Allocated", "Total Reserved"):
            number = values.real(args.get(series))
            if number is None:
                continue
            if series == "Bytes":
                series = "Bytes allocated" if number >= 0 else "Bytes freed"
            self._count(key, f"{series} ({device})", "bytes", abs(number))

    def _count(self, key: tuple[Any, Any], title: str, unit: str, number: float) -> None:
        if not _hashable(*key):
            self._leave_out("counters without a place")
            return
        counters = self._counters.setdefault(key, {})
        counters.setdefault((title, unit), _Statistics()).add(number)

    def _name_of(self, event: dict[str, Any]) -> None:
        args, what = event.get("args"), event.get("name")
        pid, tid = event.get("pid"), event.get("tid")
        if not isinstance(args, dict) or not _hashable(pid, tid):
            return
        if what == "process_name":
            self.process_facts.setdefault(pid, {})["Process Name"] = str(args.get("name"))[:1000]
        elif what == "process_labels":
            self.process_facts.setdefault(pid, {})["Process Labels"] = str(args.get("labels"))[
                :1000
            ]
        elif what == "thread_name":
            self._thread_names[pid, tid] = str(args.get("name"))[:1000]

    def _append(
        self, event: dict[str, Any], start: int, duration: int, timer: int, link: int
    ) -> _Slices | None:
        key = (event.get("pid"), event.get("tid"))
        try:
            slices = self._threads.get(key)
        except TypeError:
            self._leave_out("slices without a place")
            return None
        if slices is None:
            slices = self._threads[key] = _Slices(len(self._threads))
        frame = values.integer(event["sf"]) if "sf" in event else None
        slices.append(start, duration, timer, link, -1 if frame is None else frame)
        return slices

    def _time(self, value: Any) -> int | None:
        if type(value) is int and -(1 << 50) < value < 1 << 50:
            return value * 1000
        found = values.nanoseconds(value)
        if found is not None and found % 1000:
            self._whole_microseconds = False
        return found

    def _place(self, name: str, category: str) -> int:
        place = self._places.get((name, category))
        if place is None:
            place = self._places[name, category] = self.timer_place(
                values.host_timer(name, category)
            )
        return place

    def timer_place(self, timer: Timer) -> int:
        """The place of a timer, a new one for one that was not seen before."""
        place = self._timer_places.get(timer)
        if place is None:
            place = self._timer_places[timer] = len(self.timers)
            self.timers.append(timer)
        return place

    def _leave_out(self, what: str) -> None:
        if what in self._left_out or len(self._left_out) < 50:
            self._left_out[what] = self._left_out.get(what, 0) + 1

    # Everything is there: the profile is made.

    def profile(self, path: Path, events: Events, progress: Progress) -> Profile:
        header = describe(events.header, path)
        frames = StackFrames(events.header.get("stackFrames"), self.timer_place)
        slack_ns = 1000 if self._whole_microseconds else 2
        host = _Host(self, progress, slack_ns, header.rank or 0, frames)
        threads = host.threads(self._thread_names)
        for code, event in self.gpu.waits(host).events():
            host.add_event(threads, code, event)
        threads += self.gpu.threads(self.timers, host, header.base_ns or 0)
        self._attach_counters(threads, host)
        notes = self._notes(events, host)
        metadata = dict(header.metadata)
        if notes:
            metadata[IMPORT_NOTES] = "\n".join(notes)
        spans = [span for span in (host.span, self.gpu.span) if span is not None]
        begin = min((one for one, _ in spans), default=0)
        end = max((one for _, one in spans), default=0)
        base = header.base_ns
        return Profile(
            uuid="",
            application=header.application,
            experiment="default",
            started_at=(path.stat().st_mtime if base is None else (base + begin) // 1000 / 1e6),
            duration_ns=end - begin,
            timers=self.timers,
            threads=sorted(threads, key=lambda one: one.thread),
            state="incomplete" if events.cut_off else "complete",
            source="chrome",
            metadata=metadata,
            node_metadata=host.node_metadata(),
            devices=header.devices(self.gpu.used),
        )

    def _attach_counters(self, threads: list[ThreadProfile], host: _Host) -> None:
        by_place = {one.thread: one for one in threads}
        for key, counters in self._counters.items():
            place = host.place_of(key)
            measured = by_place.get(place) if place is not None else None
            if measured is None:
                measured = host.bare_thread(key)
                by_place[measured.thread] = measured
                threads.append(measured)
            measured.user_events += [
                one.event(title, unit) for (title, unit), one in sorted(counters.items())
            ]

    def _notes(self, events: Events, host: _Host) -> list[str]:
        notes = []
        if events.cut_off:
            notes.append(f"the file is cut off ({events.cut_off}): the trial is incomplete")
        if events.broken:
            notes.append(f"{events.broken} events cannot be read (first {events.first_broken})")
        if events.mended:
            notes.append(f"{events.mended} events were no valid JSON and have been mended")
        if events.not_utf8:
            notes.append("some bytes are no UTF-8 and were replaced")
        notes += [f"left out: {count} {what}" for what, count in sorted(self._left_out.items())]
        open_ones = sum(map(len, self._asynchronous.values()))
        if open_ones:
            notes.append(f"left out: {open_ones} asynchronous slices without an end")
        return notes + host.notes + self.gpu.notes


def _hashable(*parts: Any) -> bool:
    try:
        hash(parts)
    except TypeError:
        return False
    return True


class _Host:
    """Host threads made of slices."""

    def __init__(
        self,
        reader: TraceReader,
        progress: Progress,
        slack_ns: int,
        first_node: int,
        frames: StackFrames,
    ) -> None:
        self._first_node = first_node
        self._frames = frames
        self.notes: list[str] = []
        self.span: tuple[int, int] | None = None
        self.codes = Launchers()
        self.operators: dict[int, int] = {}
        self.arrows: dict[int, int] = {}
        self._reader = reader
        self._slack_ns = slack_ns
        self._unended = self._unbegun = 0
        self._launching: set[Hashable] = set()
        self._places: dict[tuple[Hashable, Hashable], Thread] = {}
        self._numbers: dict[int, int] = {}
        self.nodes: dict[Hashable, int] = {}
        self._timelines: list[Timeline] = []
        self._keys: list[ThreadKey] = []
        threads = reader._threads
        wanted = reader.gpu.wanted_operators()
        marks = reader.gpu.needs_arrows
        progress.begin("call paths", sum(len(one.start) for one in threads.values()))
        began = {key: min(one.start) for key, one in threads.items() if len(one.start)}
        for key in sorted(began, key=lambda one: (not _is_main(one), began[one])):
            slices = threads.pop(key)
            self._read(key, slices, wanted, marks, progress)
        if self._unended:
            self.notes.append(
                f"{self._unended} begun slices have no end; they end with their thread"
            )
        if len(self._launching) > 1 and len(reader.gpu):
            self.notes.append(
                f"{len(self._launching)} processes launch GPU work; where they use the same "
                "correlation, the later process is taken as its owner"
            )
        if self._unbegun:
            self.notes.append(f"left out: {self._unbegun} ends without a begin")

    def owner(self, code: int) -> Owner:
        if code <= _FRAMES:
            return self._frames.owner(_FRAMES - code)
        return self._timelines[code >> _CODE_BITS].owner(code & ((1 << _CODE_BITS) - 1))

    def code_of_frame(self, frame: int) -> int:
        row = self._frames.owner_row(frame)
        return NOWHERE if row is None else _FRAMES - row

    def node(self, pid: Hashable) -> int:
        return self.nodes.setdefault(pid, self._first_node + len(self.nodes))

    def home(self) -> int:
        """The node of work that nobody launched: the first process."""
        return self.node(self._keys[0][0] if self._keys else None)

    def node_of_code(self, code: int) -> int:
        return self.home() if code <= _FRAMES else self.node(self._keys[code >> _CODE_BITS][0])

    def _read(
        self, key: ThreadKey, slices: _Slices, wanted: set[int], marks: bool, progress: Progress
    ) -> None:
        timeline = Timeline(0, self._slack_ns)
        base = len(self._timelines) << _CODE_BITS
        number = 0
        launching = False
        first, last = None, 0
        place, codes, operators = timeline.place, self.codes, self.operators
        stacks = self._frames.of
        for start, duration, timer, link, frame in self._ordered(slices):
            number += 1
            if duration == _MARK:
                if marks:
                    self.arrows[link] = base | timeline.here(start)
                continue
            end = start + duration
            code = (
                place(start, end, timer) if frame < 0 else place(start, end, timer, stacks(frame))
            )
            if link >= 0:
                if link & 1:
                    launching = True
                    codes.note(0, link >> 1, base | code)
                elif wanted and link >> 1 in wanted:
                    operators[link >> 1] = base | code
            first = start if first is None else first
            last = max(last, end)
            if not number & 0x3FFF:
                progress.advance(0x4000)
        if launching:
            self._launching.add(key[0])
        if first is None:
            return
        self._timelines.append(timeline)
        self._keys.append(key)
        timeline.finish()
        self.notes += overlaps(timeline)
        span = self.span or (first, last)
        self.span = (min(span[0], first), max(span[1], last))

    def _ordered(self, slices: _Slices) -> Iterator[tuple[int, int, int, int, int]]:
        """Slices in order of start, the longest first; pairs of begin and end made one."""
        import numpy

        if slices.has_pairs:
            self._join_pairs(slices)
        start = numpy.frombuffer(slices.start, dtype=numpy.int64)
        duration = numpy.frombuffer(slices.duration, dtype=numpy.int64)
        timer = numpy.frombuffer(slices.timer, dtype=numpy.int32)
        link = numpy.frombuffer(slices.link, dtype=numpy.int64)
        order = numpy.lexsort((-duration, start))
        if slices.frame:
            slices.frame.extend([-1] * (len(start) - len(slices.frame)))
        frame = numpy.frombuffer(slices.frame or _NO_FRAMES, dtype=numpy.int64)
        no_frames = repeat(-1)
        for at in range(0, len(order), _BLOCK):
            block = order[at : at + _BLOCK]
            yield from zip(
                start[block].tolist(),
                duration[block].tolist(),
                timer[block].tolist(),
                link[block].tolist(),
                frame[block].tolist() if slices.frame else no_frames,
                strict=False,
            )

    def _join_pairs(self, slices: _Slices) -> None:
        """Each end closes the begin before it, as a stack; in order of time, then of the file."""
        import numpy

        start = numpy.frombuffer(slices.start, dtype=numpy.int64)
        halves = numpy.frombuffer(slices.duration, dtype=numpy.int64)
        which = numpy.flatnonzero((halves == _BEGIN) | (halves == _END))
        order = which[numpy.argsort(start[which], kind="stable")].tolist()
        last = int((start + numpy.maximum(halves, 0)).max())
        del start, halves  # they hold the columns fast
        joined = _Slices(slices.number)
        open_ones: list[int] = []
        for at in order:
            if slices.duration[at] == _BEGIN:
                open_ones.append(at)
            elif open_ones:
                self._join(slices, joined, open_ones.pop(), slices.start[at])
            else:
                self._unbegun += 1
        self._unended += len(open_ones)
        for at in reversed(open_ones):
            self._join(slices, joined, at, last)
        for at in range(len(slices.start)):
            if slices.duration[at] not in (_BEGIN, _END):
                joined.append(
                    slices.start[at],
                    slices.duration[at],
                    slices.timer[at],
                    slices.link[at],
                    slices.frame_of(at),
                )
        slices.start, slices.duration = joined.start, joined.duration
        slices.timer, slices.link, slices.frame = joined.timer, joined.link, joined.frame

    @staticmethod
    def _join(slices: _Slices, joined: _Slices, at: int, end: int) -> None:
        start = slices.start[at]
        duration = min(end - start, LONGEST_NS)
        joined.append(start, duration, slices.timer[at], -1, slices.frame_of(at))

    def threads(self, names: dict[ThreadKey, str]) -> list[ThreadProfile]:
        found: list[ThreadProfile] = []
        for key, timeline in zip(self._keys, self._timelines, strict=True):
            thread = self._places[key] = self._new_thread(key, names)
            self._places.setdefault((key[0], None), thread)
            found.append(ThreadProfile(thread, timeline.tree))
        return found

    def add_event(self, threads: list[ThreadProfile], code: int, event: UserEvent) -> None:
        """Give a user event to the call at its code; `threads` are those that were made here."""
        row = code & ((1 << _CODE_BITS) - 1)
        threads[code >> _CODE_BITS].user_events.append(replace(event, row=row))

    def _new_thread(self, key: ThreadKey, names: dict[ThreadKey, str]) -> Thread:
        node = self.node(key[0])
        number = self._numbers.get(node, 0)
        self._numbers[node] = number + 1
        native = key[1] if isinstance(key[1], int) and 0 <= key[1] < 1 << 62 else 0
        name = names.get(key) or ("" if native else str(key[1] or "")[:1000])
        return Thread(node, 0, number, "host", name, native)

    def place_of(self, key: tuple[Hashable, Hashable]) -> Thread | None:
        return self._places.get(key) or self._places.get((key[0], None))

    def bare_thread(self, key: ThreadKey) -> ThreadProfile:
        """A thread of a process that only counted."""
        timeline = Timeline(0)
        timeline.finish()
        thread = self._places[key[0], None] = self._new_thread(key, {})
        return ThreadProfile(thread, timeline.tree)

    def node_metadata(self) -> dict[int, dict[str, str]]:
        found = {}
        for pid, node in self.nodes.items():
            facts = {"PID": str(pid)[:1000]} if pid is not None else {}
            found[node] = facts | self._reader.process_facts.get(pid, {})
        return found


def _is_main(key: ThreadKey) -> bool:
    return key[0] == key[1] and isinstance(key[0], int)
