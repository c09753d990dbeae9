"""The tree of a thread of a part, column by column with NumPy (`small_tree.py` needs none): equal
call paths are merged, library code is folded, further metrics and compensated times are added."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taupy.dataclass import dataclass
from taupy.instrument.runfolder import RunSettings
from taupy.model.metric import CPU_TIME
from taupy.model.profile import CallTree
from taupy.record.rows import (
    Rows,
    folded,
    merged,
    merged_in_order,
    sums_below,
    totals,
    whole_and_own,
    whole_and_own_where_counted,
)
from taupy.record.small_tree import COMPENSATED, RANGES

if TYPE_CHECKING:
    from typing import Protocol

    from taupy.model.gpu import Activity
    from taupy.model.profile import Timer
    from taupy.record.part_data import Column, PartThread
    from taupy.record.part_spans import PartSpans

    class Timers(Protocol):
        """All timers of the profile, which of them are library code, and the root's position."""

        timers: list[Timer]
        library: list[bool]
        root: int


@dataclass(frozen=True, slots=True)
class RoutineTimers:
    """The timers of a process's routines, computed once for all its threads.

    Attributes:
        timer: of each routine; the last entry, at -1, is the root's.
        ranges: timers of ranges.
        are_shared: several routines have the same timer.
    """

    timer: Column
    ranges: frozenset[int]
    are_shared: bool

    @classmethod
    def of(cls, timer_of: list[int], timers: Timers) -> RoutineTimers:
        named = set(timer_of)
        ranges = (at for at in named if not RANGES.isdisjoint(timers.timers[at].groups))
        whole = np.array([*timer_of, timers.root], "i8")
        return cls(whole, frozenset(ranges), len(named) < len(timer_of))


def tree(
    thread: PartThread, routines: RoutineTimers, timers: Timers, settings: RunSettings
) -> tuple[CallTree, Sequence[int]]:
    """The thread's tree, and for each row of the part, its row in the tree."""
    rows, row_of = _rows(thread, routines, timers, settings)
    rows_of: Sequence[int] = row_of  # type: ignore[assignment]
    parent = rows.parent
    measured = CallTree(
        _column(rows.timer),
        _column(parent),
        _column(rows.calls),
        _column(sums_below(rows.calls, parent)),
    )
    everywhere = {metric.name for metric in thread.metrics if metric.at_calls}
    for name, column in rows.further.items():
        pair: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
        if name == CPU_TIME.name:
            column[0] = thread.cpu_ns
        if rows.counted is not None and name not in everywhere:
            pair = whole_and_own_where_counted(column, parent, rows.counted)
        else:
            pair = whole_and_own(column, parent)
        measured.inclusive[name], measured.exclusive[name] = map(_column, pair)
    if thread.native:  # the time by routine is unknown
        return measured, rows_of
    whole, own = whole_and_own(rows.inclusive, parent)
    measured.inclusive["time"], measured.exclusive["time"] = _column(whole), _column(own)
    if settings.compensate and settings.overhead:
        own = _compensated(rows, own, settings.overhead)
        measured.inclusive[COMPENSATED.name] = _column(totals(own, parent))
        measured.exclusive[COMPENSATED.name] = _column(own)
    return measured, rows_of


def activities(
    thread: PartThread,
    spans: PartSpans,
    routines: RoutineTimers,
    tree: CallTree,
    row_of: Sequence[int],
) -> Iterable[Activity]:
    """The spans of a thread, at the rows of its tree whose timer is still the one of the routine.

    Args:
        row_of: as returned by `tree`.
    """
    rows = np.asarray(row_of)
    kept = routines.timer[np.asarray(thread.routine)] == np.array(tree.timer)[rows]
    return spans.activities(rows, kept)


def _rows(
    thread: PartThread, routines: RoutineTimers, timers: Timers, settings: RunSettings
) -> tuple[Rows, Column]:
    """The thread's call paths by timer, and for each row of the part, its row among them."""
    rows = Rows(
        timer=routines.timer[np.asarray(thread.routine)],
        parent=np.asarray(thread.parent),
        calls=np.asarray(thread.calls),
        resumes=np.asarray(thread.resumes),
        inclusive=np.asarray(thread.inclusive),
        further=_further(thread, settings),
        counted=thread.counted,
    )
    width = len(timers.timers)
    row_of = np.arange(len(rows))
    ranges = routines.ranges
    if ranges and not ranges.isdisjoint(
        rows.timer[(rows.calls == 0) & (rows.parent >= 0)].tolist()
    ):
        rows, row_of = merged_in_order(rows, width, ranges)
    elif ranges or routines.are_shared:
        rows, row_of = merged(rows, width)
    if settings.fold_libraries:
        rows, went = folded(rows, timers.library)
        rows, again = merged(rows, width)
        row_of = again[went[row_of]]
    return rows, row_of


def _column(values: np.ndarray[Any, Any]) -> array[Any]:
    """A column of the model."""
    column: array[Any] = array("d" if values.dtype.kind == "f" else "q")
    column.frombytes(values.tobytes())
    return column


def _compensated(rows: Rows, exclusive: Column, overhead: dict[str, float]) -> Column:
    """Exclusive times minus the overhead of measuring."""
    inner = overhead["inner_ns"]
    outer = max(0.0, overhead["call_ns"] - inner)
    entries = rows.calls + rows.resumes
    own = exclusive - inner * entries - outer * sums_below(entries, rows.parent)
    compensated: Column = np.maximum(np.rint(own), 0).astype("i8")
    compensated[0] = exclusive[0]
    return compensated


def _further(thread: PartThread, settings: RunSettings) -> dict[str, Column]:
    """The thread's columns other than time, without unreliable counters."""
    further = {metric.name: column for metric, column in thread.metrics.items()}
    if thread.refused is None:
        names = [name for name, _ in settings.engine_options.get("counter_metrics", ())]
        further.update(zip(names, thread.counters, strict=False))
    return further
