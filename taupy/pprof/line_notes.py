"""A column of flat tables for people: in which of its lines a routine mostly is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from taupy.model.profile import LEAST_LOOKS
from taupy.pprof.selection import Place
from taupy.pprof.view import Column, View
from taupy.units import percent

COLUMN = Column("hottest", heading="Mostly in\nline", audience="people", spare=True)

NOTE = (
    "mostly in line: the line with most of the routine's time, with what it calls of libraries, "
    "and its share; ~: estimated from looks"
)

LineSums = Sequence[tuple[Place, str, int, int, int, int | None]]
"""Thread, full name of the routine, number of the line, looks, time [ns], count if it is exact."""


def with_lines(view: View, lines: LineSums, together: Collection[Place] | None) -> View:
    """The table with the line that each routine was in most, and its share of the routine's time
    with what it calls of libraries; other views unchanged.

    Args:
        together: the threads that a table of sums adds up; None for all.
    """
    names = [column.name for column in view.columns]
    if not view.rows or "timer" not in names or "table" not in names or "callpath_id" in names:
        return view
    first = dict(zip(names, view.rows[0], strict=True))
    if first["table"] == "thread":
        together = [(first["node"], first["context"], first["thread"])]  # type: ignore[list-item]
    elif first["table"] not in ("total", "mean"):
        return view
    of_routine: dict[str, dict[int, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0, 1])
    )
    for place, timer, number, looks, time_ns, count in lines:
        if together is None or place in together:
            sums = of_routine[timer][number]
            sums[0] += time_ns
            sums[1] += looks
            sums[2] &= count is not None
    at = names.index("timer")
    rows = [[*row[:at], _note(of_routine.get(str(row[at]), {})), *row[at:]] for row in view.rows]
    if not any(row[at] for row in rows):
        return view
    columns = [*view.columns[:at], COLUMN, *view.columns[at:]]
    return replace(view, columns=columns, rows=rows)


def _note(lines: dict[int, list[int]]) -> str | None:
    if not lines:
        return None
    number, (time_ns, looks, exact) = max(lines.items(), key=lambda item: item[1][0])
    if looks < LEAST_LOOKS and not exact:
        return None
    whole = sum(time for time, _, _ in lines.values())
    return f"{number} {'' if exact else '~'}{percent(100 * time_ns / whole)} %"
