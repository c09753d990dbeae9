"""A trial's call trees as columns, directly from the tables.

One pass over the calls and one over each metric's values, whatever the number of
threads.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from taupy.model.forest import places_of, taken
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reading import Reading

_CALLS = """
    SELECT call.thread_id, call.callpath_id, callpath.timer_id, callpath.parent_id,
           call.calls, call.subroutines
      FROM call CROSS JOIN callpath
     WHERE call.trial_id = :trial AND callpath.id = call.callpath_id
     ORDER BY call.callpath_id, call.thread_id
"""

_VALUES = """
    SELECT thread_id, callpath_id, inclusive, exclusive
      FROM interval_value
     WHERE trial_id = :trial AND metric_id = :metric
     ORDER BY callpath_id, thread_id
"""


@dataclass(slots=True)
class StoredTree:
    """The call paths of one thread, in the order of their ids.

    Attributes:
        callpath, timer: ids.
        parent_id: id of the parent call path, None for a root.
        inclusive, exclusive: by metric id, one column per requested metric; NaN
            where a row has no value.
    """

    callpath: array[int] = field(default_factory=lambda: array("q"))
    timer: array[int] = field(default_factory=lambda: array("q"))
    parent_id: Sequence[int | None] = ()
    calls: array[int] = field(default_factory=lambda: array("q"))
    subroutines: array[int] = field(default_factory=lambda: array("q"))
    inclusive: dict[int, Sequence[float]] = field(default_factory=dict)
    exclusive: dict[int, Sequence[float]] = field(default_factory=dict)

    def parents(self) -> list[int]:
        """Each row's parent row, -1 for a root or if the parent is missing."""
        return places_of(self.parent_id, self.callpath)


def stored_trees(db: ProfileDB, trial_id: int, metrics: Iterable[int]) -> dict[int, StoredTree]:
    """The trees of a trial's threads, by thread id."""
    sql = _CALLS.replace(":trial", str(trial_id))
    reading = Reading(sql, "", "callpath", (trial_id,), (), columns=6, keys=2, integers=6)
    trees: dict[int, StoredTree] = {}
    for thread, (callpaths, timers, parents, calls, subroutines) in _of_threads(db, reading):
        trees[thread] = StoredTree(
            array("q", callpaths), array("q", timers), parents,
            array("q", calls), array("q", subroutines),
        )  # fmt: skip
    for metric in metrics:
        sql = _VALUES.replace(":trial", str(trial_id)).replace(":metric", str(metric))
        reading = Reading(
            sql, "", "callpath", (trial_id,), (metric,), columns=4, keys=2, integers=2
        )
        for thread, (callpaths, inclusive, exclusive) in _of_threads(db, reading):
            tree = trees[thread]
            ids = array("q", callpaths)
            tree.inclusive[metric] = _placed(inclusive, ids, tree.callpath)
            tree.exclusive[metric] = _placed(exclusive, ids, tree.callpath)
    return trees


def _of_threads(db: ProfileDB, reading: Reading) -> Iterator[tuple[int, list[Sequence[Any]]]]:
    """The columns of each thread, whose id is in the first one."""
    threads, *columns = db.columns(reading) or [()]
    if len({*threads}) == 1:
        yield threads[0], columns
        return
    rows_of: dict[int, array[int]] = {}
    for row, thread in enumerate(threads):
        rows_of.setdefault(thread, array("q")).append(row)
    for thread, rows in rows_of.items():
        own: list[Sequence[Any]] = [
            taken(column, rows) if isinstance(column, array) else [column[row] for row in rows]
            for column in columns
        ]
        yield thread, own


def _placed(
    values: Sequence[Any], callpaths: Sequence[int], rows: Sequence[int]
) -> Sequence[float]:
    """A column for these rows, with the values of these call paths; NaN where there is none.

    Raises:
        KeyError: a call path has no row.
    """
    if not isinstance(values, array):
        values = [math.nan if value is None else value for value in values]
    if callpaths == rows:
        return values
    of_path = dict(zip(callpaths, values, strict=True))
    column = [of_path.pop(path, math.nan) for path in rows]
    if of_path:
        raise KeyError(next(iter(of_path)))
    return column
