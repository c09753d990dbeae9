"""Sums over call paths that several metrics cover: a ratio needs both on the same call paths.

On a GPU stream, the time of a kernel that was not counted must not enter a ratio. On a host
thread, counters may be read at some routines only: their counts belong to the time of everything
they called, up to the next such routine. And where a process was forked, routines were open that
its parent had called: over threads, only what the child spent in them itself is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taupy.dataclass import replace
from taupy.model import callpaths
from taupy.model.forest import preorder
from taupy.model.table import Amount, Column, Table
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import listed
from taupy.profiledb.reading import Reading

# The sum distinguishes sets of call paths of equal size.
_COVERAGE = """
    SELECT value.thread_id, value.metric_id, count(*), sum(value.callpath_id & 16777215)
      FROM interval_value AS value
     WHERE {trials} AND value.metric_id IN ({metrics}) AND value.exclusive IS NOT NULL
     GROUP BY value.trial_id, value.metric_id, value.thread_id
"""

_FORKING = """
    SELECT thread.id FROM thread
     WHERE thread.kind = 'host' AND thread.trial_id IN ({trials}) AND thread.trial_id IN (
           SELECT forked.trial_id FROM thread AS forked
            WHERE forked.trial_id IN ({trials}) AND forked.kind = 'host'
            GROUP BY forked.trial_id HAVING min(forked.node) < max(forked.node))
"""
_NOT_CALLED = """
    SELECT call.thread_id FROM timer_call AS call
     WHERE {trials} AND call.calls = 0
     GROUP BY call.thread_id
"""


def forked_threads(db: ProfileDB, trials: Sequence[int]) -> set[int]:
    """The threads on which routines were open, but not called, of trials of several processes."""
    several = {thread for (thread,) in db.rows(_FORKING.replace("{trials}", listed(trials)))}
    if not several:
        return several
    of_trials = f"call.trial_id IN ({listed(trials)})"
    reading = Reading(
        _NOT_CALLED.replace("{trials}", of_trials), _NOT_CALLED.replace("{trials}", "1 = 1"),
        "timer", trials, (), columns=1, keys=1, integers=1,
    )  # fmt: skip
    return several.intersection(*(db.columns(reading) or [()]))


def called(
    table: Table, parent: Sequence[int], is_stream: Sequence[bool]
) -> tuple[Table, Sequence[int]]:
    """A table of call paths, and each row's parent, without what forks left open: of such rows,
    only the exclusive values are kept, and what they call begins there."""
    calls, threads = table.column("calls"), table.codes["thread"]
    counted = {thread for thread, count in zip(threads, calls, strict=True) if count}
    is_open = [
        not count and not stream and thread in counted
        for count, stream, thread in zip(calls, is_stream, threads, strict=True)
    ]
    if not any(is_open):
        return table, parent
    columns = dict(table.columns)
    for name, values in table.columns.items():
        if name.value == "inclusive":
            own = table.columns[name._replace(value="exclusive")]
            columns[name] = [
                part if here else value
                for here, part, value in zip(is_open, own, values, strict=True)
            ]
    cut = [-1 if above < 0 or is_open[above] else above for above in parent]
    return replace(table, columns=columns), cut


def uneven_threads(db: ProfileDB, trials: Sequence[int], metrics: Iterable[int]) -> set[int]:
    """The threads on which the metrics cover different call paths."""
    ids = list(metrics)
    if len(ids) < 2:
        return set()
    covered: dict[int, tuple[int, int]] = {}
    sql = _COVERAGE.replace("{metrics}", listed(ids))
    of_trials = f"value.trial_id IN ({listed(trials)})"
    reading = Reading(
        sql.replace("{trials}", of_trials), sql.replace("{trials}", "1 = 1"),
        "callpath", trials, ids, columns=4, keys=2, integers=4,
    )  # fmt: skip
    return {
        thread
        for thread, _, count, check in zip(*db.columns(reading), strict=True)
        if covered.setdefault(thread, (count, check)) != (count, check)
    }


def together(
    table: Table, parent: Sequence[int], is_stream: Sequence[bool]
) -> dict[Column, Sequence[Amount]]:
    """The columns of a table of call paths, summed over rows on which all metrics were measured.

    Args:
        parent: each row's parent row, -1 for a root.
        is_stream: for each row, whether its thread is a GPU stream.
    """
    own = [name for name in table.columns if name.value == "exclusive"]
    whole = [name for name in table.columns if name.value == "inclusive"]
    order = preorder(parent)
    owner = _owners(_complete(table, own), parent, is_stream, order)
    columns = dict(table.columns)
    for name, sums in table.summed(owner, table.size).items():
        if name in own:
            columns[name] = sums
    uneven = _uneven(table, own)
    below = {name.metric: callpaths.rolled_up(columns[name], parent, order) for name in own}
    complete = _complete(table, whole)
    for name in whole:
        stored, summed = table.columns[name], below[name.metric]
        columns[name] = [
            summed[row]
            if is_stream[row] and thread in uneven
            else stored[row] if complete[row] else None
            for row, thread in enumerate(table.codes["thread"])
        ]  # fmt: skip
    return columns


def measured(table: Table) -> list[bool]:
    """For each row, whether it has a value of any metric."""
    columns = [sums for name, sums in table.columns.items() if name.metric]
    return [any(value is not None for value in row) for row in zip(*columns, strict=True)]


def _complete(table: Table, names: Sequence[Column]) -> list[bool]:
    """For each row, whether it has a value in all these columns."""
    columns = [table.columns[name] for name in names]
    return [None not in row for row in zip(*columns, strict=True)]


def _uneven(table: Table, names: Sequence[Column]) -> set[int]:
    """Threads with rows that have values in only some of these columns."""
    columns = [table.columns[name] for name in names]
    return {
        thread
        for thread, row in zip(table.codes["thread"], zip(*columns, strict=True), strict=True)
        if None in row and any(value is not None for value in row)
    }


def _owners(
    complete: Sequence[bool],
    parent: Sequence[int],
    is_stream: Sequence[bool],
    order: Sequence[int],
) -> list[int]:
    """The row to which each row's exclusive values are added; -1 for none."""
    owner = [-1] * len(parent)
    for row in order:
        if complete[row]:
            owner[row] = row
        elif not is_stream[row] and parent[row] >= 0:
            owner[row] = owner[parent[row]]
    return owner
