"""The critical path of a step: what its length consists of, and what less of each gains at most.

A step is replayed by what is known to order it. The host's threads make their calls in the order of
time; work begins after its launch, and after the work before it on its stream; a call that waits
returns after the work that ended last before it did; work after an event, unless its own stream
kept it, waits for the work that ended last on another stream. Time that none of this explains is
kept: the delay of launches, gaps between works, the return of waits. So the replay takes what was
measured, to the difference that `Path` names, and from its end the path leads back to the begin of
the step. Work of earlier steps stays where it was in time.

**The bounds** hold for the own time of a place, which is an operator, a routine or a kernel without
either: without it, what is left of the path still has to be done one after the other, so the step
is no shorter. To be safe, a bound includes

- time on the path that nothing explains, also of other places: it may go, too;
- what other threads did in the same place while the path was on the host;
- of a place that made the host or a stream wait, all that the rest may then do at once: only what
  one stream, or a lone thread, did besides is left.

Nothing here reads a profile: `gpu_idle.py` says what was called and what ran.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from taupy.model.gpu_path import EARLIER, UNEXPLAINED, Kind, Part, Path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

LAUNCH_NS = 5_000
"""A launch takes no less on any GPU of today, unless one of the step did."""

_SHORT_NS = 10_000
"""A work that begins so soon after what came before it on its stream waited for no other stream."""


class Call(NamedTuple):
    """A call of the API that launches work, waits for the GPU, or makes a stream wait.

    Attributes:
        thread: position in `Program.threads`.
        works: positions in `Program.works`.
        joins: whether it makes a stream wait for an event.
    """

    begin: int
    end: int
    thread: int
    place: str
    works: tuple[int, ...] = ()
    waits: bool = False
    joins: bool = False


class Work(NamedTuple):
    """A kernel or copy. `is_earlier`: it was not launched in the step, as far as is known."""

    begin: int
    end: int
    stream: int
    kind: Kind
    place: str
    is_earlier: bool = False


@dataclass(frozen=True)
class Pieces:
    """What a host thread did: its innermost routines, in the order of time.

    Attributes:
        place: of each piece, a position in `names`.
    """

    begin: Column
    end: Column
    place: Column
    names: Sequence[str]

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, str]]) -> Pieces:
        import numpy as np

        rows = list(pieces)
        names = {name: number for number, name in enumerate(dict.fromkeys(row[2] for row in rows))}
        numbers = [(begin, end, names[name]) for begin, end, name in rows]
        begin, end, place = np.array(numbers, dtype=np.int64).reshape(-1, 3).T
        return cls(begin, end, place, list(names))

    def times(self, begins: Column, ends: Column) -> Counter[str]:
        """How long it was in each place during these periods; "" where nothing is known of it."""
        import numpy as np

        first, last = self.end.searchsorted(begins, "right"), self.begin.searchsorted(ends)
        number = np.maximum(last - first, 0)
        which = np.repeat(np.arange(len(begins)), number)
        piece = first[which] + np.arange(len(which)) - (np.cumsum(number) - number)[which]
        ns = np.minimum(self.end[piece], ends[which]) - np.maximum(self.begin[piece], begins[which])
        order = np.argsort(self.place[piece], kind="stable")
        places, start = np.unique(self.place[piece][order], return_index=True)
        sums = np.add.reduceat(ns[order], start) if len(start) else ns
        pairs = zip(places.tolist(), sums.tolist(), strict=True)
        times = Counter({self.names[place]: took for place, took in pairs})
        times[""] += int((ends - begins).sum()) - times.total()
        return times


@dataclass(frozen=True)
class Program:
    """What happened in a step, for one device; times in one clock [ns].

    Attributes:
        calls: by begin.
        works: by begin.
        threads: what each host thread did.
    """

    begin: int
    end: int
    calls: Sequence[Call]
    works: Sequence[Work]
    threads: Sequence[Pieces]


class _Point(NamedTuple):
    """A moment of the replay, and the piece that led to it.

    Attributes:
        at: nanoseconds since the step's begin.
        since: when the piece began, as measured; -1 if it was not on the host.
        orders: the places of the calls that may have made what follows wait.
        thread: whose routines are the places; -1 if `place` is the place.
    """

    at: int
    before: _Point | None
    kind: Kind
    place: str
    ns: int
    since: int = -1
    orders: Sequence[str] = ()
    thread: int = -1


def critical_path(program: Program, step: str = "") -> Path:
    """The path of a step.

    Args:
        step: its name.
    """
    return _Replay(program).path(step)


class _Replay:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.host = _Point(0, None, "host", "", 0)
        self.measured = program.begin  # the host has been replayed until then
        self.last: dict[int, tuple[_Point, Work]] = {}  # of each stream
        self.ends: list[int] = []  # of works done, ascending
        self.done: list[tuple[_Point, Work]] = []  # these works
        self.joins: list[str] = []  # places of calls that made a stream wait
        self.seen: dict[int, int] = {}  # stream -> how many before its last launch
        self.early: dict[int, deque[Work]] = defaultdict(deque)
        for work in program.works:
            if work.is_earlier and work.end > program.begin:
                self.early[work.stream].append(work)
        late = (program.works[at].begin - call.begin for call in program.calls for at in call.works)
        self.floor = min([LAUNCH_NS, *(ns for ns in late if ns > 0)])

    def path(self, step: str) -> Path:
        program = self.program
        for call in program.calls:
            self._run_host(call.begin, call.thread)
            for at in call.works:
                self._run_work(program.works[at], call)
            if call.joins:
                self.joins.append(call.place)
            if call.waits:
                self._wait(call)
        self._run_host(program.end, program.calls[-1].thread if program.calls else 0)
        ends = [self.host, *(point for point, _ in self.last.values())]
        end = max(ends, key=lambda point: point.at)
        points = []
        point: _Point | None = end
        while point is not None:
            points.append(point)
            point = point.before
        works = (work.end for work in program.works if not work.is_earlier)
        measured = max([program.end, *works]) - program.begin
        return Path(step, measured, end.at, self._parts(points[::-1], measured))

    def _run_host(self, until: int, thread: int) -> None:
        """Until the next call: what the thread did that makes it."""
        ns = until - self.measured
        if ns > 0:
            at = self.host.at + ns
            self.host = _Point(at, self.host, "host", "", ns, self.measured, thread=thread)
            self.measured = until

    def _run_work(self, work: Work, call: Call) -> None:
        stream = work.stream
        self._run_earlier(stream, work.begin)
        before = [self.last[stream]] if stream in self.last else []
        was = call.begin + self.floor
        if before and before[0][1].end > was:
            was = before[0][1].end
        seen, self.seen[stream] = self.seen.get(stream, 0), len(self.joins)
        if seen < len(self.joins) and work.begin - was > _SHORT_NS:
            for other_stream in [*self.early]:
                self._run_earlier(other_stream, work.begin)
            before += self._other_stream(work)
            was = max(was, *(earlier.end for _, earlier in before))
        extra = max(work.begin - was, 0)
        after = self.host
        kind: Kind = "launch"
        orders: Sequence[str] = ()
        ready = after.at + self.floor
        for point, other in before:
            if point.at > ready:
                after, kind, ready = point, "gap", point.at
                orders = self.joins[seen:] if other.stream != stream else ()
        if kind == "launch":
            extra += self.floor
        place = work.place
        took = work.end - work.begin
        point = _Point(after.at + extra, after, kind, place, extra, -1, orders)
        self._end(_Point(point.at + took, point, work.kind, place, took), work)

    def _run_earlier(self, stream: int, until: int) -> None:
        """Work of earlier steps is fixed in time."""
        early = self.early.get(stream)
        while early and early[0].begin < until:
            work = early.popleft()
            ns = work.end - self.program.begin
            start = _Point(0, None, "host", "", 0)
            self._end(_Point(ns, start, "earlier work", EARLIER, ns), work)

    def _end(self, point: _Point, work: Work) -> None:
        self.last[work.stream] = done = point, work
        at = bisect_right(self.ends, work.end)
        self.ends.insert(at, work.end)
        self.done.insert(at, done)

    def _other_stream(self, work: Work) -> list[tuple[_Point, Work]]:
        """The work that ended last on another stream before this one began."""
        for at in range(bisect_right(self.ends, work.begin) - 1, -1, -1):
            if self.done[at][1].stream != work.stream:
                return [self.done[at]]
        return []

    def _wait(self, call: Call) -> None:
        for stream in list(self.early):
            self._run_earlier(stream, call.end)
        at = bisect_right(self.ends, call.end)
        ended = self.ends[at - 1] if at else call.begin
        if ended <= call.begin:
            self._run_host(call.end, call.thread)
            return
        point, _ = self.done[at - 1]
        after = point if point.at > self.host.at else self.host
        ns = call.end - ended
        place = call.place
        self.host = _Point(after.at + ns, after, "wait", place, ns, ended, orders=(place,))
        self.measured = max(self.measured, call.end)

    # ------------------------------------------------------------------ bounds

    def _parts(self, points: Sequence[_Point], measured: int) -> tuple[Part, ...]:
        on_path: Counter[tuple[Kind, str]] = Counter()
        loose: Counter[str] = Counter()
        ordering = set()
        host: dict[int, list[tuple[int, int]]] = defaultdict(list)  # thread -> when on the path
        waits = []
        for _, _, kind, place, ns, since, orders, thread in points:
            if thread >= 0:
                host[thread].append((since, since + ns))
                continue
            on_path[kind, place] += ns
            if kind in UNEXPLAINED:
                loose[place] += ns
            for ordered in orders:
                ordering.add(ordered)
                on_path["wait", ordered] += 0
            if since >= 0:
                waits.append((since, since + ns, place))
        on_host: Counter[str] = Counter()
        for thread, periods in host.items():
            on_host.update(self.program.threads[thread].times(*_columns(periods)))
        for place, ns in on_host.items():
            on_path["host", place] += ns
        by_place: Counter[str] = Counter()
        for (_, place), ns in on_path.items():
            by_place[place] += ns
        if len(self.program.threads) > 1:
            for since, until, place in waits:
                on_host[place] += until - since
            periods = [*chain(*host.values()), *(wait[:2] for wait in waits)]
            by_place.update(self._of_other_threads(periods, on_host))
        parts = []
        all_loose = loose.total()
        for (kind, place), ns in on_path.items():
            bound = by_place[place] + all_loose - loose[place]
            if place in ordering:
                bound = max(bound, measured - self._least(place))
            if ns or place in ordering:
                parts.append(Part(kind, place, ns, min(bound, measured) if place else measured))
        return tuple(sorted(parts, key=lambda part: (-part.ns, part.kind, part.place)))

    def _of_other_threads(
        self, periods: Sequence[tuple[int, int]], own: Counter[str]
    ) -> Counter[str]:
        """How long other threads were in each place while the path was on the host.

        Args:
            own: how long the path was.
        """
        times: Counter[str] = Counter()
        for pieces in self.program.threads:
            times += pieces.times(*_columns(periods))
        return times - own

    def _least(self, place: str) -> int:
        """What the step takes at least without a place, whatever that orders."""
        streams, of_place = self._stream_sums
        least = max((ns - of_place[stream, place] for stream, ns in streams.items()), default=0)
        if len(self.program.threads) == 1:
            whole, own = self._thread_sums
            least = max(least, whole - own[place])
        return least

    @cached_property
    def _stream_sums(self) -> tuple[Counter[int], Counter[tuple[int, str]]]:
        """Time of the step's works by stream, and by stream and place."""
        streams: Counter[int] = Counter()
        of_place: Counter[tuple[int, str]] = Counter()
        for work in self.program.works:
            if not work.is_earlier:
                streams[work.stream] += work.end - work.begin
                of_place[work.stream, work.place] += work.end - work.begin
        return streams, of_place

    @cached_property
    def _thread_sums(self) -> tuple[int, Counter[str]]:
        """Time of the lone thread without waits, and its time by place."""
        pieces = self.program.threads[0]
        own = pieces.times(pieces.begin[:1], pieces.end[-1:])
        waits = sum(call.end - call.begin for call in self.program.calls if call.waits)
        return own.total() - own[""] - waits, own


def _columns(periods: Sequence[tuple[int, int]]) -> tuple[Column, Column]:
    import numpy as np

    begins, ends = np.array(periods, dtype=np.int64).reshape(-1, 2).T
    return begins, ends
