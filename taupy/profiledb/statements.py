"""The SQL of a question: sums by id, in the order of the tables' keys.

Written in SQLite's dialect, without features that other engines lack: sqlglot translates it for
them. The text contains ids from the database, but nothing from a user.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from taupy.dataclass import dataclass, replace
from taupy.model.dimension import dimension as unit_of
from taupy.model.question import COUNTS, Value
from taupy.profiledb.dimensions import Id, listed
from taupy.profiledb.measures import MEASURES
from taupy.profiledb.reading import Reading

if TYPE_CHECKING:
    from taupy.model.formula import Sum

_VALUES = {"timer": "timer_value", "callpath": "interval_value"}
_CALLS = {"timer": "timer_call", "callpath": "call"}
_BESIDE = {"launch": "launch", "event": "user_event_value"}
_ITEM = {"launch": "launch.id", "event": "event.user_event_id"}
_OF_PATH = {
    "timer": "callpath.timer_id",
    "parent": "callpath.parent_id",
    "depth": "callpath.depth",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that answers a question, or a part of it.

    Attributes:
        level: "timer" for the sums stored with each trial, or "callpath"; "launch" or "event"
            for launches or user events, which have tables of their own.
        trials: ids; None for all in the tables.
        sums: the sums to compute; `metrics` gives id and unit of measured metrics.
        keys: ids to group by, in the order of the tables' keys: trial, callpath, thread, timer,
            launch or event.
        attributes: columns of a call path's row: "timer", "parent", "depth".
        threads, timers, callpaths: only these; None for all.
        items: only these launches or events; None for all.
        inclusive, depth: (minimum, maximum).
        rows: return single rows, without summing.
        together: only rows that have values of all sums.
        whole: include rows that have no value.
        largest: only this many rows, those with the largest exclusive values of the first sum.
    """

    level: Id
    trials: Sequence[int] | None
    sums: Sequence[Sum]
    metrics: Mapping[str, tuple[int, str]]
    values: Sequence[Value]
    keys: Sequence[Id]
    attributes: Sequence[str] = ()
    threads: Sequence[int] | None = None
    timers: Sequence[int] | None = None
    callpaths: Sequence[int] | None = None
    items: Sequence[int] | None = None
    inclusive: tuple[float, float] | None = None
    depth: tuple[float, float] | None = None
    rows: bool = False
    together: bool = False
    whole: bool = False
    largest: int | None = None

    def reading(self) -> Reading:
        """The statement, and what it reads."""
        elsewhere = ""
        if self.level in _VALUES and not any(_is_mixed(term, self.metrics) for term in self.sums):
            elsewhere = replace(self, trials=None, inclusive=_whole(self.inclusive)).sql
        counts = sum(value in MEASURES for value in self.values)
        keys = len(self.keys) + len(self.attributes)
        return Reading(
            self.sql,
            elsewhere,
            level="timer" if self.level == "timer" else "callpath",
            trials=self.trials or (),
            metrics=self._ids,
            columns=keys + counts + len(self.sums) * (len(self.values) - counts),
            keys=len(self.keys) if self.rows else keys,
            integers=keys + counts * (self.level in _VALUES),
        )

    @property
    def sql(self) -> str:
        """The SQL. Columns are the keys, attributes, counts, then each sum's values."""
        groups = [*(_ITEM.get(name, f"{self._base}.{name}_id") for name in self.keys),
                  *(_OF_PATH[name] for name in self.attributes)]  # fmt: skip
        measures = [MEASURES[value] for value in self.values if value in MEASURES]
        numbers = [measure.sql if self.rows else measure.summed for measure in measures]
        numbers += [
            number if self.rows else f"sum({number})"
            for term in self.sums
            for value in self.values
            if value not in MEASURES
            for number in [self._together(value, _row_of(term, value, self.metrics))]
        ]
        lines = [f"SELECT {', '.join([*groups, *numbers])}", *self._tables()]
        conditions = "\n   AND ".join(self._conditions())
        lines += [f" WHERE {conditions}"] if conditions else []
        if groups and not self.rows:
            lines.append(f" GROUP BY {', '.join(groups)}")
        if self.largest is not None:
            most = self._together("exclusive", _row_of(self.sums[0], "exclusive", self.metrics))
            most = most if self.rows else f"sum({most})"
            lines.append(f" ORDER BY {', '.join([f'{most} DESC NULLS LAST', *groups])}")
            lines.append(f" LIMIT {self.largest}")
        return "\n".join(lines)

    def _together(self, value: Value, number: str) -> str:
        return f"CASE WHEN {self._complete(value)} THEN {number} END" if self.together else number

    def _complete(self, value: Value) -> str:
        """Condition: a row has this value of all sums."""
        numbers = [_row_of(term, value, self.metrics) for term in self.sums]
        return " AND ".join(f"{number} IS NOT NULL" for number in numbers)

    @property
    def _ids(self) -> list[int]:
        """The ids of the metrics that are read."""
        names = dict.fromkeys(name for term in self.sums for name in term.metrics)
        return [self.metrics[name][0] for name in names if name in self.metrics]

    @property
    def _counts(self) -> bool:
        """Whether calls are read."""
        return names_counts(self.sums, self.metrics) or not {*COUNTS}.isdisjoint(self.values)

    @property
    def _base(self) -> str:
        """The table that all others are joined to: the only metric's values, or the calls."""
        if self.level in _BESIDE:
            return self.level
        return f"m{self._ids[0]}" if len(self._ids) == 1 and not self.whole else "call"

    def _tables(self) -> list[str]:
        lines = self._values() if self.level in _VALUES else self._beside()
        if self.level != "timer" and (
            self.attributes or self.timers is not None or self.depth is not None
        ):
            # A user event may have no call path.
            left = "LEFT " if self.level == "event" else ""
            lines.append(f"  {left}JOIN callpath ON callpath.id = {self._base}.callpath_id")
        return lines

    def _beside(self) -> list[str]:
        return [f"  FROM {_BESIDE[self.level]} AS {self.level}"]

    def _values(self) -> list[str]:
        values, calls, base = _VALUES[self.level], _CALLS[self.level], self._base
        keys = ("trial_id", f"{self.level}_id", "thread_id")
        if base != "call":
            lines = [f"  FROM {values} AS {base}"]
            if self._counts:
                lines.append(f"  JOIN {calls} AS call ON {_same('call', base, keys)}")
        else:
            lines = [f"  FROM {calls} AS call"]
            for id in self._ids:
                same = _same(f"m{id}", base, keys)
                lines.append(f"  LEFT JOIN {values} AS m{id} ON m{id}.metric_id = {id} AND {same}")
        return lines

    def _conditions(self) -> list[str]:
        base, ids = self._base, self._ids
        conditions = []
        if self.trials is not None:
            conditions.append(f"{base}.trial_id IN ({listed(self.trials)})")
        if self.items is not None:
            conditions.append(f"{_ITEM[self.level]} IN ({listed(self.items)})")
        if base.startswith("m"):
            conditions.append(f"{base}.metric_id = {ids[0]}")
        elif ids and not self.whole:
            present = " OR ".join(f"m{id}.metric_id IS NOT NULL" for id in ids)
            conditions.append(f"({present})")
        elif not ids and self.sums and not names_counts(self.sums, self.metrics):
            conditions.append("1 = 0")  # the metrics were not measured
        if self.threads is not None:
            # With several trials, searching for each thread in each trial would be slow.
            plus = "" if self.trials is None or len(self.trials) == 1 else "+"
            conditions.append(f"{plus}{base}.thread_id IN ({listed(self.threads)})")
        if self.timers is not None:
            timer = f"{base}.timer_id" if self.level == "timer" else _OF_PATH["timer"]
            conditions.append(f"{timer} IN ({listed(self.timers)})")
        if self.callpaths is not None:
            conditions.append(f"{base}.callpath_id IN ({listed(self.callpaths)})")
        if self.depth is not None:
            conditions += _between("callpath.depth", self.depth)
        if self.together:
            own = f"({self._complete('exclusive')}) OR ({self._complete('inclusive')})"
            conditions.append(f"({own})")
        for term in self.sums:
            if self.inclusive is not None:
                conditions += _between(_row_of(term, "inclusive", self.metrics), self.inclusive)
        return conditions


def _same(first: str, other: str, columns: Sequence[str]) -> str:
    return " AND ".join(f"{first}.{column} = {other}.{column}" for column in columns)


def _between(number: str, limits: tuple[float, float]) -> list[str]:
    least, most = limits
    bounds = [f"{number} >= {least!r}"] if math.isfinite(least) else []
    return [*bounds, f"{number} <= {most!r}"] if math.isfinite(most) else bounds


def _whole(limits: tuple[float, float] | None) -> tuple[float, float] | None:
    """Integer limits that admit the same integers."""
    if limits is None:
        return None
    least, most = limits
    return (
        math.ceil(least) if math.isfinite(least) else least,
        math.floor(most) if math.isfinite(most) else most,
    )


def _is_mixed(term: Sum, metrics: Mapping[str, tuple[int, str]]) -> bool:
    """Whether the metrics of the sum have different units."""
    return len({unit_of(metrics[name][1]).scale for name in term.metrics if name in metrics}) > 1


def _row_of(term: Sum, value: Value, metrics: Mapping[str, tuple[int, str]]) -> str:
    """The SQL of one row's number; NULL where it was not measured."""
    mixed = _is_mixed(term, metrics)
    parts = []
    for name in term.metrics:
        if name in metrics:
            id, unit = metrics[name]
            scale = unit_of(unit).scale if mixed else 1
            parts.append(f"m{id}.{value}" + (f" * {scale!r}" if scale != 1 else ""))
        elif name in COUNTS:
            parts.append(f"call.{name}")
    if not parts:
        return "NULL"
    if len(parts) == 1:
        return parts[0]
    first = f"coalesce({', '.join(parts)})"
    if term.function == "first":
        return first
    whole = " + ".join(f"coalesce({part}, 0)" for part in parts)
    return f"CASE WHEN {first} IS NULL THEN NULL ELSE {whole} END"


def names_counts(sums: Iterable[Sum], metrics: Collection[str]) -> bool:
    """Whether some sum is one of calls or subroutines, not of a metric with that name."""
    named = {name for term in sums for name in term.metrics}
    return any(name in named and name not in metrics for name in COUNTS)
