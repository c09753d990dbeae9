"""GPU slices of a Chrome trace: kept as numbers, then placed under the calls that launched them."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from taupy.analysis.gpu_idle import of_operator
from taupy.catalog.occupancy import fitted
from taupy.formats import limits
from taupy.formats.chrome import values
from taupy.formats.chrome.capture import Capture, Node
from taupy.formats.chrome.header import Header
from taupy.formats.gpu_records import (
    ALL_STREAMS,
    NOWHERE,
    StreamRecords,
    Waits,
    Work,
    copy_work,
    memset_work,
    stream_threads,
)
from taupy.formats.launchers import Launchers
from taupy.model.gpu import Configuration
from taupy.model.kinds import ActivityKind
from taupy.model.profile import Thread, ThreadProfile, Timer
from taupy.model.streams import Owner
from taupy.model.timers import Timers
from taupy.network.operators import is_graph_launch

_NONE: Final = -1
_ALL_STREAMS: Final = -1


class Host(Protocol):
    """The host calls that launched work."""

    codes: Launchers
    starts: Launchers
    operators: dict[int, int]
    arrows: dict[int, int]
    calls_of_arrows: dict[int, int]

    @property
    def is_shared(self) -> bool: ...

    def owner(self, code: int) -> Owner: ...

    def home(self, device: int | None = None) -> int: ...

    def note_launches(self, device: int, code: int, count: int) -> None: ...

    def code_of_frame(self, frame: int) -> int: ...

    def node_of_code(self, code: int) -> int: ...

    def below(self, code: int, timers: Sequence[int]) -> int: ...

    def timer_of(self, code: int) -> int: ...

    @property
    def has_inputs(self) -> bool: ...

    def ran(self, code: int, correlation: int, duration: int) -> None: ...


class GpuSlices:
    """All GPU slices of a trace."""

    def __init__(self) -> None:
        self._stream = array("q")  # device << 40 | stream + 1
        self._start = array("q")
        self._duration = array("q")
        self._work = array("i")
        self._correlation = array("q")
        self._operator = array("q")
        self._bytes = array("q")
        self._frame = array("q")
        self._wait_names = array("i")
        self._wait_ns = array("q")
        self._wait_correlation = array("q")
        self._wait_places: dict[str, int] = {}
        self._works: list[Work] = []
        self._places: dict[tuple[Any, ...], int] = {}
        self._heads: dict[tuple[int, int], int] = {}
        self._without_correlation = False
        self.used: set[tuple[int, int]] = set()
        self.streams: list[tuple[int, int]] = []  # node and device of each stream
        self.span: tuple[int, int] | None = None
        self.notes: list[str] = []
        self.linked: set[int] = set()  # External ids that others refer to
        self.calls: dict[Thread, Sequence[int]] = {}
        """Of streams with work whose operator is known and its call is not: see `called`."""

    def __len__(self) -> int:
        return len(self._start)

    def add(
        self,
        event: dict[str, Any],
        name: str,
        kind: ActivityKind,
        start: int,
        duration: int,
        args: dict[str, Any],
    ) -> None:
        """Keep one kernel, copy or memset."""
        device = values.integer(args.get("device", event.get("pid")))
        stream = values.integer(args.get("stream", event.get("tid")))
        correlation = values.integer(args.get("correlation"))
        operator = values.integer(args.get("External id", args.get("external id")))
        moved = values.integer(args.get("bytes", args.get("Bytes", args.get("size"))))
        config = _configured(kind, name, args)
        key = (name, kind, *config)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._works)
            self._works.append(_work(name, kind, config))
        self._stream.append(_stream_code(device, stream))
        self._start.append(start)
        self._duration.append(duration)
        self._work.append(place)
        self._correlation.append(_NONE if correlation is None else correlation)
        self._operator.append(_NONE if operator is None else operator)
        self._bytes.append(_NONE if moved is None or moved < 0 else min(moved, 1 << 50))
        frame = values.integer(event.get("sf"))
        self._frame.append(_NONE if frame is None or frame < 0 else frame)
        if correlation is None:
            self._without_correlation = True

    def add_wait(self, name: str, duration: int, args: dict[str, Any]) -> None:
        """Keep one wait for the GPU; it is not GPU work."""
        correlation = values.integer(args.get("correlation"))
        self._wait_names.append(self._wait_places.setdefault(name, len(self._wait_places)))
        self._wait_ns.append(duration)
        self._wait_correlation.append(_NONE if correlation is None else correlation)

    def waits(self, host: Host) -> Waits:
        """The waits, by the calls that waited."""
        waits = Waits()
        names = list(self._wait_places)
        columns = zip(self._wait_names, self._wait_ns, self._wait_correlation, strict=True)
        for name, duration, correlation in columns:
            code = NOWHERE if correlation == _NONE else self._called(correlation, host)
            waits.add(code, names[name], duration)
        self.notes += waits.notes()
        return waits

    def head(self, event: dict[str, Any], moment: int, number: int) -> None:
        """Note that an arrow from the host ends at the slice that begins at this moment."""
        device, stream = values.integer(event.get("pid")), values.integer(event.get("tid"))
        self._heads[_stream_code(device, stream), moment] = number

    @property
    def lacks_calls(self) -> bool:
        """Whether arrows may have to tell the calls, as far as is known."""
        return self._without_correlation or not len(self)

    @property
    def needs_arrows(self) -> bool:
        return self._without_correlation and bool(self._heads)

    def wanted_operators(self) -> set[int]:
        """External ids of GPU slices, and of others that are looked up by them."""
        return (set(self._operator) | self.linked) - {_NONE}

    def threads(
        self, timers: list[Timer], host: Host, header: Header, capture: Capture | None = None
    ) -> list[ThreadProfile]:
        """A thread for each stream of each device of each process.

        Args:
            capture: of a graph that is launched in the trace.

        Raises:
            FormatError: it is of another graph.
        """
        if not len(self):
            return []
        ends = map(int.__add__, self._start, self._duration)
        # Work that was not timed (0 and 0) is not at time 0.
        timed = [span for span in zip(self._start, ends, strict=True) if span != (0, 0)]
        if timed:
            self.span = min(start for start, _ in timed), max(end for _, end in timed)
        calls = self._correlation[:]
        codes = array("q", [self._launcher(at, host, calls) for at in range(len(self))])
        by_operator = calls != self._correlation
        if host.is_shared:
            self._tell_processes_apart(codes, host)
        lost = sum(1 for code in codes if code == NOWHERE)
        if lost:
            self.notes.append(f"GPU activities without a launching call: {lost}")
        launches = Counter(zip(codes, self._stream, strict=True))
        for (code, stream), count in launches.items():
            if code != NOWHERE:
                host.note_launches(stream >> 40, code, count)
        if capture is not None:
            self._adopt(capture, codes, timers, host)
        home = {device: host.home(device) for device in {code >> 40 for code in self._stream}}
        streams = self._streams(codes, host, home, header.base_ns or 0)
        capability = {device: header.compute_capability(device) for device in home}
        places: dict[tuple[int, int, int], tuple[StreamRecords, int]] = {}
        columns = zip(self._stream, self._start, self._duration, self._work, calls,
                      self._bytes, codes, strict=True)  # fmt: skip
        has_inputs = host.has_inputs
        for stream, start, duration, work, call, moved, code in columns:
            key = (stream, code, work)
            target = places.get(key)
            if target is None:
                node = host.node_of_code(code) if code != NOWHERE else home[stream >> 40]
                records = streams[node, stream]
                launched = self._works[work]
                fits = fitted(launched.configuration, capability[stream >> 40])
                place = records.place(code, launched._replace(configuration=fits))
                target = places[key] = records, place
            records, place = target
            records.add(place, start, start + duration, call, moved)
            if has_inputs and code >= 0:
                host.ran(code, call, duration)
        if by_operator:
            self.calls = {of.thread: of.stamps.correlation for of in streams.values()}
        return stream_threads(timers, list(streams.values()), host.owner, self.notes)

    def _launcher(self, at: int, host: Host, calls: array[int]) -> int:
        """The call that launched a slice: by correlation, operator or arrow.

        Args:
            calls: number of the call of each slice; set, if its operator or arrow tells it.
        """
        code = NOWHERE
        if self._correlation[at] != _NONE:
            code = self._called(self._correlation[at], host)
            if code == NOWHERE and len(host.codes.of_all(self._correlation[at])) > 1:
                return NOWHERE  # `_tell_processes_apart` looks at them together
        operator = self._operator[at]
        if code == NOWHERE and operator not in (_NONE, self._correlation[at]):
            # An External id that equals the correlation repeats it, and is no operator's.
            code = host.operators.get(operator, NOWHERE)
            if code != NOWHERE:
                calls[at] = of_operator(operator)
        if code == NOWHERE and self._heads:
            arrow = self._heads.get((self._stream[at], self._start[at]))
            if arrow is not None:
                code = host.arrows.get(arrow, NOWHERE)
                calls[at] = host.calls_of_arrows.get(arrow, _NONE)
        if code == NOWHERE and self._frame[at] != _NONE:
            code = host.code_of_frame(self._frame[at])
        return code

    @staticmethod
    def _called(correlation: int, host: Host) -> int:
        """The call with this id, if only one process has one."""
        if not host.is_shared:
            return host.codes.find(0, correlation)
        calls = host.codes.of_all(correlation)
        return calls[0][1] if len(calls) == 1 else NOWHERE

    def _tell_processes_apart(self, codes: array[int], host: Host) -> None:
        """Find the launches of slices with an id that calls of several processes have.

        Nothing begins before its launch. If each launch of an id but the first began after the
        previous one's slice, their order tells; it also tells which processes use a device.
        """
        users: dict[int, set[int]] = {}
        slices_of: dict[int, list[int]] = {}
        for at, correlation in enumerate(self._correlation):
            calls = [] if correlation == _NONE else host.codes.of_all(correlation)
            if len(calls) > 1:
                slices_of.setdefault(correlation, []).append(at)
            elif calls:
                users.setdefault(self._stream[at] >> 40, set()).add(calls[0][0])
        left: dict[int, list[int]] = {}
        for correlation, slices in slices_of.items():
            slices.sort(key=lambda at: self._start[at])
            calls = sorted(host.starts.of_all(correlation), key=lambda call: call[1])
            starts = [start for _, start in calls]
            if len(slices) != len(calls) or not all(
                start <= self._start[at] < later
                for at, start, later in zip(slices, starts, [*starts[1:], math.inf], strict=True)
            ):
                left[correlation] = slices
                continue
            for at, (process, _) in zip(slices, calls, strict=True):
                codes[at] = host.codes.find(process, correlation)
                users.setdefault(self._stream[at] >> 40, set()).add(process)
        unclear = 0
        for correlation, slices in left.items():
            calls = host.codes.of_all(correlation)
            for at in slices:
                among = users.get(self._stream[at] >> 40, set())
                theirs = [code for process, code in calls if process in among]
                codes[at] = theirs[0] if len(theirs) == 1 else NOWHERE
                unclear += len(theirs) != 1
        if unclear:
            self.notes.append(
                "GPU activities with a correlation id that calls of several processes have, so "
                f"that it is not known which one launched them: {unclear}"
            )

    def _adopt(self, capture: Capture, codes: array[int], timers: list[Timer], host: Host) -> None:
        """Place the work of launches of captured graphs below the operators of their nodes."""
        works_of: dict[tuple[int, int], list[int]] = {}
        for at in sorted(range(len(codes)), key=lambda at: self._start[at]):
            code = codes[at]
            if code >= 0 and is_graph_launch(timers[host.timer_of(code)].name):
                works_of.setdefault((code, self._correlation[at]), []).append(at)
        place = Timers(timers).place
        frames = [[tuple(map(place, node.operators)) for node in nodes] for nodes in capture.graphs]
        adopted = expected = 0
        for (code, _), works in works_of.items():
            graph = self._graph_of(capture, works, expected)
            if graph is not None:
                adopted, expected = adopted + 1, graph + 1
                for at, frames_of in zip(works, frames[graph], strict=True):
                    codes[at] = host.below(code, frames_of)
        if not adopted:
            raise capture.refusal({len(works) for works in works_of.values()})
        self.notes.append(
            f"launches of CUDA graphs with the operators of the capture: {adopted} of "
            f"{len(works_of)}"
        )

    def _graph_of(self, capture: Capture, works: Sequence[int], expected: int) -> int | None:
        """The captured graph whose nodes are these works, in order of their start.

        Args:
            expected: the graph to look at first: pieces of a model run in the order in which they
                were captured, and those of its layers are alike.
        """
        count = len(capture.graphs)
        order = (*range(expected, count), *range(expected))
        return next((at for at in order if self._are_of(capture.graphs[at], works)), None)

    def _are_of(self, nodes: Sequence[Node], works: Sequence[int]) -> bool:
        if len(works) != len(nodes):
            return False
        on_one_stream = len({self._stream[at] for at in works}) == 1
        for at, node in zip(works, nodes, strict=True):
            work = self._works[self._work[at]]
            if node.kernel is None:
                if not on_one_stream:
                    return False
            elif values.gpu_timer(node.kernel, work.kind).name != work.timer.name:
                return False
        return True

    def _streams(
        self, codes: array[int], host: Host, home: Mapping[int, int], base_ns: int
    ) -> dict[tuple[int, int], StreamRecords]:
        streams_of = {
            (home[stream >> 40] if code == NOWHERE else host.node_of_code(code), stream)
            for code, stream in dict.fromkeys(zip(codes, self._stream, strict=True))
        }
        streams = {}
        numbers: dict[tuple[int, int], int] = {}
        for node, code in sorted(streams_of):
            device, stream = code >> 40, (code & ((1 << 40) - 1)) - 1
            number = numbers.get((node, device), 0)
            numbers[node, device] = number + 1
            self.used.add((node, device))
            self.streams.append((node, device))
            wide = stream == _ALL_STREAMS
            name = ALL_STREAMS if wide else f"stream {stream}"
            thread = Thread(node, 1 + device, number, "stream", name, 0 if wide else stream)
            streams[node, code] = StreamRecords(thread, base_ns)
        return streams


def _stream_code(device: int | None, stream: int | None) -> int:
    device = max(0, min(device or 0, limits.DEVICES))
    if stream is None or not 0 <= stream < 0xFFFFFFFF:
        stream = _ALL_STREAMS
    return device << 40 | (stream + 1)


def _configured(kind: ActivityKind, name: str, args: dict[str, Any]) -> tuple[Any, ...]:
    """A kernel's grid, block, registers and bytes of shared memory; a copy's direction."""
    if kind == "copy":
        return (values.direction(name, args),)
    if kind != "kernel":
        return ()
    return (
        values.extent(args.get("grid")),
        values.extent(args.get("block")),
        values.integer(args.get("registers per thread")),
        values.integer(args.get("shared memory")),
    )


def _work(name: str, kind: ActivityKind, config: tuple[Any, ...]) -> Work:
    timer = values.gpu_timer(name, kind)
    if kind == "kernel":
        grid, block, registers, shared = config
        # The trace has the sum of static and dynamic shared memory only.
        configuration = Configuration(grid, block, registers, shared_dynamic_bytes=shared)
        return Work(timer, kind, configuration)
    if kind == "copy":
        (way,) = config
        if not name.startswith("Memcpy"):
            return copy_work(way)
        return Work(timer, kind, moves=copy_work(way).moves)
    if kind == "memset":
        return Work(timer, kind, moves=memset_work().moves)
    return Work(timer, kind)
