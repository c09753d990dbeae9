"""The rows of a sweep's operations, besides `Scaled` and `Correlation`: fields are columns."""

from __future__ import annotations

from typing import NamedTuple

from taupy.comparison.trial_values import Where


class TimerRow(NamedTuple):
    """A routine or phase at one value. `share`: of the program's total, 0 to 1."""

    series: str
    timer: str
    where: Where
    value: str
    runs: int
    calls: float
    median: float
    minimum: float
    maximum: float
    share: float | None
    speedup: float | None
    efficiency: float | None


class StepsRow(NamedTuple):
    """The steps of a training at one value: medians over its runs, as in `taupy steps`.

    `step`: of the slowest rank; rates are sums over the ranks, and `memory` is the largest seen in
    any step of any rank. None: unknown.
    """

    series: str
    value: str
    runs: int
    steps: float
    step: float
    samples_per_second: float | None
    tokens_per_second: float | None
    memory: float | None
    gpu_memory: float | None


class BalanceRow(NamedTuple):
    """Load balance of a routine over threads, nodes or GPUs, in the median run of a value.

    `timer` is empty for the whole program; see `scaling.Balance`.
    """

    series: str
    value: str
    trial: int
    over: str
    timer: str
    parts: int
    mean: float
    minimum: float
    maximum: float
    stddev: float
    imbalance: float
    lost: float


class OutlierRow(NamedTuple):
    """An outlier: a run, or a thread of a run. `score`: modified z-score."""

    series: str
    value: str
    trial: int
    what: str
    among: int
    measured: float
    median: float
    score: float


class TopRow(NamedTuple):
    """One of the routines with the largest exclusive value at one value of the parameter."""

    series: str
    value: str
    rank: int
    timer: str
    where: Where
    calls: float
    median: float
    share: float | None
    cumulative: float | None
