"""A profile as flat tables, for spreadsheets and data frames: the rows of CSV and Parquet.

Each metric has a row of its own, so that each value has a unit. Values are in the metric's unit and
are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from taupy.formats.capabilities import VALUES, Part
from taupy.formats.registry import Format
from taupy.model.absent import none_if_nan
from taupy.model.flat import flat_sums
from taupy.model.profile import Profile, Thread, ThreadProfile, Timer, UserEvent
from taupy.model.progress import Progress

Type = Literal["text", "int", "number"]

LONGEST_PATH = 100
"""How many routines of a call path are written, counted from its end."""

_THREAD: tuple[tuple[str, Type], ...] = (
    ("node", "int"),
    ("context", "int"),
    ("thread", "int"),
    ("thread_name", "text"),
)
_TIMER: tuple[tuple[str, Type], ...] = (
    ("timer", "text"),
    ("short_name", "text"),
    ("file", "text"),
    ("line", "int"),
    ("groups", "text"),
)
_VALUES: tuple[tuple[str, Type], ...] = (
    ("metric", "text"),
    ("unit", "text"),
    ("calls", "int"),
    ("subroutines", "int"),
    ("inclusive", "number"),
    ("exclusive", "number"),
)

Rows = Iterator[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """One table of a profile.

    Attributes:
        what: its title.
        columns: names and types; None in any column means that the value is absent.
        rows: generates the rows and reports progress.
        holds: the parts of a trial that it contains.
    """

    name: str
    what: str
    columns: tuple[tuple[str, Type], ...]
    rows: Callable[[Profile, Progress], Rows]
    holds: frozenset[Part]


_UNKNOWN = (None, None)
"""Calls and subroutines where a sampler looked, which counts none."""


def _flat(profile: Profile, progress: Progress) -> Rows:
    """Routines, summed over their call paths; inclusive values count outermost calls only."""
    units = _units(profile)
    for measured in profile.threads:
        tree, place = measured.tree, _place(measured.thread)
        on_stream = measured.thread.kind == "stream"
        are_counted = any(tree.calls)
        # Timers with the same name in different groups are different, as in the database.
        sums = {
            timer: of_timer
            for timer, of_timer in flat_sums(tree, tree.timer).items()
            if of_timer.has_run(on_stream)
        }
        for metric in tree.inclusive:
            for timer, of_timer in sums.items():
                inclusive = of_timer.inclusive.get(metric)
                exclusive = of_timer.exclusive.get(metric)
                if inclusive is not None or exclusive is not None:
                    counts = (of_timer.calls, of_timer.subroutines) if are_counted else _UNKNOWN
                    described = (*_timer(profile.timers[timer]), metric, units[metric])
                    yield (*place, *described, *counts, inclusive, exclusive)
        progress.advance(len(tree))


def _callpaths(profile: Profile, progress: Progress) -> Rows:
    units = _units(profile)
    names = [timer.full_name for timer in profile.timers]
    for measured in profile.threads:
        tree = measured.tree
        place, are_counted = _place(measured.thread), any(tree.calls)
        depth = [0] * len(tree)
        for row, above in enumerate(tree.parent):
            depth[row] = depth[above] + 1 if above >= 0 else 0
        for row in range(len(tree)):
            above = tree.parent[row]
            timer = tree.timer[row]
            where = (row, above if above >= 0 else None, depth[row], _path(measured, row, names))
            for metric, values in tree.inclusive.items():
                whole, other = none_if_nan(values[row]), none_if_nan(tree.exclusive[metric][row])
                if whole is not None or other is not None:
                    counts = (tree.calls[row], tree.subroutines[row]) if are_counted else _UNKNOWN
                    described = (*_timer(profile.timers[timer]), metric, units[metric])
                    yield (*place, *where, *described, *counts, whole, other)
            progress.advance()


def _events(profile: Profile, progress: Progress) -> Rows:
    names = [timer.full_name for timer in profile.timers]
    for measured in profile.threads:
        for event in measured.user_events:
            has_row = event.row is not None and 0 <= event.row < len(measured.tree)
            path = _path(measured, event.row or 0, names) if has_row else None
            yield (*_place(measured.thread), *_event(event, path))
        progress.advance(len(measured.tree))


def _event(event: UserEvent, path: str | None) -> tuple[Any, ...]:
    values = tuple(map(none_if_nan, (event.minimum, event.maximum, event.mean, event.sum_squares)))
    stddev = None
    if event.count and None not in values:
        stddev = math.sqrt(abs(event.sum_squares / event.count - event.mean**2))
    return event.name, event.unit, path, event.count, *values, stddev


def _path(measured: ThreadProfile, row: int, names: Sequence[str]) -> str:
    tree = measured.tree
    routines: list[str] = []
    while row >= 0 and len(routines) < LONGEST_PATH:
        routines.append(names[tree.timer[row]])
        row = tree.parent[row]
    if row >= 0:
        routines.append("...")
    return " => ".join(reversed(routines))


def _units(profile: Profile) -> dict[str, str]:
    units = {metric.name: metric.unit for metric in profile.metrics}
    return {
        name: units.get(name, "") for thread in profile.threads for name in thread.tree.inclusive
    }


def _place(thread: Thread) -> tuple[int, int, int, str]:
    return *thread.place, thread.name


def _timer(timer: Timer) -> tuple[Any, ...]:
    groups = "|".join(sorted(set(timer.groups)))
    return timer.full_name, timer.short or timer.name, timer.file, timer.line, groups


TABLES = (
    ProfileTable("flat", "the flat profile", (*_THREAD, *_TIMER, *_VALUES), _flat, VALUES),
    ProfileTable(
        "callpaths",
        "call paths",
        (
            *_THREAD,
            ("row", "int"),
            ("parent_row", "int"),
            ("depth", "int"),
            ("path", "text"),
            *_TIMER,
            *_VALUES,
        ),
        _callpaths,
        VALUES | {"call paths"},
    ),
    ProfileTable(
        "events",
        "user events",
        (
            *_THREAD,
            ("event", "text"),
            ("unit", "text"),
            ("callpath", "text"),
            ("count", "int"),
            ("minimum", "number"),
            ("maximum", "number"),
            ("mean", "number"),
            ("sum_squares", "number"),
            ("stddev", "number"),
        ),
        _events,
        frozenset(("user events", "threads", "streams")),
    ),
)


def formats(
    name: str, title: str, write: Callable[[ProfileTable, Profile, Path, Progress], list[str]]
) -> tuple[Format, ...]:
    """A format for each table; these formats are only written."""
    return tuple(
        Format(
            name=name if table.name == "flat" else f"{name}-{table.name}",
            title=f"{title}, {table.what}",
            suffixes=(f".{name}",) if table.name == "flat" else (f".{table.name}.{name}",),
            recognises=lambda path, first_bytes: False,
            write=partial(write, table),
            holds=table.holds,
            folds=table.name == "callpaths",
        )
        for table in TABLES
    )
