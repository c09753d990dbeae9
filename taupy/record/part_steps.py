"""Steps of a part: convert the rows of `_native/step_rows.h` to columns of the model."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taupy.errors import FormatError
from taupy.model.kinds import StepKind
from taupy.model.metric import OF_STEPS, STATED
from taupy.model.profile import UNKNOWN, Steps
from taupy.network.phases import KINDS
from taupy.record.engine_layout import Array

_KINDS: tuple[StepKind, ...] = ("training", "validation")
_LARGEST = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Clock:
    """The engine's clock: a moment in its ticks and since the epoch, and a tick's length."""

    ticks: int
    epoch_ns: int
    ns_per_tick: float

    def span(self, ticks: Array) -> array[int]:
        """Convert durations in ticks to nanoseconds."""
        return _whole(ticks * self.ns_per_tick)

    def moment(self, ticks: Array) -> array[int]:
        """Nanoseconds since the epoch."""
        since = np.maximum(ticks.astype("i8") - self.ticks, 0) * self.ns_per_tick
        return _whole(self.epoch_ns + since.astype("i8"))


@dataclass(frozen=True, slots=True)
class PartSteps:
    """The steps of one kind, and the increase of each counter, in the order of the engine's."""

    steps: Steps
    counters: list[array[float]]

    def named(self, counters: Sequence[str]) -> Steps:
        """The steps with their counters under these names; stated work gives way to counters."""
        for name, column in zip(counters, self.counters, strict=False):
            if not np.isnan(column).all():
                self.steps.metrics[name] = column
        return self.steps


def series(kind: int, rows: Array, clock: Clock, names: Mapping[int, str]) -> PartSteps:
    """The steps of one kind.

    Args:
        kind: as in the part: 0 for training.
        rows: of STEP, as stored; rows without steps, and rows that were being merged when
            the process was killed, are left out.
        names: of values, by their position in a row.

    Raises:
        FormatError: no process can have measured such values.
    """
    rows = _once(rows[rows["count"] > 0])
    if kind >= len(_KINDS) or (rows["ticks"] > _LARGEST / max(clock.ns_per_tick, 1)).any():
        raise FormatError("impossible steps")
    steps = Steps(_KINDS[kind])
    steps.number = _whole(rows["number"])
    steps.count = _whole(rows["count"])
    steps.start_ns = clock.moment(rows["start"])
    steps.time_ns = clock.span(rows["ticks"])
    steps.longest_ns = clock.span(rows["longest"])
    is_known = rows["samples"] <= _LARGEST
    steps.samples = _whole(np.where(is_known, rows["samples"].astype("i8"), UNKNOWN))
    for place, name in enumerate(KINDS):
        if rows["phases"][:, place].any():
            steps.phases[name] = clock.span(rows["phases"][:, place])
    for place, name in sorted(names.items()):
        if place < rows["values"].shape[1] and not np.isnan(rows["values"][:, place]).all():
            steps.values[name] = array("d", rows["values"][:, place].tobytes())
    used = [_used(rows["metrics"][:, place]) for place in range(rows["metrics"].shape[1])]
    for metric, column in zip(
        (*OF_STEPS, *STATED), (*used[: len(OF_STEPS)], *used[-len(STATED) :]), strict=True
    ):
        if not np.isnan(column).all():
            steps.metrics[metric.name] = column
    return PartSteps(steps, used[len(OF_STEPS) : -len(STATED)])


def _used(column: Array) -> array[float]:
    """What was used in each row; NaN where it is unknown."""
    is_known = (column >= 0) & (column <= _LARGEST)
    return array("d", np.where(is_known, column, np.nan).tobytes())


def _once(rows: Array) -> Array:
    """Drop rows whose steps an earlier row already contains, as pairs were being merged."""
    until = np.maximum.accumulate(rows["number"] + rows["count"])
    begins_behind = np.concatenate([[True], rows["number"][1:] >= until[:-1]])
    kept: Array = rows[begins_behind]
    return kept


def _whole(column: Array) -> array[int]:
    return array("q", column.astype("i8").tobytes())
