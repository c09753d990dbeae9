"""One process's measurement as plain data, the same for both engines."""

from __future__ import annotations

from _bisect import bisect_right
from array import array

from taupy.dataclass import NamedTuple, dataclass, field
from taupy.model.profile import LayerFacts, Statistics, UserEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    import numpy as np

    from taupy.record.part_collectives import PartCollectives
    from taupy.record.part_spans import PartSpans
    from taupy.record.part_steps import PartSteps

    Column = np.ndarray[Any, np.dtype[np.int64]]

    AnyColumn = Any
    """A `Column`; of a small part, an `array("q")` (`small_part.py`)."""

RUNNING, ENDED, EXEC, SNAPSHOT = 0, 1, 2, 3


class Routine(NamedTuple):
    """A routine in a part; `kind` is "python", "c" or "timer".

    Attributes:
        inputs: sizes and types of an operator's inputs; None: unknown, or no operator.
    """

    name: str
    file: str
    line: int
    kind: str
    group: str
    throttled: bool = False
    inputs: str | None = None


@dataclass(frozen=True, slots=True)
class ExactLine:
    """A line of a routine whose lines were told by the interpreter.

    Attributes:
        routine: a position in `Part.routines`.
        count: how often it has begun.
        own_ns: until the next line of its frame, without other routines of the program.
        inclusive_ns: with all that it calls.
    """

    routine: int
    line: int
    count: int
    own_ns: int
    inclusive_ns: int


class Suspension(NamedTuple):
    """An `await`, of the program or of a library, on one call path.

    Attributes:
        row: the call path of its coroutine.
        outer: position of the await that is suspended with it, because it awaits its coroutine;
            None: there is none.
        times: how often a coroutine was suspended there.
        ns: for how long, all of them added up; below 0 if they began on another call path.
    """

    row: int
    outer: int | None
    line: int
    times: int
    ns: int


class Growth(NamedTuple):
    """How the calls of one call path went on.

    Attributes:
        row: the call path.
        notes: numbers of finished calls, each at least twice the one before, and their time [ns].
        compared: calls whose arguments were looked at and compared with those of earlier ones.
        different: of these, calls with arguments that none looked at before had.
        others: calls that were looked at and whose arguments are not compared.
    """

    row: int
    notes: tuple[tuple[int, int], ...]
    compared: int = 0
    different: int = 0
    others: int = 0


class ThreadSums(NamedTuple):
    """Several threads that have ended and were added up, as `_native/thread_rows.h` describes.

    Attributes:
        apart: how many threads with the same beginning ended before them.
        first, last: indices of threads in the part; those of the threads are among them.
        least_ns, most_ns: shortest and longest time of a thread.
        cpu: CPU times of threads.
        routine: where they began, a position in `Part.routines`; None: unknown.
    """

    threads: int
    apart: int
    first: int
    last: int
    least_ns: int
    most_ns: int
    cpu: Statistics
    routine: int | None


class CallMetric(NamedTuple):
    """A metric beside time that the engine reads: at every call, or at regions only."""

    name: str
    unit: str
    at_calls: bool


def _column() -> AnyColumn:
    return array("q")


@dataclass(slots=True)
class PartThread:
    """Columns of one thread's tree; row 0 is the root, whose routine is -1."""

    native_id: int
    name: str
    cpu_ns: int
    routine: AnyColumn = field(default_factory=_column)
    parent: AnyColumn = field(default_factory=_column)
    calls: AnyColumn = field(default_factory=_column)
    resumes: AnyColumn = field(default_factory=_column)
    inclusive: AnyColumn = field(default_factory=_column)
    metrics: dict[CallMetric, Column] = field(default_factory=dict)  # inclusive
    samples: list[UserEvent] = field(default_factory=list)
    counters: list[Column] = field(default_factory=list)  # one column per metric, inclusive
    counted: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    """Rows with counters, and metrics that are read at regions; None for all rows."""
    native: bool = False  # never ran Python: it has counters only
    refused: str | None = None  # why its counters are unreliable
    open: list[tuple[int, int]] = field(default_factory=list)
    """Rows that were open when the part was last written, innermost first, and when each was
    entered (ns of CLOCK_MONOTONIC); empty for a thread that has ended."""
    ended: bool = False
    index: int = 0
    """Its number in the part, where some numbers may be missing."""
    several: ThreadSums | None = None
    steps: list[PartSteps] = field(default_factory=list)
    spans: PartSpans | None = None
    suspensions: list[Suspension] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    lines: list[ExactLine] = field(default_factory=list)
    open_lines: list[tuple[int, bool, bool]] = field(default_factory=list)
    """Positions in `lines` of those that the open rows were in; whether the time that passes is the
    line's own, and whether it is in a recursion, so that an outer line has it, too."""


@dataclass(slots=True)
class Places:
    """The addresses of call paths in the measured process, in stretches.

    Columns sorted by `address`: a stretch of `rows` call paths, `step` bytes each, belonging to a
    thread (position in `Part.threads`), starting at one of its rows.
    """

    address: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)

    def find(self, address: int) -> tuple[int, int] | None:
        """(thread, row) of the call path at an address; None if there is none."""
        at = bisect_right(self.address, address) - 1
        if at < 0:
            return None
        row, odd = divmod(address - self.address[at], self.step[at])
        if odd or row >= self.rows[at]:
            return None
        return self.thread[at], self.row[at] + row

    def sort(self) -> None:
        order = sorted(range(len(self.address)), key=self.address.__getitem__)
        for name in ("address", "rows", "step", "thread", "row"):
            column = getattr(self, name)
            setattr(self, name, [column[at] for at in order])


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a process that did not close its part.

    Attributes:
        source: "seen" by the watch; its last "heartbeat", if the two ended together; "unknown";
            or still "running".
        late_ns: it may have ended earlier by this much; after a heartbeat, later by this much.
        status: as returned by `os.wait`; None if the kernel did not report it.
        why: the reason why the end is unknown.
        unseen_ns: time between the plain engine's last record of open routines and the end.
    """

    source: Literal["seen", "heartbeat", "unknown", "running"]
    late_ns: int = 0
    status: int | None = None
    why: str = ""
    unseen_ns: int = 0


class Process(NamedTuple):
    """A process that is measured in a part: the name of its own file, its id, and when it began."""

    name: str
    pid: int
    start_ns: int


@dataclass(slots=True)
class Part:
    """One process's measurement, or the sum of several (`process_rows.py`).

    Attributes:
        keys: what routines were in the process, one for each of the first `routines`; empty for the
            plain engine.
        lost_bytes: number of bytes used by the process that are not in any file.
        used_bytes: total bytes used.
        ending: None if the process closed the part itself.
        layers: of networks; their timers are positions in `routines`.
        rank: the number, the number of ranks and the attempt, of a process that the program, a
            launcher, started as a rank of its job.
        added: the processes of which it is the sum; empty for a single one.
    """

    name: str  # of the file
    engine: str
    pid: int
    parent_pid: int
    process_start: int
    state: int
    forked: bool
    started_at: float  # epoch seconds
    start_ns: int
    end_ns: int
    exit_status: int | None
    routines: list[Routine]
    threads: list[PartThread]
    metadata: dict[str, str]
    health: dict[str, str]
    node: int | None = None
    start_ticks: int = 0
    ns_per_tick: float = 1.0
    places: Places | None = None
    keys: list[int] = field(default_factory=list)
    lost_bytes: int = 0
    used_bytes: int = 0
    ending: Ending | None = None
    collectives: PartCollectives | None = None
    layers: list[LayerFacts] = field(default_factory=list)
    rank: tuple[int, int, int] | None = None
    added: list[Process] = field(default_factory=list)

    @property
    def processes(self) -> list[Process]:
        """The processes that are measured in it."""
        return self.added or [Process(self.name, self.pid, self.start_ns)]

    def added_up(self, index: int | None) -> list[int]:
        """Positions of the rows of threads to which that of this number may have been added, the
        most probable first; `None`: some thread."""
        sums = [
            (index is not None and not row.first <= index <= row.last, position)
            for position, thread in enumerate(self.threads)
            if (row := thread.several) is not None
        ]
        return [position for _, position in sorted(sums)]

    def positions(self) -> dict[int, int]:
        """The position of each thread by its number; those that were added up are missing."""
        if not self.keys:  # of the plain engine, which numbers them so
            return {at: at for at in range(len(self.threads))}
        return {thread.index: at for at, thread in enumerate(self.threads)}

    @property
    def runs(self) -> bool:
        """Whether the process is still running."""
        return self.ending is not None and self.ending.source == "running"

    @property
    def complete(self) -> bool:
        """Whether the process closed its part."""
        return self.state in (ENDED, EXEC, SNAPSHOT)

    @property
    def loss(self) -> str:
        """A message about what is lost, and how much; "" if nothing is."""
        if not self.lost_bytes:
            return ""
        return (
            f"{self.lost_bytes} of {self.used_bytes} bytes that process {self.pid} measured "
            "(routines, call paths, counts) did not fit into the state folder and are lost: counts "
            "and times are lower bounds"
        )
