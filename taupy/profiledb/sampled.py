"""User events sampled at call paths, grouped by the labels of a dimension.

    sampled_by(db, 7, HOST.grown, "layer", {})      growth of memory by layer
    waits_by(db, 7, "GPU_SYNC", "routine")              time of calls that wait, by caller

A sample belongs to the label of its call path, and also lies within the labels of all call paths
above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from taupy.model import callpaths
from taupy.model.question import Condition, Question, Value
from taupy.model.rows import ThreadRow
from taupy.model.table import Table
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import dimension, following, labels, written
from taupy.profiledb.values import values

BY = ("routine", "callpath", "file", "module", "operator", "outer_operator", "layer", "layer_type",
      "phase", "thread", "node", "rank")  # fmt: skip
"""Dimensions in which each call path of a thread has one label, so that rows add up."""

_OF_THREADS = ("thread", "node", "rank")
_ADDED: tuple[Value, ...] = ("event.count", "event.total")


@dataclass(frozen=True, slots=True)
class Sampled:
    """The samples under one label.

    Attributes:
        count: samples by event.
        own: their totals by event; within: the totals including callees.
    """

    count: dict[str, int] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    within: dict[str, float] = field(default_factory=dict)


class Peak(NamedTuple):
    """Where a thread was when its process used the most memory; innermost routine first.

    Attributes:
        most: the amount [KiB].
    """

    thread: ThreadRow
    routines: list[str]
    phase: str | None
    layer: str | None
    most: float | None


def sampled_by(
    db: ProfileDB, trial_id: int, names: Sequence[str], by: str, apart: Mapping[str, str]
) -> dict[str, Sampled]:
    """The samples of these events by label of a dimension; empty if there are none.

    Args:
        by: one of `BY`.
        apart: events that occurred somewhere within their call paths, with the label under which
            their own totals count instead of the call path's label.
    """
    table = values(db, _question(trial_id, names, "thread", "callpath", "event"))
    events = [event.name for event in table.row_labels("event")]
    labels_of = _labels(db, trial_id, by, table, "callpath")
    rows = list(zip(events, labels_of, strict=True))
    own = [[(apart.get(event, mine[0]), event)] for event, mine in rows]
    within = [[(label, event) for label in mine] for event, mine in rows]
    sums: dict[str, Sampled] = {}
    for (label, event), (count, total) in _summed(table, own).items():
        entry = sums.setdefault(label, Sampled())
        entry.count[event], entry.own[event] = int(count or 0), total or 0
    for (label, event), (_, total) in _summed(table, within).items():
        sums.setdefault(label, Sampled()).within[event] = total or 0
    return sums


def _summed(table: Table, keys: Sequence[Sequence[tuple[str, str]]]) -> dict[tuple[str, str], Any]:
    """The count and total per key; a row may have several keys."""
    numbers: dict[tuple[str, str], int] = {}
    groups = [[numbers.setdefault(key, len(numbers)) for key in mine] for mine in keys]
    columns = callpaths.grouped(table, [-1] * table.size, groups, len(numbers))
    pairs = zip(*(columns[table.named(value)] for value in _ADDED), strict=True)
    return dict(zip(numbers, pairs, strict=True))


def looks(db: ProfileDB, trial_id: int, names: Sequence[str]) -> tuple[int, float]:
    """The number of samples of these events, and their total."""
    table = values(db, _question(trial_id, names, "trial"))
    pairs = zip(*(table.column(value) for value in _ADDED), strict=True)
    count, total = next(pairs, (None, None))
    return int(count or 0), total or 0


def peaks(db: ProfileDB, trial_id: int, event: str) -> list[Peak]:
    """Where threads were when memory use peaked."""
    question = _question(trial_id, (event,), "thread", "callpath", "phase", "layer")
    table = values(db, replace(question, values=("event.most",)))
    above = Ancestry.of(db, table.row_labels("callpath"))
    columns = (table.row_labels(name) for name in ("thread", "callpath", "phase", "layer"))
    return [
        Peak(thread, [above.timers[id].short_name for id in above.up(path)], phase, layer, most)
        for thread, path, phase, layer, most in zip(
            *columns, table.column("event.most"), strict=True
        )
    ]


def waits_by(db: ProfileDB, trial_id: int, group: str, by: str) -> dict[str, float]:
    """Exclusive times [ns] of a group's timers on host threads, by label of their callers."""
    where = (Condition("group", (group,)), Condition("kind", ("host",)))
    question = Question((trial_id,), by=("thread", "callpath", "parent"), where=where)
    table = values(db, question)
    numbers: dict[str, int] = {}
    groups = [
        numbers.setdefault(mine[0], len(numbers))
        for mine in _labels(db, trial_id, by, table, "parent")
    ]
    times = table.summed(groups, len(numbers))[table.named("exclusive", "time")]
    return {label: time or 0 for label, time in zip(numbers, times, strict=True)}


def _question(trial_id: int, names: Sequence[str], *by: str) -> Question:
    where = (Condition("event", tuple(names)),)
    return Question((trial_id,), (), by, where, values=_ADDED)


def _labels(db: ProfileDB, trial_id: int, by: str, table: Table, of: str) -> list[list[str]]:
    """For each row, the label of its call path, followed by those of the call paths above."""
    if by in _OF_THREADS:
        _, of_thread = following(db, trial_id, by)
        return [[_place(by, thread, *of_thread[thread])] for thread in table.row_labels("thread")]
    ids = table.row_labels(of)
    above = Ancestry.of(db, ids)
    named = _names(db, by, above)
    return [list(dict.fromkeys(named(id))) or [f"(no {by})"] for id in ids]


def _place(by: str, thread: ThreadRow, text: str) -> str:
    return f"{text} {thread.name}".strip() if by == "thread" else text


def _names(db: ProfileDB, by: str, above: Ancestry) -> Callable[[int | None], Iterable[str]]:
    """A function that returns the labels of a call path and those above, nearest first."""
    if by == "callpath":
        return lambda path: [] if path is None else [" => ".join(above.names(path))]
    if by == "routine":
        return lambda path: (above.timers[id].timer for id in above.up(path))
    if dimension(by).of == "timer":
        of_timer = labels(db, by, list(above.timers))
        return lambda path: (written(by, of_timer[id][0]) for id in above.up(path))
    of_path = labels(db, by, list(above.steps))
    return lambda path: (of_path[id][0] for id in above.ids(path) if of_path[id][0] is not None)
