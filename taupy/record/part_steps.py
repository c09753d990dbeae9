"""Steps of a part: convert the rows of `_native/steps.h` to columns of the model."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from taupy.errors import FormatError
from taupy.model.profile import UNKNOWN, StepKind, Steps
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


def series(kind: int, rows: Array, clock: Clock, names: Mapping[int, str]) -> Steps:
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
    return steps


def _once(rows: Array) -> Array:
    """Drop rows whose steps an earlier row already contains, as pairs were being merged."""
    until = np.maximum.accumulate(rows["number"] + rows["count"])
    begins_behind = np.concatenate([[True], rows["number"][1:] >= until[:-1]])
    kept: Array = rows[begins_behind]
    return kept


def _whole(column: Array) -> array[int]:
    return array("q", column.astype("i8").tobytes())
