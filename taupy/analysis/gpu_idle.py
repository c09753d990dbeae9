"""Why a GPU was idle: the time between its works, divided among causes, without remainder.

A gap ends with a work W, which a call L on a host thread H launched. What the host did before L
explains the gap up to L; what remains until W began is the launch's. First match:

    no call is known for W                                    launch not seen
    W has the call of the work before it                      inside a graph
    L began before the gap, which takes less than 10 us       between kernels
    the gap's begin .. L's begin, by what H did, innermost    data loading, memory allocation,
      slice first                                               loading code
      - a call in progress as the gap began waited for the    synchronisation: until L, the queue
        GPU                                                     was empty because of that wait
      - else                                                  host, or nothing recorded
    .. L's end + 50 us                                        launch latency; long launch call, if
                                                                L took more than 1 ms
    the rest                                                  waits for an event, if H made the
                                                                stream wait since the last launch on
                                                                it; else queued, started late

Nothing here reads files or a database: a profile comes in, with slices of host threads if a reader
has them; metadata of its nodes goes out (`model/gpu_time.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from taupy.analysis.critical_path import LAUNCH_NS, Call, Pieces, Program, Work, critical_path
from taupy.catalog import gpu_calls
from taupy.model.gpu import Activity
from taupy.model.gpu_path import Kind, Path
from taupy.model.gpu_time import CAUSES, GAPS, OUTSIDE, PLACES, TIME, Cause, Gap, GpuTime, Idle
from taupy.model.kinds import ActivityKind
from taupy.model.profile import CallTree, Profile, Thread, ThreadProfile, Timer
from taupy.network.phases import kind_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

SHORT_NS = 10_000
"""A gap between queued works takes 1 to 2 us on an H100, in a graph less."""

LATENCY_NS = 50_000
"""A work that begins later after its launch was held up by something else."""

LONG_NS = 1_000_000
"""A launch that takes longer loads code, or waits for room in the queue."""

STEPS = 8
"""Steps whose critical paths are looked for, the last ones."""

MOST_WORKS = 20_000
"""Of these steps together, beyond the last one: a path takes some 40 us for each work."""

_WORK: tuple[ActivityKind, ...] = ("kernel", "copy", "memset")
_NONE = -1
_COMPUTE, _COMMUNICATION, _COPY = range(3)
_PATH_KINDS: tuple[Kind, ...] = ("kernel", "communication", "copy")
_PLACE = 200
_NEVER = 1 << 62


T = TypeVar("T", int, "Column")


def of_operator(id: T) -> T:
    """What stands for a correlation, where a work names the operator that launched it and not the
    call: when it was launched is known by the operator's begin and end only."""
    return -2 - id


@dataclass
class HostSlices:
    """What a host thread did: slices in order of their start, the longest first if equal.

    Attributes:
        row: of the thread's tree.
        correlation: of calls that launch work; of operators, see `of_operator`; else -1.
        calls_only: whether the times of routines between calls are not known.
    """

    begin: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    row: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    calls_only: bool = False

    def add(self, begin: int, end: int, row: int, correlation: int = _NONE) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.row.append(row)
        self.correlation.append(correlation)

    @classmethod
    def of(cls, activities: Iterable[Activity]) -> HostSlices:
        """From single calls, layers and phases."""
        slices = cls(calls_only=True)
        for row, kind, begin, end, correlation, *_ in activities:
            if kind in ("api", "sync", "range") and 0 < begin <= end:
                slices.add(begin, end, row, _NONE if correlation is None else correlation)
        return slices._sorted()

    def _sorted(self) -> HostSlices:
        import numpy as np

        begin, end = (np.frombuffer(column, dtype=np.int64) for column in (self.begin, self.end))
        order = np.lexsort((-end, begin))

        def ordered(column: array[int]) -> array[int]:
            return array("q", np.frombuffer(column, dtype=np.int64)[order].tobytes())

        columns = (self.begin, self.end, self.row, self.correlation)
        begins, ends, rows, correlations = map(ordered, columns)
        return HostSlices(begins, ends, rows, correlations, self.calls_only)


def note(
    profile: Profile,
    slices: Mapping[Thread, HostSlices] | None = None,
    pageable: Mapping[int, set[int]] | None = None,
    calls: Mapping[Thread, Sequence[int]] | None = None,
) -> None:
    """Add the times of each GPU to the metadata of its node, where all its work has times.

    Args:
        slices: of host threads; of others, single activities are taken.
        pageable: node -> correlations of copies from or to pageable memory, which their names do
            not tell.
        calls: of streams, the correlation of each activity; else that of the activity itself.
    """
    nodes = {measured.thread.node for measured in profile.threads if measured.launches}
    for node in sorted(nodes):
        threads = [measured for measured in profile.threads if measured.thread.node == node]
        streams = [measured for measured in threads if _is_stream(measured)]
        slow = (pageable or {}).get(node, set())
        work = {
            context: of_device
            for context in sorted({stream.thread.context for stream in streams})
            if (of_device := _work(profile, streams, context, slow, calls or {})) is not None
        }
        if not work:
            continue
        others = [measured for measured in threads if not _is_stream(measured)]
        hosts = [_host(profile, measured, slices or {}) for measured in others]
        of_node = _Node([host for host in hosts if len(host.slices.begin)], work)
        facts = profile.node_metadata.setdefault(node, {})
        steps = _last_steps(threads)
        for context in work:
            time = replace(of_node.time(context), paths=tuple(of_node.paths(context, steps)))
            facts[f"{TIME}{context}"] = time.text()


class _Window(NamedTuple):
    name: str
    begin: int
    end: int


def _last_steps(threads: Sequence[ThreadProfile]) -> list[_Window]:
    """Steps of the training, else of validation, from the last one back."""
    for kind in ("training", "validation"):
        for steps in (of_kind for measured in threads for of_kind in measured.steps):
            rows = [row for row, count in enumerate(steps.count) if count == 1]
            if steps.kind == kind and rows:
                return [
                    _Window(f"step {steps.number[row]}", steps.start_ns[row],
                            steps.start_ns[row] + steps.time_ns[row])
                    for row in reversed(rows)
                ]  # fmt: skip
    return []


def _is_stream(measured: ThreadProfile) -> bool:
    return measured.thread.kind == "stream"


def _host(profile: Profile, measured: ThreadProfile, slices: Mapping[Thread, HostSlices]) -> _Host:
    own = slices.get(measured.thread)
    if own is None:
        own = HostSlices.of(_readable(measured))
    return _Host(own, _Doings(measured.tree, profile.timers))


def _readable(measured: ThreadProfile) -> Iterable[Activity]:
    """Activities that the writer can read again."""
    if isinstance(measured.activities, Iterator):
        measured.activities = list(measured.activities)
    return measured.activities


# ----------------------------------------------------------------------- work


@dataclass
class _Work:
    """The works of a device, sorted by begin and end."""

    begin: Column
    end: Column
    kind: Column
    stream: Column
    correlation: Column
    pageable: Column
    name: Column
    names: Sequence[str]


def _work(
    profile: Profile,
    threads: Sequence[ThreadProfile],
    context: int,
    pageable: set[int],
    calls: Mapping[Thread, Sequence[int]],
) -> _Work | None:
    """The works of a device; None if some have no times."""
    import numpy as np

    gathered: list[list[Column]] = [[] for _ in range(7)]
    names: dict[str, int] = {}
    timed = 0
    for measured in threads:
        if measured.thread.context != context:
            continue
        timed += sum(launch.count - launch.untimed for launch in measured.launches)
        kinds = _Kinds(profile.timers, measured, names)
        activities = _readable(measured)
        own = calls.get(measured.thread, repeat(_NONE))
        columns = [
            (
                row * len(_WORK) + _WORK.index(kind),
                begin,
                end,
                call if correlation is None else correlation,
            )
            for (row, kind, begin, end, correlation, *_), call in zip(activities, own, strict=False)
            if kind in _WORK and begin <= end != 0
        ]
        code, begin, end, number = np.array(columns, dtype=np.int64).reshape(-1, 4).T
        distinct, which = np.unique(code, return_inverse=True)
        of_codes = [kinds.of(*divmod(of_code, len(_WORK))) for of_code in distinct.tolist()]
        kind, slow, name = np.array(of_codes, dtype=np.int64).reshape(-1, 3)[which].T
        if pageable:
            slow = slow | ((kind == _COPY) & np.isin(number, list(pageable)))
        stream = np.full(len(code), measured.thread.thread, dtype=np.int64)
        for pieces, column in zip(
            gathered, (begin, end, kind, stream, number, slow, name), strict=True
        ):
            pieces.append(column)
    if not timed or sum(map(len, gathered[0])) != timed:
        return None
    arrays = list(map(np.concatenate, gathered))
    order = np.lexsort((arrays[1], arrays[0]))
    begins, ends, sorts, streams, numbers, waits, labels = (column[order] for column in arrays)
    return _Work(begins, ends, sorts, streams, numbers, waits, labels, list(names))


class _Kind(NamedTuple):
    kind: int
    pageable: bool
    name: int


class _Kinds:
    """What the rows of a stream's tree are."""

    def __init__(
        self, timers: Sequence[Timer], measured: ThreadProfile, names: dict[str, int]
    ) -> None:
        self._timers, self._tree, self._names = timers, measured.tree, names
        memory: dict[int, set[bool]] = {}
        for event in measured.user_events:
            if event.row is not None and event.name.endswith(" memory"):
                memory.setdefault(event.row, set()).add("pageable" in event.name)
        self._pageable = {row for row, which in memory.items() if which == {True}}

    def of(self, row: int, kind: int) -> _Kind:
        """
        Args:
            kind: a position in `_WORK`.
        """
        name = self._timers[self._tree.timer[row]].name
        sort, is_pageable = _COPY, False
        if _WORK[kind] == "kernel":
            sort = _COMMUNICATION if gpu_calls.communicates(name) else _COMPUTE
        elif _WORK[kind] == "copy":
            is_pageable = row in self._pageable or "pageable" in name.lower()
        number = self._names.setdefault(name[:_PLACE], len(self._names))
        return _Kind(sort, is_pageable, number)


# ----------------------------------------------------------------------- host


class _Doing(NamedTuple):
    """What a call path of the host does.

    Attributes:
        cause: of idle time, as far as the call path tells.
        place: the call of that cause; else the innermost operator, routine or annotation.
        waits: the innermost call that waits for the GPU; "" if none.
        call: a call of the API other than a launch; "" if it is none.
    """

    cause: Cause
    place: str
    waits: str
    call: str
    operator: str
    routine: str
    other: str


_NOTHING = _Doing("nothing recorded on the host", "", "", "", "", "", "")


class _Doings:
    """What the rows of a host thread's tree do; each is looked at once."""

    def __init__(self, tree: CallTree, timers: Sequence[Timer]) -> None:
        self._tree, self._timers = tree, timers
        self._known: dict[int, _Doing] = {_NONE: _NOTHING}
        self._depth: dict[int, int] = {_NONE: 0}
        self._shared: dict[tuple[int, int], int] = {}

    def of(self, row: int) -> _Doing:
        doing = self._known.get(row)
        if doing is not None:
            return doing
        chain = []
        while row not in self._known:
            chain.append(row)
            row = self._tree.parent[row]
        doing = self._known[row]
        for below in reversed(chain):
            doing = self._known[below] = _inside(self._timers[self._tree.timer[below]], doing)
        return doing

    def name(self, row: int) -> str:
        return self._timers[self._tree.timer[row]].name[:_PLACE]

    @cached_property
    def _named(self) -> tuple[list[str], Column, Column]:
        """Names; which of them is each row's place, and which its operator, 0 for none.

        The place is the innermost operator, else routine, else annotation.
        """
        import numpy as np

        names: dict[str, int] = {"": 0}
        own = {timer: _named(self._timers[timer], names) for timer in set(self._tree.timer)}
        operators, routines, others = [0], [0], [0]  # of the parent of the root, then of each row
        places = []
        for timer, parent in zip(self._tree.timer, self._tree.parent, strict=True):
            operator, routine, other, call = own[timer]
            operator = operator or operators[parent + 1]
            routine = routine or routines[parent + 1]
            other = other or others[parent + 1] or call
            operators.append(operator)
            routines.append(routine)
            others.append(other)
            places.append(operator or routine or other)
        return list(names), np.array(places, np.int64), np.array(operators[1:], np.int64)

    def places(self, rows: Column) -> tuple[Sequence[str], Column]:
        """Names, and which of them is the place of each of these rows."""
        names, places, _ = self._named
        return names, places[rows]

    def place(self, row: int) -> str:
        names, places, _ = self._named
        return names[int(places[row])]

    def operator(self, row: int) -> str:
        """The innermost operator; "" if there is none."""
        names, _, operators = self._named
        return names[int(operators[row])]

    @cached_property
    def orders(self) -> NDArray[np.bool_]:
        """Which rows are calls that make the host wait for the GPU, or a stream for an event."""
        import numpy as np

        own = {at: _orders(self._timers[at]) for at in set(self._tree.timer)}
        return np.array([own[timer] for timer in self._tree.timer], dtype=bool)

    def depth(self, row: int) -> int:
        chain = []
        while row not in self._depth:
            chain.append(row)
            row = self._tree.parent[row]
        for number, below in enumerate(reversed(chain), self._depth[row] + 1):
            self._depth[below] = number
        return self._depth[chain[0]] if chain else self._depth[row]

    def above_both(self, first: int, second: int) -> int:
        """The nearest row that calls both, or is one of them."""
        key = first, second
        if key not in self._shared:
            while first != second:
                if self.depth(first) >= self.depth(second):
                    first = self._tree.parent[first]
                else:
                    second = self._tree.parent[second]
            self._shared[key] = first
        return self._shared[key]


def _inside(timer: Timer, above: _Doing) -> _Doing:
    """What a routine does that is called by another one."""
    name, groups = timer.name[:_PLACE], timer.groups
    if "TAUPY" in groups:
        return above._replace(cause="host", place=name, other=name)
    operator, routine, other, waits = above.operator, above.routine, above.other, above.waits
    is_call = "CUDA_API" in groups
    call = ""
    if is_call:
        waits = name if gpu_calls.drains(name) else waits
        call = "" if gpu_calls.launches(name) else name
        other = other or name
    elif "OPERATOR" in groups:
        operator = name
    elif "PYTHON" in groups or "PYTHON_C" in groups:
        routine = name if timer.file is None else f"{name} ({timer.file}:{timer.line})"[:_PLACE]
    else:
        other = name
    cause = _cause_of(timer, is_call)
    if cause is not None:
        place = name
    elif above.cause not in ("host", "nothing recorded on the host"):
        cause, place = above.cause, above.place
    else:
        cause, place = "host", operator or routine or other
    return _Doing(cause, place, waits, call, operator, routine, other)


def _orders(timer: Timer) -> bool:
    call = timer.name
    if "CUDA_API" not in timer.groups or gpu_calls.launches(call):
        return False
    return gpu_calls.drains(call) or gpu_calls.stream_waits(call)


def _named(timer: Timer, names: dict[str, int]) -> tuple[int, int, int, int]:
    """A timer as operator, routine, annotation or call: the number of its name as one of these, 0
    as the others."""
    name, groups = timer.name[:_PLACE], timer.groups
    if "OPERATOR" in groups:
        return names.setdefault(name, len(names)), 0, 0, 0
    if "PYTHON" in groups or "PYTHON_C" in groups:
        place = name if timer.file is None else f"{name} ({timer.file}:{timer.line})"[:_PLACE]
        return 0, names.setdefault(place, len(names)), 0, 0
    number = names.setdefault(name, len(names))
    return (0, 0, 0, number) if "CUDA_API" in groups else (0, 0, number, 0)


def _cause_of(timer: Timer, is_call: bool) -> Cause | None:
    if is_call:
        if gpu_calls.allocates(timer.name):
            return "memory allocation"
        return "loading code" if gpu_calls.loads_code(timer.name) else None
    is_data = gpu_calls.loads_data(timer.name, timer.file)
    return "data loading" if is_data or kind_of("|".join(timer.groups)) == "data" else None


class _Host:
    """A host thread."""

    def __init__(self, slices: HostSlices, doings: _Doings) -> None:
        self.slices, self.doings = slices, doings

    @cached_property
    def _pieces(self) -> tuple[Column, Column]:
        """All time in pieces: when each begins, and the row of its innermost slice, -1 for none."""
        import numpy as np

        begins, rows = [-_NEVER], [_NONE]
        slices = self.slices
        ends, active = [_NEVER], [_NONE]  # ends and rows of slices, the innermost last
        now = -_NEVER
        columns = (slices.begin.tolist(), slices.end.tolist(), slices.row.tolist())
        for begin, end, row in zip(*columns, strict=True):
            while ends[-1] <= begin:
                until = ends.pop()
                active.pop()
                if until > now:
                    now = until
                    begins.append(now)
                    rows.append(active[-1])
            if begin > now:
                now = begin
                begins.append(now)
                rows.append(row)
            else:
                rows[-1] = row
            ends.append(end)
            active.append(row)
        while len(ends) > 1:
            until = ends.pop()
            active.pop()
            if until > now:
                now = until
                begins.append(now)
                rows.append(active[-1])
        if slices.calls_only:
            self._fill(rows)
        return np.array(begins, dtype=np.int64), np.array(rows, dtype=np.int64)

    def _fill(self, rows: list[int]) -> None:
        """Where only calls, layers and phases have times: what is between two of them is the
        nearest routine above both."""
        for at in range(2, len(rows) - 1):
            if rows[at] == _NONE:
                rows[at] = self.doings.above_both(rows[at - 1], rows[at + 1])

    def row_at(self, moments: Column) -> Column:
        begins, rows = self._pieces
        return rows[begins.searchsorted(moments, "right") - 1]

    def split(self, begin: Column, end: Column) -> tuple[Column, Column, Column, Column]:
        """Divide intervals into pieces: which interval, begin, end and row of each."""
        import numpy as np

        begins, rows = self._pieces
        ends = np.append(begins[1:], _NEVER)
        first = begins.searchsorted(begin, "right") - 1
        number = begins.searchsorted(end, "left") - first
        which = np.repeat(np.arange(len(begin)), number)
        piece = first[which] + np.arange(len(which)) - (np.cumsum(number) - number)[which]
        since, until = begins[piece], ends[piece]
        return which, np.maximum(since, begin[which]), np.minimum(until, end[which]), rows[piece]

    def pieces_within(self, begin: int, end: int) -> Pieces:
        """What the thread did in this time, where that is known."""
        import numpy as np

        _, since, until, rows = self.split(np.array([begin]), np.array([end]))
        names, places = self.doings.places(rows)
        places[rows == _NONE] = _NONE
        first = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        since, until = since[first], np.concatenate((since[first[1:]], until[-1:]))
        kept = (places[first] != _NONE) & (until > since)
        return Pieces(since[kept], until[kept], places[first][kept], names)

    def ordering_within(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Begin, end and row of calls that wait for the GPU, or make a stream wait."""
        import numpy as np

        own = self.slices
        first, last = (bisect_left(own.begin, moment) for moment in (begin, end))
        rows = np.frombuffer(own.row, dtype=np.int64)[first:last]
        at = (first + np.flatnonzero(self.doings.orders[rows])).tolist()
        return [(own.begin[number], own.end[number], own.row[number]) for number in at]

    @cached_property
    def stream_waits(self) -> list[int]:
        """When the thread called for a stream to wait for an event."""
        names = {
            row: gpu_calls.stream_waits(self.doings.of(row).call) for row in set(self.slices.row)
        }
        pairs = zip(self.slices.begin, self.slices.row, strict=True)
        return [begin for begin, row in pairs if names[row]]


# ----------------------------------------------------------------------- gaps


class _Calls(NamedTuple):
    """Calls that launched works: the number of the host thread (-1: no call is known), begin, end
    and row."""

    host: Column
    begin: Column
    end: Column
    row: Column

    def of(self, chosen: Any) -> _Calls:
        return _Calls(*(column[chosen] for column in self))


class _Parts:
    """Parts of gaps, gathered; each has a gap, a cause, a place and a time."""

    def __init__(self) -> None:
        self._labels: dict[tuple[Cause, str], int] = {}
        self._gap: list[Column] = []
        self._label: list[Column] = []
        self._ns: list[Column] = []

    def label(self, cause: Cause, place: str) -> int:
        return self._labels.setdefault((cause, place), len(self._labels))

    def add(self, gap: Column, label: Column, ns: Column) -> None:
        self._gap.append(gap)
        self._label.append(label)
        self._ns.append(ns)

    def idle(self) -> tuple[Idle, ...]:
        """The causes, the longest first, each with its longest places."""
        import numpy as np

        gap, label, ns = map(np.concatenate, (self._gap, self._label, self._ns))
        if not len(ns):
            return ()
        labels = list(self._labels)
        numbers = {cause: number for number, cause in enumerate(CAUSES)}
        cause_of = np.array([numbers[cause] for cause, _ in labels], dtype=np.int64)
        by_gap = _summed(gap * len(CAUSES) + cause_of[label], ns)
        by_label = dict(zip(*(column.tolist() for column in _summed(label, ns)), strict=True))
        idle = []
        for number in np.unique(by_gap[0] % len(CAUSES)).tolist():
            cause = CAUSES[number]
            parts = by_gap[1][by_gap[0] % len(CAUSES) == number]
            places = [(labels[at][1], of_label) for at, of_label in by_label.items()
                      if labels[at][0] == cause]  # fmt: skip
            places.sort(key=lambda pair: (-pair[1], pair[0]))
            kept = [*places[:PLACES], *(pair for pair in places[PLACES:] if pair[0] == OUTSIDE)]
            idle.append(Idle(cause, int(parts.sum()), len(parts), int(parts.max()), tuple(kept)))
        return tuple(sorted(idle, key=lambda part: (-part.ns, part.cause)))

    def largest(self, at: Column, ns: Column) -> tuple[Gap, ...]:
        """The longest gaps, with their parts.

        Args:
            at, ns: when each gap begins, and how long it is.
        """
        import numpy as np

        columns = [*map(np.concatenate, (self._gap, self._label, self._ns))]
        labels = list(self._labels)
        gaps = []
        for number in np.argsort(-ns, kind="stable")[:GAPS].tolist():
            chosen = columns[0] == number
            sums = _summed(columns[1][chosen], columns[2][chosen])
            pairs = zip(*(column.tolist() for column in sums), strict=True)
            parts = [(*labels[label], of_label) for label, of_label in pairs]
            parts.sort(key=lambda part: (-part[2], part[:2]))
            gaps.append(Gap(int(at[number]), int(ns[number]), tuple(parts)))
        return tuple(gaps)


def _summed(codes: Column, ns: Column) -> tuple[Column, Column]:
    """The distinct codes, ascending, and the sum of each."""
    import numpy as np

    order = np.argsort(codes, kind="stable")
    codes, ns = codes[order], ns[order]
    first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    return codes[first], np.add.reduceat(ns, first)


class _Node:
    """The host threads and devices of a process."""

    def __init__(self, hosts: Sequence[_Host], work: Mapping[int, _Work]) -> None:
        self.hosts, self.work = hosts, work
        self._blocking: dict[int, tuple[Column, Column]] = {}
        self._find_blocking()

    @cached_property
    def _called(self) -> tuple[Column, _Calls]:
        """Correlations, ascending, with their calls; of equal ones the last is the innermost."""
        import numpy as np

        is_by_call = all(bool((work.correlation >= _NONE).all()) for work in self.work.values())
        columns: list[list[Column]] = [[] for _ in range(5)]
        for number, host in enumerate(self.hosts):
            slices = host.slices
            correlation = np.frombuffer(slices.correlation, dtype=np.int64)
            chosen = np.flatnonzero(correlation > _NONE if is_by_call else correlation != _NONE)
            columns[0].append(correlation[chosen])
            columns[1].append(np.full(len(chosen), number, dtype=np.int64))
            for at, column in enumerate((slices.begin, slices.end, slices.row), 2):
                columns[at].append(np.frombuffer(column, dtype=np.int64)[chosen])
        joined = [np.concatenate([*pieces, np.zeros(0, dtype=np.int64)]) for pieces in columns]
        order = np.argsort(joined[0], kind="stable")
        correlations, *calls = (column[order] for column in joined)
        return correlations, _Calls(*calls)

    def _launches(self, work: _Work, chosen: Any) -> _Calls:
        """The calls that launched these works. Where only the operator is known, the host is in it
        for as long as it can be, and launches in no time."""
        import numpy as np

        correlation = work.correlation[chosen]
        correlations, calls = self._called
        if not len(correlations):
            none = np.full(len(correlation), _NONE, dtype=np.int64)
            return _Calls(none, none, none, none)
        at = correlations.searchsorted(correlation, "right") - 1
        launches = calls.of(at)
        is_found = (at >= 0) & (correlations[at] == correlation) & (correlation != _NONE)
        is_operator = correlation < _NONE
        last = np.minimum(launches.end, work.begin[chosen] - LAUNCH_NS)
        last = np.maximum(launches.begin, last)
        return _Calls(
            np.where(is_found, launches.host, _NONE),
            np.where(is_operator, last, launches.begin),
            np.where(is_operator, last, launches.end),
            launches.row,
        )

    def _find_blocking(self) -> None:
        """Find calls that returned after their copy from or to pageable memory: the host waited."""
        import numpy as np

        blocking: dict[int, list[tuple[int, int]]] = {}
        for work in self.work.values():
            slow = np.flatnonzero(work.pageable)
            calls = self._launches(work, slow)
            rows = zip(*(column.tolist() for column in (*calls[:3], work.end[slow])), strict=True)
            for host, begin, end, until in rows:
                if host != _NONE and end >= until:
                    blocking.setdefault(host, []).append((begin, end))
        for host, intervals in blocking.items():
            begins, ends = zip(*sorted(intervals), strict=True)
            self._blocking[host] = np.array(begins), np.array(ends)

    def time(self, context: int) -> GpuTime:
        import numpy as np

        work = self.work[context]
        kinds = [work.kind == kind for kind in (_COMPUTE, _COMMUNICATION)]
        computing = _union(work, kinds[0])
        kernels = _union(work, kinds[0] | kinds[1])
        busy = _union(work, np.ones(len(work.begin), dtype=bool))
        idle, gaps = self._idle(context, work)
        slices = [host.slices for host in self.hosts]
        how = (
            ""
            if not slices
            else "calls"
            if all(of_host.calls_only for of_host in slices)
            else "slices"
        )
        return GpuTime(computing, kernels - computing, busy - kernels, idle, how, gaps=gaps)

    def paths(self, context: int, steps: Sequence[_Window]) -> Iterator[Path]:
        """The critical paths of the last steps that launched anything, the last one first; of the
        whole time, if there is no step. None of it if nothing is known of any call."""
        work = self.work[context]
        calls = self._launches(work, slice(None))
        has_launch = calls.host != _NONE
        if not has_launch.any():
            return
        steps_kept = works = 0
        for step in steps:
            launched = has_launch & (calls.begin >= step.begin) & (calls.begin < step.end)
            works += int(launched.sum())
            if steps_kept and (works > MOST_WORKS or steps_kept == STEPS):
                break
            if launched.any():
                steps_kept += 1
                yield from self._path(work, calls, step, launched)
        if not steps_kept:
            begin, end = int(calls.begin[has_launch].min()), int(calls.end[has_launch].max())
            launched = has_launch & (calls.begin < end)
            yield from self._path(work, calls, _Window("", begin, end), launched)

    def _path(self, work: _Work, calls: _Calls, step: _Window, launched: Any) -> Iterator[Path]:
        """None if it takes no time, or nothing is known of a thread that launched."""
        import numpy as np

        name, begin, end = step
        if begin == end:
            return
        last = max(end, int(work.end[launched].max()))  # what was queued before may run until then
        earlier = ~launched & (work.begin < last) & (work.end > begin)
        earlier &= (calls.host == _NONE) | (calls.begin < begin)
        chosen = np.flatnonzero(launched | earlier)
        works, of_call = self._works(work, calls, chosen, launched)
        by_span: dict[tuple[int, int, int], Call] = {}
        for (thread, since, until, row), own in of_call.items():
            place = self.hosts[thread].doings.place(row)
            is_slow = self._is_blocking(thread, since)
            by_span[thread, since, until] = Call(since, until, thread, place, tuple(own), is_slow)
        for thread, host in enumerate(self.hosts):
            for since, until, row in host.ordering_within(begin, end):
                call, place = host.doings.name(row), host.doings.place(row)
                before = by_span.get((thread, since, until))
                launched_by = () if before is None else before.works
                by_span[thread, since, until] = Call(
                    since, until, thread, place, launched_by,
                    gpu_calls.drains(call), gpu_calls.stream_waits(call),
                )  # fmt: skip
        ordered = sorted(by_span.values(), key=lambda call: (call.begin, call.end))
        pieces = [host.pieces_within(begin, end) for host in self.hosts]
        kept = [thread for thread, of_thread in enumerate(pieces) if len(of_thread.begin)]
        again = {thread: place for place, thread in enumerate(kept)}
        if any(call.thread not in again for call in ordered):
            return
        if len(kept) < len(pieces):
            ordered = [call._replace(thread=again[call.thread]) for call in ordered]
        program = Program(begin, end, ordered, works, [pieces[thread] for thread in kept])
        yield critical_path(program, name)

    def _works(
        self, work: _Work, calls: _Calls, chosen: Column, launched: Any
    ) -> tuple[list[Work], dict[tuple[int, int, int, int], list[int]]]:
        """The chosen works, and which of them each call launched."""
        works: list[Work] = []
        of_call: dict[tuple[int, int, int, int], list[int]] = {}
        columns = (work.begin, work.end, work.stream, work.kind, work.name, *calls, launched)
        for begin, end, stream, kind, name, host, since, until, row, is_launched in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            place = work.names[name]
            if is_launched:
                place = self.hosts[host].doings.operator(row) or place
                of_call.setdefault((host, since, until, row), []).append(len(works))
            works.append(Work(begin, end, stream, _PATH_KINDS[kind], place, not is_launched))
        return works, of_call

    def _is_blocking(self, host: int, begin: int) -> bool:
        """Whether a call that copies from or to pageable memory returned after the copy."""
        if host not in self._blocking:
            return False
        begins, _ = self._blocking[host]
        at = int(begins.searchsorted(begin))
        return at < len(begins) and int(begins[at]) == begin

    def _idle(self, context: int, work: _Work) -> tuple[tuple[Idle, ...], tuple[Gap, ...]]:
        import numpy as np

        until = np.maximum.accumulate(work.end)
        is_last = np.concatenate(([True], work.end[1:] > until[:-1]))
        last = np.maximum.accumulate(np.where(is_last, np.arange(len(until)), 0))
        after = np.flatnonzero(work.begin[1:] > until[:-1]) + 1
        begin, end, before = until[after - 1], work.begin[after], last[after - 1]
        calls = self._launches(work, after)
        parts = _Parts()

        unseen = calls.host == _NONE
        number = work.correlation[after]
        in_graph = ~unseen & (work.correlation[before] == number) & (number > _NONE)
        short = ~unseen & ~in_graph & (calls.begin <= begin) & (end - begin < SHORT_NS)
        rest = np.flatnonzero(~unseen & ~in_graph & ~short)
        names = np.array([parts.label("launch not seen", name) for name in work.names], np.int64)
        gaps = np.flatnonzero(unseen)
        parts.add(gaps, names[work.name[after[gaps]]], (end - begin)[gaps])
        causes: tuple[tuple[Cause, Any], ...] = (
            ("inside a graph", in_graph), ("between kernels", short)
        )  # fmt: skip
        for cause, chosen in causes:
            gaps = np.flatnonzero(chosen)
            self._add_launches(parts, cause, gaps, calls.of(gaps), (end - begin)[gaps])

        late = np.minimum(np.maximum(calls.begin, begin), end)
        earlier = self._launches(work, before)
        gaps = rest[late[rest] > begin[rest]]
        self._add_host(parts, gaps, calls.host[gaps], earlier.host[gaps], begin[gaps], late[gaps])
        soon = np.minimum(np.maximum(late, calls.end + LATENCY_NS), end)
        is_long = calls.end - calls.begin > LONG_NS
        of_launch: tuple[tuple[Cause, Any], ...] = (
            ("long launch call", is_long), ("launch latency", ~is_long)
        )  # fmt: skip
        for cause, chosen in of_launch:
            gaps = rest[(soon > late)[rest] & chosen[rest]]
            self._add_launches(parts, cause, gaps, calls.of(gaps), (soon - late)[gaps])
        gaps = rest[(end > soon)[rest]]
        self._add_queued(parts, context, gaps, after[gaps], calls.of(gaps), soon[gaps], end[gaps])
        return parts.idle(), parts.largest(begin - work.begin[:1], end - begin)

    def _add_launches(
        self, parts: _Parts, cause: Cause, gaps: Column, calls: _Calls, ns: Column
    ) -> None:
        """Parts whose place is the call that launched."""
        import numpy as np

        labels = np.zeros(len(gaps), dtype=np.int64)
        for number, host in enumerate(self.hosts):
            chosen = np.flatnonzero(calls.host == number)
            rows, which = np.unique(calls.row[chosen], return_inverse=True)
            of_rows = [parts.label(cause, host.doings.name(row)) for row in rows.tolist()]
            labels[chosen] = np.array(of_rows, dtype=np.int64)[which]
        parts.add(gaps, labels, ns)

    def _add_host(
        self,
        parts: _Parts,
        gaps: Column,
        hosts: Column,
        earlier: Column,
        begin: Column,
        end: Column,
    ) -> None:
        """What the launching thread did; where it did nothing, what the thread of the launch
        before did."""
        import numpy as np

        texts: dict[str, int] = {"": 0}
        drained = np.zeros(len(gaps), dtype=np.int64)
        others = np.where(earlier == hosts, _NONE, earlier)
        for threads in (hosts, others):
            for number in range(len(self.hosts)):
                chosen = np.flatnonzero((threads == number) & (drained == 0))
                drained[chosen] = self._waiting(number, begin[chosen], texts)
        waits = list(texts)
        for number, host in enumerate(self.hosts):
            chosen = np.flatnonzero(hosts == number)
            which, since, until, rows = host.split(begin[chosen], end[chosen])
            which = chosen[which]
            left = (rows == _NONE) & (others[which] != _NONE)
            kept = ~left
            self._add_doings(parts, host, gaps[which[kept]], rows[kept],
                             (until - since)[kept], drained[which[kept]], waits)  # fmt: skip
            for other, second in enumerate(self.hosts):
                holes = np.flatnonzero(left & (others[which] == other))
                inner, start, stop, its_rows = second.split(since[holes], until[holes])
                of_gap = which[holes[inner]]
                self._add_doings(parts, second, gaps[of_gap], its_rows, stop - start,
                                 drained[of_gap], waits)  # fmt: skip

    def _add_doings(
        self, parts: _Parts, host: _Host, gaps: Column, rows: Column, ns: Column, drained: Column,
        waits: Sequence[str],
    ) -> None:  # fmt: skip
        import numpy as np

        is_long = ns > LONG_NS
        codes = ((rows + 1) * len(waits) + drained) * 2 + is_long
        distinct, which = np.unique(codes, return_inverse=True)
        labels = []
        for code in distinct.tolist():
            row, wait = divmod(code // 2, len(waits))
            labels.append(parts.label(*_why(host, row - 1, bool(code % 2), waits[wait])))
        parts.add(gaps, np.array(labels, dtype=np.int64)[which], ns)

    def _waiting(self, number: int, moments: Column, texts: dict[str, int]) -> Column:
        """The call in progress that waits for the GPU, and where, as the number of a text; 0 if
        there is none."""
        import numpy as np

        host = self.hosts[number]
        rows = host.row_at(moments)
        blocked = np.zeros(len(moments), dtype=bool)
        if number in self._blocking:
            begins, ends = self._blocking[number]
            at = begins.searchsorted(moments, "right") - 1
            blocked = (at >= 0) & (ends[at] > moments)
        distinct, which = np.unique(rows * 2 + blocked, return_inverse=True)
        numbers = []
        for code in distinct.tolist():
            doing = host.doings.of(code // 2)
            call = doing.waits
            if not call and code % 2:
                call = doing.call or "a copy from or to pageable memory"
            place = doing.operator or doing.routine
            text = f"{call} in {place}" if call and place else call
            numbers.append(texts.setdefault(text, len(texts)))
        return np.array(numbers, dtype=np.int64)[which]

    def _add_queued(
        self, parts: _Parts, context: int, gaps: Column, works: Column, calls: _Calls,
        soon: Column, end: Column,
    ) -> None:  # fmt: skip
        """Parts in which a work was queued for longer than a launch needs."""
        import numpy as np

        work = self.work[context]
        labels = []
        columns = (calls.host, calls.begin, calls.row, work.stream[works], soon, end)
        for host, begin, row, stream, since, until in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            name = self.hosts[host].doings.name(row)
            if not self._waits_for_event(context, stream, host, begin):
                labels.append(parts.label("queued, started late", name))
            else:
                seen = self._ended_elsewhere(context, since, until)
                labels.append(parts.label("waits for an event", name if seen else OUTSIDE))
        parts.add(gaps, np.array(labels, dtype=np.int64), end - soon)

    def _waits_for_event(self, context: int, stream: int, host: int, begin: int) -> bool:
        """Whether the stream was made to wait since the last launch on it."""
        marks = self.hosts[host].stream_waits
        at = bisect_left(marks, begin)
        if not at:
            return False
        launched = self._launched.get((context, stream))
        if launched is None:
            work = self.work[context]
            calls = self._launches(work, work.stream == stream)
            launched = sorted(calls.begin[calls.host != _NONE].tolist())
            self._launched[context, stream] = launched
        earlier = bisect_left(launched, begin) - 1
        return marks[at - 1] > (launched[earlier] if earlier >= 0 else 0)

    @cached_property
    def _launched(self) -> dict[tuple[int, int], list[int]]:
        """Context and stream -> when its works were launched."""
        return {}

    def _ended_elsewhere(self, context: int, begin: int, end: int) -> bool:
        """Whether work of another device of the trace ended in this time."""
        return any(
            bool(((work.end > begin) & (work.end <= end)).any())
            for other, work in self.work.items()
            if other != context
        )


def _why(host: _Host, row: int, is_long: bool, drained: str) -> tuple[Cause, str]:
    doing = host.doings.of(row)
    if doing.cause in ("host", "nothing recorded on the host"):
        if drained:
            return "synchronisation", drained
        if is_long and doing.call:
            return "host", doing.call
    return doing.cause, doing.place


def _union(work: _Work, chosen: Any) -> int:
    """The time in which any of these works ran."""
    import numpy as np

    begin, end = work.begin[chosen], work.end[chosen]
    if not len(begin):
        return 0
    until = np.maximum.accumulate(end)
    before = np.concatenate((begin[:1], until[:-1]))
    return int(np.maximum(until - np.maximum(begin, before), 0).sum())
