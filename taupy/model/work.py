"""Work of a trial: operations and bytes, what performed them, and in what time.

The rows behind a roofline: `profiledb.roofline_query` reads them, `roofline`
plots them. Values are sums over launches or calls in the metric's own unit; a metric that
is not in a row's `values` was not measured there: absent is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from taupy.model.machine import Ceiling

Tier = Literal["measured", "analytic", "unknown"]
"""Where a number comes from: counted by hardware, derived from shapes, or unknown."""

PRECISION_OF = {
    "flop": "any",
    "flop_fp64": "fp64",
    "flop_fp32": "fp32",
    "flop_fp16": "fp16",
    "flop_bf16": "bf16",
    "flop_tensor": "tensor",
    "flop_tensor_fp64": "tensor fp64",
    "flop_tensor_tf32": "tensor tf32",
    "flop_tensor_fp16": "tensor fp16",
    "flop_tensor_bf16": "tensor bf16",
    "flop_tensor_fp8": "tensor fp8",
    "flop_tensor_fp4": "tensor fp4",
    "flop_tensor_int8": "tensor int8",
}
"""Metric -> precision, the name of its ceiling; "any" and "tensor" where unknown."""

GPU_PRECISIONS = ("fp64", "fp32", "fp16", "tensor")
"""The separately counted metrics that add up to all floating-point operations of a kernel."""

LEVEL_OF = {
    "bytes_l1": "L1",
    "bytes_shared": "shared",
    "bytes_l2": "L2",
    "bytes_l3": "L3",
    "bytes_dram": "DRAM",
    "bytes_dram_read": "DRAM",
}
"""Metric -> memory level, the name of its ceiling; near levels first."""

LEVELS = ("L1", "shared", "L2", "L3", "DRAM")

PER_SECOND = " per second"
"""Suffix of user events with the rate of a metric, for launches of unknown duration."""

COUNTED_TIME = "counted_time"
COUNTED_LAUNCHES = "counted_launches"

COUNTED_OPERATIONS = "Counted Operations"
"""Metadata of trials whose flop are derived from shapes at run time."""

COUNTED_PROGRAM = "Counted Program"
"""Metadata with the script that ran inside `taupy.count`."""

BLAS_ALONE = "taupy.option.analytic"
"""Metadata that names the library whose calls were counted."""

UNCOUNTED = "Operations Not Counted"
"""Metadata with the names of operations that had no formula."""

TENSOR_INSTRUCTIONS = "inst_tensor"
"""Metric that, if 0, shows that tensor cores did nothing."""

METRICS = (*PRECISION_OF, *LEVEL_OF, COUNTED_TIME, COUNTED_LAUNCHES, TENSOR_INSTRUCTIONS)
"""All metrics that a roofline may need, besides `time`."""

LAUNCHES_GROUP = "GPU_LAUNCHES"
"""Group of timers above similar launches of a kernel, in files that list single launches."""


class Place(NamedTuple):
    """A timer as rows refer to it: by its position in `TrialWork.timers`."""

    name: str
    short: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class KernelWork:
    """Launches of one kernel under one call path, on one stream.

    Attributes:
        timer: of the kernel.
        owners: timers of the call path above it, the nearest first.
        time_ns: of all `calls`, as timed in the trial; if only the counted ones were timed, by
            their mean.
        values: metric -> sum over the counted launches.
        per_second: metric -> mean rate of launches of unknown duration.
    """

    timer: int
    owners: tuple[int, ...]
    calls: int
    time_ns: float
    values: Mapping[str, float]
    per_second: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoutineWork:
    """One routine on one host thread: its own work, and its work including everything it called."""

    timer: int
    thread: tuple[int, int, int]
    calls: int
    exclusive_ns: float
    inclusive_ns: float
    exclusive: Mapping[str, float]
    inclusive: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NotedWork:
    """Work reported by the program itself: user events named like taupy's metrics.

    Attributes:
        owners: timers of the call path that reported it, the nearest first.
        lacks_formulas: other operations of theirs, without a formula, are not in it.
    """

    metric: str
    value: float
    owners: tuple[int, ...]
    lacks_formulas: bool = False


@dataclass(frozen=True, slots=True)
class StepWork:
    """A row of steps: the work of its own thread.

    Attributes:
        name: `step 12`, `validation step 3`; with the thread if several have steps.
        calls: number of steps.
    """

    name: str
    thread: tuple[int, int, int]
    calls: int
    time_ns: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrialWork:
    """All work of one trial.

    Attributes:
        name: application/experiment/trial.
        metrics: names of the trial's metrics.
        gpus: names of the GPUs that ran kernels; `processor`: the CPU's model.
        wall_ns: of the longest host thread; 0 if no host thread was timed.
        steps: only if they were asked for (`step_work`).
        ceilings: supplied by the trial itself, at the clocks it ran at.
        source: where the trial comes from: "run", "import ncu-csv: FILE" ...
        rank: the rank whose work it is; None for that of all ranks.
        knows_layers_alone: nothing was counted or stated but the flop of layers, which taupy
            derives from shapes.
    """

    trial_id: int
    name: str
    application: str
    metrics: tuple[str, ...]
    metadata: Mapping[str, str]
    gpus: tuple[str, ...]
    processor: str
    wall_ns: float
    timers: tuple[Place, ...]
    kernels: tuple[KernelWork, ...] = ()
    routines: tuple[RoutineWork, ...] = ()
    noted: tuple[NotedWork, ...] = ()
    steps: tuple[StepWork, ...] = ()
    health: tuple[str, ...] = field(default_factory=tuple)
    ceilings: tuple[Ceiling, ...] = ()
    source: str = ""
    rank: int | None = None
    knows_layers_alone: bool = False

    @property
    def is_stated_twice(self) -> bool:
        """Whether work was stated as operations, and again as the BLAS calls in them."""
        return COUNTED_OPERATIONS in self.metadata and BLAS_ALONE in self.metadata
