"""A measured profile: timers, call paths per thread, user events.

Every source of measurements (a run, an importer) yields a `Profile`, and it is
the only thing that `profiledb` writes. It is columnar, because a profile may
hold a million call paths: a call path is a position in the columns of its
thread's `CallTree`, a timer is a position in `Profile.timers`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from taupy.dataclass import NamedTuple, dataclass, field, replace
from taupy.model.metric import ROOT_TIMER as ROOT_TIMER
from taupy.model.metric import TIME as TIME
from taupy.model.metric import Metric as Metric

TYPE_CHECKING = False
if TYPE_CHECKING:  # few runs have them, and the prompt waits for every import
    from taupy.model.collectives import Collectives, Stretches
    from taupy.model.gpu import Activity, Device, Launch, Module
    from taupy.model.kinds import StepKind, ThreadKind, TrialState

ABSENT = math.nan
"""Value in columns of type "d" for rows that were not measured: absent is not 0."""


class Timer(NamedTuple):
    """A named interval: a routine, a C function, a phase, a kernel.

    A tuple, since there may be hundreds of thousands: a dataclass takes three times as long to
    create and hash.

    Attributes:
        name: the routine's qualified name without its location, `Net.forward`.
        file: the source file as displayed, relative to the program's
            folder, to site-packages or to the standard library if it lies in
            one of them, so that trials of different machines match.
        line: first line of the routine, from 1.
        groups: TAU's groups, at least one: PYTHON, PYTHON_C, PHASE, USER, ...
        path: the file as the interpreter knows it (absolute if possible).
        short: what a narrow table shows if `name` is long: a kernel's name without
            template arguments and parameters; None if that is `name`.
    """

    name: str
    file: str | None = None
    line: int | None = None
    groups: tuple[str, ...] = ("PYTHON",)
    path: str | None = None
    short: str | None = None

    @property
    def full_name(self) -> str:
        """TAU's spelling, `Net.forward [{mnist.py}{42}]`; unique within a trial."""
        if self.file is None:
            return self.name
        line = "" if self.line is None else f"{{{self.line}}}"
        return f"{self.name} [{{{self.file}}}{line}]"


@dataclass(frozen=True, slots=True, order=True)
class Thread:
    """One line of execution: a host thread, or one stream of one GPU; or the sum of several host
    threads that have ended and began in the same routine, or of those of several processes.

    Attributes:
        node: process rank, 0 for a lone process.
        context: 0 on the host; 1 + device ordinal on a GPU.
        thread: host thread in order of appearance, or stream, from 0.
        name: the thread's name if it has one ("MainThread").
        native_id: the operating system's thread id, 0 if there is none.
        count: of the threads that were added up.
        least_ns, most_ns: of several, the shortest and the longest time of one.
    """

    node: int
    context: int
    thread: int
    kind: ThreadKind = "host"
    name: str = ""
    native_id: int = 0
    count: int = 1
    least_ns: int | None = None
    most_ns: int | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """What identifies it in a trial."""
        return self.node, self.context, self.thread


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class CallTree:
    """The call paths of one thread, as columns of equal length.

    Row 0 is the root. A row's parent precedes it. `inclusive` and
    `exclusive` hold one column per metric, by name; values are in the
    metric's unit. A metric absent here was not measured on this thread.
    """

    timer: array[int] = field(default_factory=_column)  # position in Profile.timers
    parent: array[int] = field(default_factory=_column)  # row in this tree, -1 for the root
    calls: array[int] = field(default_factory=_column)
    subroutines: array[int] = field(default_factory=_column)
    inclusive: dict[str, array[int]] = field(default_factory=dict)
    exclusive: dict[str, array[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.timer)


@dataclass(frozen=True, slots=True)
class UserEvent:
    """Summary of values sampled at points in time (TAU's atomic event).

    Attributes:
        row: the call path they belong to, a row of the thread's tree; None if
            they belong to the thread as a whole.
        sum_squares: of the values, so that stddev = sqrt(|sum_squares/count - mean^2|).
    """

    name: str
    unit: str
    count: int
    minimum: float
    maximum: float
    mean: float
    sum_squares: float
    row: int | None = None

    @classmethod
    def once(cls, name: str, unit: str, value: float) -> UserEvent:
        """A single sample of the thread as a whole."""
        return cls(name, unit, 1, value, value, value, float(value) * value)

    def joined(self, other: UserEvent) -> UserEvent:
        """The samples of both, under this one's name."""
        count = self.count + other.count
        return replace(
            self,
            count=count,
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            mean=(self.mean * self.count + other.mean * other.count) / count,
            sum_squares=self.sum_squares + other.sum_squares,
        )


@dataclass(slots=True)
class Statistics:
    """Sums of sampled values, of which a user event is made."""

    count: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    total: float = 0
    squares: float = 0.0

    def add(self, value: float, count: int = 1, limits: tuple[float, float] | None = None) -> None:
        """Add a value, or the mean of `count` values between these limits."""
        least, largest = (value, value) if limits is None else limits
        self.count += count
        # Not min() and max(): a trace has a value for each allocation of memory.
        if least < self.minimum:
            self.minimum = least
        if largest > self.maximum:
            self.maximum = largest
        self.total += value * count
        self.squares += float(value) * value * count

    def event(self, name: str, unit: str, row: int | None = None) -> UserEvent:
        mean = self.total / self.count if self.count else 0.0
        return UserEvent(
            name, unit, self.count, self.minimum, self.maximum, mean, self.squares, row
        )


@dataclass(frozen=True, slots=True)
class Samples:
    """A user event over time: columns of equal length, in order of time.

    Attributes:
        start_ns, end_ns: of each point, nanoseconds since the epoch; points do not overlap.
        count: samples merged into each point.
        mean, minimum, maximum: of each point; NaN where there is no value.
    """

    name: str
    unit: str
    start_ns: array[int]
    end_ns: array[int]
    count: array[int]
    mean: array[float]
    minimum: array[float]
    maximum: array[float]

    def __len__(self) -> int:
        return len(self.start_ns)


UNKNOWN = -1
"""Value in `Steps.samples` where their number is unknown."""


@dataclass(slots=True)
class Steps:
    """Iterations of training or validation on one thread: columns of equal length, in order.

    Attributes:
        number: of a row's first step, from 1.
        count: steps merged into each row: their times and samples are summed.
        start_ns: nanoseconds since the epoch.
        time_ns, longest_ns: total of the row's steps, and the longest one.
        samples: in the batches; `UNKNOWN` where unknown.
        phases: kind of phase -> time in it [ns], 0 if there was none; see network/phases.py.
        values: name -> last logged value; NaN where there was none.
        metrics: name -> what the thread used in the row's steps: CPU time, run delay, counters
            (`Profile.metrics`, or one of `metric.OF_STEPS`); NaN where it is unknown.
    """

    kind: StepKind
    number: array[int] = field(default_factory=_column)
    count: array[int] = field(default_factory=_column)
    start_ns: array[int] = field(default_factory=_column)
    time_ns: array[int] = field(default_factory=_column)
    longest_ns: array[int] = field(default_factory=_column)
    samples: array[int] = field(default_factory=_column)
    phases: dict[str, array[int]] = field(default_factory=dict)
    values: dict[str, array[float]] = field(default_factory=dict)
    metrics: dict[str, array[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """Parameters, shapes and operations of a network layer on one node. None: unknown.

    Attributes:
        timer: of its calls, a position in `Profile.timers`.
        parameters, parameter_bytes: of the module itself, excluding its submodules.
        input, output: shapes of tensors ("8x64x16x16, 8") in the last call examined.
        input_varies, output_varies: other calls had other shapes.
        output_bytes: per call.
        calls: number of calls in which operations were counted, to which `flop` refers.
        backward_passes: the same of backward passes, to which `backward_flop` refers; None in
            profiles of older versions, where it refers to `calls`.
        flop, backward_flop: its own floating-point operations, excluding nested layers.
        unknown: operators without a formula that ran in it, by name.
    """

    timer: int
    node: int
    parameters: int | None = None
    parameter_bytes: int | None = None
    input: str | None = None
    output: str | None = None
    input_varies: bool = False
    output_varies: bool = False
    output_bytes: int | None = None
    calls: int = 0
    flop: int | None = None
    backward_passes: int | None = None
    backward_flop: int | None = None
    unknown: tuple[str, ...] = ()

    @property
    def counted_passes(self) -> int:
        """Number of backward passes to which `backward_flop` refers."""
        return self.calls if self.backward_passes is None else self.backward_passes

    def flop_of(self, calls: float) -> float | None:
        """Operations of so many calls, extrapolated from those that were counted; None: unknown."""
        return None if self.flop is None or not self.calls else self.flop * calls / self.calls

    def backward_flop_of(self, passes: float) -> float | None:
        """The same of backward passes."""
        if self.backward_flop is None or not self.counted_passes:
            return None
        return self.backward_flop * passes / self.counted_passes


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the program's own, as it was when the run was stored.

    Attributes:
        path: as the interpreter knew it; "<string>" is the text of `-c`.
        file: as displayed with its routines.
        sha256: of its bytes.
        masked: number of lines in which secrets are masked, with their columns kept.
        changed: it was written after the program began, and may not be what ran.
        text: None if it was not kept.
    """

    path: str
    file: str
    sha256: str
    masked: int = 0
    changed: bool = False
    text: str | None = None


class OperatorInput(NamedTuple):
    """Calls of an operator with inputs of the same sizes and types.

    Attributes:
        row: the operator's call path, a row of the thread's tree.
        signature: the tensors, `bfloat16[16x559], int64[]`; without types if these are unknown.
        time_ns: from entry to exit, on the host.
        launches, gpu_ns: GPU work that it launched itself, not through another operator.
    """

    row: int
    signature: str
    calls: int
    time_ns: int
    launches: int
    gpu_ns: int


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of a line of the program on one thread, in one state.

    The time of a routine, with what it calls of libraries and C functions, is exact; its division
    among the routine's lines is estimated from looks. Of an exact line the interpreter has told
    when it began; only the division among its expressions and states is estimated.

    Attributes:
        timer: the routine that it is a line of, a position in `Profile.timers`.
        callee: the library's routine that was innermost; None: no such routine ran.
        line, end_line, column, end_column: the range of source text that was at work; lines from
            1, columns in bytes from 0, -1 if they are unknown.
        state: one of `taupy.state.lines.STATES`.
        time_ns: its part of the routine's exact time.
        seen_ns, squares: the time since the previous look, summed over its looks, and the sum of
            their squares [ns2]. The standard error follows from them (`analysis/line_times.py`).
        count: how often an exact line has begun, which the first of its rows has, the others 0;
            None: it is an estimate.
        inclusive_ns: likewise, its time with all routines that it calls.
        text_hash, context_hash: of its text, and of its text with the lines around it; None: the
            source is unknown.
    """

    timer: int
    callee: int | None
    line: int
    end_line: int
    column: int
    end_column: int
    state: str
    looks: int
    time_ns: int
    seen_ns: int
    squares: float
    text_hash: int | None = None
    context_hash: int | None = None
    count: int | None = None
    inclusive_ns: int | None = None


LEAST_LOOKS = 10
"""With fewer looks nothing is said about a line."""


@dataclass(slots=True)
class ThreadProfile:
    """Everything measured on one thread."""

    thread: Thread
    tree: CallTree
    user_events: list[UserEvent] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    activities: Iterable[Activity] = field(default_factory=list)  # can be read only once
    samples: list[Samples] = field(default_factory=list)  # for some of its user events
    steps: list[Steps] = field(default_factory=list)  # one per kind
    collectives: list[Collectives] = field(default_factory=list)  # one per communicator
    stretches: Stretches | None = None
    inputs: list[OperatorInput] = field(default_factory=list)
    lines: list[LineTime] = field(default_factory=list)


@dataclass(slots=True)
class Profile:
    """One trial, or the part of it that some processes contributed.

    Attributes:
        uuid: identity of the trial, preserved by merging and moving (UUIDv7 text).
            Parts of one trial (ranks of a parallel job) share it.
        name: the trial's name, None to let the database number it.
        started_at: seconds since the epoch, UTC.
        exit_code: of the launched process; negative if killed by that signal;
            None if its end was not seen.
        state: "incomplete" if the launched process was cut off, or a child is still running.
        metadata: name -> value of the trial.
        node_metadata: node -> name -> value.
        devices: the GPUs that the nodes used.
        layers: of networks, one per layer and node.
        modules: the code that nodes loaded onto GPUs.
        sources: files of the program's own.
        source: "taupy run", or the imported file.
    """

    uuid: str
    application: str
    experiment: str
    started_at: float
    duration_ns: int
    timers: list[Timer]
    threads: list[ThreadProfile]
    metrics: list[Metric] = field(default_factory=lambda: [TIME])
    name: str | None = None
    exit_code: int | None = None
    state: TrialState = "complete"
    source: str = "taupy run"
    metadata: dict[str, str] = field(default_factory=dict)
    node_metadata: dict[int, dict[str, str]] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    layers: list[LayerFacts] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    sources: list[SourceFile] = field(default_factory=list)
