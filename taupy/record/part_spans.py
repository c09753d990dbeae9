"""Spans of a part: convert starts and ends of layers, phases and calls to activities of the model.

They are recorded where the engine adds to a call path's time (`_native/spans.h`), so the spans of
a layer's or phase's call path add up to its time, except for rounding by up to a nanosecond per
span. Of routines there are the long calls only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taupy.errors import FormatError
from taupy.model.gpu import Activity
from taupy.record.engine_layout import Array
from taupy.record.part_steps import Clock

_LARGEST = (1 << 62) - 1
_ENDS = {
    1: "the limit `trace_spans` was reached; --steps A:B records the spans of some steps only",
    2: "there was no memory for it",
}


@dataclass(slots=True)
class PartSpans:
    """The spans of one thread, as stored in the part.

    Attributes:
        row: row of the thread in the part.
        start, end: ticks.
        is_open: the span had not ended when the part was last written.
        is_call: it is a long call of a routine.
        late_ns: how much longer open spans lasted.
    """

    clock: Clock
    row: Array
    start: Array
    end: Array
    is_open: Array
    is_call: Array
    late_ns: int = 0

    def check(self) -> None:
        """Raises FormatError if no process can have measured such values."""
        if (self.end < self.start).any() or (self.end > _LARGEST).any():
            raise FormatError("impossible spans")

    def activities(self, row_of: Array, kept: Array) -> Activities:
        """The spans as activities of the profile's thread.

        Args:
            row_of: for each row of the part, the row of the profile into which it was merged.
            kept: for each row of the part, whether that row of the profile has the same timer.
        """
        keep = kept[self.row]
        rows = row_of[self.row[keep]]
        start = np.frombuffer(self.clock.moment(self.start[keep]), "i8")
        end = np.frombuffer(self.clock.moment(self.end[keep]), "i8")
        end = end + np.where(self.is_open[keep], self.late_ns, 0)
        order = np.lexsort((-end, start))
        columns = rows, start, end, self.is_call[keep]
        return Activities(*(_whole(column[order]) for column in columns))


@dataclass(frozen=True, slots=True)
class Activities:
    """Spans sorted by start, outer ones first."""

    row: array[int]
    start_ns: array[int]
    end_ns: array[int]
    is_call: array[int]

    def __iter__(self) -> Iterator[Activity]:
        columns = self.row, self.start_ns, self.end_ns, self.is_call
        for row, start, end, is_call in zip(*columns, strict=True):
            yield Activity(row, "call" if is_call else "range", start, end)


def cut_off(reason: int, after_ns: int) -> str:
    """A message about a timeline that ends before the process does."""
    why = _ENDS.get(reason, "the reason is not known")
    return f"the timeline ends {after_ns / 1e9:.3f} s after the process began: {why}"


def _whole(column: Array) -> array[int]:
    return array("q", column.astype("i8").tobytes())
