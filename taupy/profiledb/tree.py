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

from taupy.model.forest import places_of
from taupy.profiledb.database import ProfileDB

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
    parent_id: list[int | None] = field(default_factory=list)
    calls: array[int] = field(default_factory=lambda: array("q"))
    subroutines: array[int] = field(default_factory=lambda: array("q"))
    inclusive: dict[int, list[float]] = field(default_factory=dict)
    exclusive: dict[int, list[float]] = field(default_factory=dict)

    def parents(self) -> list[int]:
        """Each row's parent row, -1 for a root or if the parent is missing."""
        return places_of(self.parent_id, self.callpath)


def stored_trees(db: ProfileDB, trial_id: int, metrics: Iterable[int]) -> dict[int, StoredTree]:
    """The trees of a trial's threads, by thread id."""
    trees: dict[int, StoredTree] = {}
    for thread, (callpaths, timers, parents, calls, subroutines) in _blocks(
        db, _CALLS, {"trial": trial_id}
    ):
        tree = trees.setdefault(thread, StoredTree())
        tree.callpath.extend(callpaths)
        tree.timer.extend(timers)
        tree.parent_id.extend(parents)
        tree.calls.extend(calls)
        tree.subroutines.extend(subroutines)
    for metric in metrics:
        values: dict[int, tuple[list[Any], list[Any], list[Any]]] = {}
        for thread, columns in _blocks(db, _VALUES, {"trial": trial_id, "metric": metric}):
            for column, block in zip(values.setdefault(thread, ([], [], [])), columns, strict=True):
                column.extend(block)
        for thread, (callpaths, inclusive, exclusive) in values.items():
            tree = trees[thread]
            tree.inclusive[metric] = _placed(inclusive, callpaths, tree.callpath)
            tree.exclusive[metric] = _placed(exclusive, callpaths, tree.callpath)
    return trees


def _blocks(
    db: ProfileDB, sql: str, which: dict[str, int]
) -> Iterator[tuple[int, Iterable[Sequence[Any]]]]:
    """Columns of the rows of each thread, whose id is in the first one, block by block."""
    for block in db.blocks(sql, which):
        threads, *columns = zip(*block, strict=True)
        if threads.count(threads[0]) == len(threads):
            yield threads[0], columns
            continue
        of_thread: dict[int, list[Any]] = {}
        for row in block:
            of_thread.setdefault(row[0], []).append(row[1:])
        for thread, mine in of_thread.items():
            yield thread, zip(*mine, strict=True)


def _placed(values: list[Any], callpaths: list[int], rows: array[int]) -> list[float]:
    """A column for these rows, with the values of these call paths; NaN where there is none.

    Raises:
        KeyError: a call path has no row.
    """
    if None in values:
        values = [math.nan if value is None else value for value in values]
    if callpaths == rows.tolist():
        return values
    of_path = dict(zip(callpaths, values, strict=True))
    column = [of_path.pop(path, math.nan) for path in rows]
    if of_path:
        raise KeyError(next(iter(of_path)))
    return column
