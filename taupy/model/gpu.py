"""What a profile holds about GPUs: devices, summed launches, and single activities.

In TAU's model a GPU is a context (1 + its ordinal) of the node that uses it, a stream is
a thread of that context (`Thread.kind == "stream"`), and a kernel or a copy is a timer
(groups GPU_KERNEL, GPU_COPY, GPU_SYNC) on it. The tree of such a thread repeats the host's
call path down to the launching routine: those rows have `calls` 0 and `exclusive` 0, and
an `inclusive` equal to the GPU time of work launched from there. The invariants of summed values
thus hold on streams as on host threads, and equal call paths have equal ids in the database.
Work without a known launching call path is placed under the timer `NO_OWNER`.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.dataclass import NamedTuple, dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.model.kinds import ActivityKind

NO_OWNER = "(launched from an unknown place)"
"""Name of the timer (group GPU_NO_OWNER) above GPU work whose launch was not seen."""

BUSY = "taupy.gpu.busy_ns."
"""Metadata of a node, with a GPU's context: the time in which any of its streams worked."""

Extent = tuple[int, int, int]


def extent(x: int | None, y: int | None, z: int | None) -> Extent | None:
    """None if one of the sizes is unknown."""
    return None if x is None or y is None or z is None else (x, y, z)


class Configuration(NamedTuple):
    """How a kernel was launched; None where unknown, or not applicable.

    Attributes:
        grid, block: in blocks and threads.
        registers: per thread, as is `local_bytes`; shared memory is per block.
        occupancy: theoretical, 0 to 1; limiter: what limits it.
    """

    grid: Extent | None = None
    block: Extent | None = None
    registers: int | None = None
    shared_static_bytes: int | None = None
    shared_dynamic_bytes: int | None = None
    local_bytes: int | None = None
    occupancy: float | None = None
    limiter: str | None = None

    @classmethod
    def of_columns(cls, *cells: Any) -> Configuration:
        """From a row of the database, whose extents are three columns each."""
        return cls(extent(*cells[:3]), extent(*cells[3:6]), *cells[6:])

    def __str__(self) -> str:
        """As `128x1x1 blocks of 256x1x1 threads, 64 registers, 49152 B shared`."""
        extents = [
            f"{'x'.join(map(str, extent))} {what}"
            for extent, what in ((self.grid, "blocks"), (self.block, "threads"))
            if extent is not None
        ]
        shared = [size for size in (self.shared_static_bytes, self.shared_dynamic_bytes) if size]
        parts = [" of ".join(extents)] if extents else []
        parts += [] if self.registers is None else [f"{self.registers} registers"]
        parts += [f"{sum(shared)} B shared"] if shared else []
        return ", ".join(parts) or "(no configuration)"


UNCONFIGURED = Configuration()
"""Of copies and memsets, and where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All launches of one kernel or copy with one configuration under one call path.

    Attributes:
        count: number of launches.
        time_ns, minimum_ns, maximum_ns, sum_squares_ns2: GPU time, over the timed launches.
        untimed: launches for which the GPU reported no times.
        row: its call path, a row of the thread's tree (the row of the kernel itself).
        bytes: total moved by copies or set by memsets.
    """

    count: int
    time_ns: int = 0
    minimum_ns: int = 0
    maximum_ns: int = 0
    sum_squares_ns2: float = 0.0
    untimed: int = 0
    row: int = 0
    configuration: Configuration = UNCONFIGURED
    bytes: int | None = None

    @classmethod
    def of_times(cls, times_ns: Sequence[int], count: int) -> Launch:
        """The sums of `count` launches, of which these were timed."""
        return cls(
            count=count,
            time_ns=sum(times_ns),
            minimum_ns=min(times_ns, default=0),
            maximum_ns=max(times_ns, default=0),
            sum_squares_ns2=float(sum(time_ns * time_ns for time_ns in times_ns)),
            untimed=count - len(times_ns),
        )


class Activity(NamedTuple):
    """One launch, copy, wait or API call with its start and end; kept with `--trace`.

    `row` is its call path in the thread's tree; times are nanoseconds since the epoch.
    """

    row: int
    kind: ActivityKind
    start_ns: int
    end_ns: int
    correlation: int | None = None
    bytes: int | None = None
    graph_node: int | None = None


class Fact(NamedTuple):
    """One property of a device; `unit` is empty for names and pure numbers."""

    name: str
    value: str | int | float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """Machine code that a process loaded onto its GPUs.

    Attributes:
        sha256: of the cubin; identifies stored code. None where the cubin was too large to hash
            while the program waited.
        bytes: size of the cubin.
        loads: how often the process loaded this content.
        loaded_ns: time of the first load, since the epoch.
        kept: whether the folder of `--keep-modules` contains a file named after `sha256`.
    """

    node: int
    sha256: str | None
    bytes: int
    loads: int
    loaded_ns: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of one node.

    Attributes:
        ordinal: CUDA's number for it in that process; its streams are on context
            1 + ordinal.
        compute_capability: "9.0"; empty where unknown.
        facts: in display order.
    """

    node: int
    ordinal: int
    name: str
    uuid: str = ""
    compute_capability: str = ""
    facts: tuple[Fact, ...] = field(default_factory=tuple)
