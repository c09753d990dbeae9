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

from bisect import bisect_right, insort
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from taupy.model.gpu_path import EARLIER, UNEXPLAINED, Kind, Part, Path

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
class Program:
    """What happened in a step, for one device; times in one clock [ns].

    Attributes:
        calls: by begin.
        works: by begin.
        threads: of each host thread, begin, end and place of its innermost routines, in order; none
            where nothing is known of it.
    """

    begin: int
    end: int
    calls: Sequence[Call]
    works: Sequence[Work]
    threads: Sequence[Sequence[tuple[int, int, str]]]


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
        self.done: list[tuple[int, int, _Point, Work]] = []  # by end
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

    def _pieces(self, thread: int, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        """All of this time; "" where nothing is known of the thread."""
        pieces = self.program.threads[thread] if self.program.threads else ()
        at = bisect_right(pieces, begin, key=lambda piece: piece[1])
        now = begin
        while now < end:
            since, until, place = pieces[at] if at < len(pieces) else (end, end, "")
            if since > now:
                yield now, min(since, end), ""
            if since < end:
                yield max(since, now), min(until, end), place
            now = until
            at += 1

    def _run_work(self, work: Work, call: Call) -> None:
        self._run_earlier(work.stream, work.begin)
        before = [self.last[work.stream]] if work.stream in self.last else []
        was = max([call.begin + self.floor, *(earlier.end for _, earlier in before)])
        joined = self.joins[self.seen.get(work.stream, 0) :]
        self.seen[work.stream] = len(self.joins)
        if joined and work.begin - was > _SHORT_NS:
            before += self._other_stream(work)
            was = max(was, *(earlier.end for _, earlier in before))
        extra = max(work.begin - was, 0)
        is_host = all(point.at <= self.host.at + self.floor for point, _ in before)
        orders: Sequence[str] = ()
        kind: Kind = "launch"
        if is_host:
            after = self.host
            extra += self.floor
        else:
            after, other = max(before, key=lambda pair: pair[0].at)
            kind = "gap"
            orders = joined if other.stream != work.stream else ()
        point = _Point(after.at + extra, after, kind, work.place, extra, orders=orders)
        took = work.end - work.begin
        self._end(_Point(point.at + took, point, work.kind, work.place, took), work)

    def _run_earlier(self, stream: int, until: int) -> None:
        """Work of earlier steps is fixed in time."""
        early = self.early[stream]
        start = _Point(0, None, "host", "", 0)
        while early and early[0].begin < until:
            work = early.popleft()
            ns = work.end - self.program.begin
            self._end(_Point(ns, start, "earlier work", EARLIER, ns), work)

    def _end(self, point: _Point, work: Work) -> None:
        self.last[work.stream] = point, work
        insort(self.done, (work.end, len(self.done), point, work), key=lambda done: done[:2])

    def _other_stream(self, work: Work) -> list[tuple[_Point, Work]]:
        """The work that ended last on another stream before this one began."""
        at = bisect_right(self.done, work.begin, key=lambda done: done[0])
        for _, _, point, other in reversed(self.done[:at]):
            if other.stream != work.stream:
                return [(point, other)]
        return []

    def _wait(self, call: Call) -> None:
        for stream in list(self.early):
            self._run_earlier(stream, call.end)
        at = bisect_right(self.done, call.end, key=lambda done: done[0])
        ended, _, point, _ = self.done[at - 1] if at else (call.begin, 0, self.host, None)
        if ended <= call.begin:
            self._run_host(call.end, call.thread)
            return
        after = point if point.at > self.host.at else self.host
        ns = call.end - ended
        place = call.place
        self.host = _Point(after.at + ns, after, "wait", place, ns, ended, orders=(place,))
        self.measured = max(self.measured, call.end)

    # ------------------------------------------------------------------ bounds

    def _parts(self, points: Sequence[_Point], measured: int) -> tuple[Part, ...]:
        on_path: Counter[tuple[Kind, str]] = Counter()
        by_place: Counter[str] = Counter()
        loose: Counter[str] = Counter()
        ordering = set()
        intervals = []
        for point in points:
            if point.thread >= 0:
                for begin, end, place in self._pieces(
                    point.thread, point.since, point.since + point.ns
                ):
                    on_path["host", place] += end - begin
                    by_place[place] += end - begin
                    intervals.append((begin, end, place))
                continue
            on_path[point.kind, point.place] += point.ns
            by_place[point.place] += point.ns
            loose[point.place] += point.ns if point.kind in UNEXPLAINED else 0
            for place in point.orders:
                ordering.add(place)
                on_path["wait", place] += 0
            if point.since >= 0:
                intervals.append((point.since, point.since + point.ns, point.place))
        if len(self.program.threads) > 1:
            by_place.update(self._of_other_threads(intervals))
        parts = []
        all_loose = loose.total()
        for (kind, place), ns in on_path.items():
            bound = by_place[place] + all_loose - loose[place]
            if place in ordering:
                bound = max(bound, measured - self._least(place))
            if ns or place in ordering:
                parts.append(Part(kind, place, ns, min(bound, measured) if place else measured))
        return tuple(sorted(parts, key=lambda part: (-part.ns, part.kind, part.place)))

    def _of_other_threads(self, intervals: Sequence[tuple[int, int, str]]) -> Counter[str]:
        """How long other threads were in each place while the path was on the host."""
        times: Counter[str] = Counter()
        for pieces in self.program.threads:
            at = 0
            for begin, end, _ in intervals:
                while at < len(pieces) and pieces[at][1] <= begin:
                    at += 1
                near = at
                while near < len(pieces) and pieces[near][0] < end:
                    since, until, place = pieces[near]
                    times[place] += min(until, end) - max(since, begin)
                    near += 1
        own: Counter[str] = Counter()
        for begin, end, place in intervals:
            own[place] += end - begin
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
        own: Counter[str] = Counter()
        for begin, end, place in self.program.threads[0]:
            own[place] += end - begin
        waits = sum(call.end - call.begin for call in self.program.calls if call.waits)
        return own.total() - own[""] - waits, own
