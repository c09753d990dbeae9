"""Sum up the exact lines of a thread by routine and line, and let looks divide them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from taupy.model.profile import LineTime
from taupy.record.part_data import ExactLine
from taupy.state.lines import ACTIVE, STATES

Line: TypeAlias = tuple[int, int]
"""A routine of the program, and the number of a line of it."""

ExactTimes: TypeAlias = Mapping[Line, ExactLine]


def exact_times(lines: Iterable[tuple[int, bool, ExactLine]]) -> ExactTimes:
    """The sums of lines.

    Args:
        lines: each with the routine whose line it is, and whether its code is that routine's own.
            If it is that of a comprehension or generator expression in it, its own time is added,
            and what else is known of it counts if the routine has no such line.
    """
    times: dict[Line, ExactLine] = {}
    inner: dict[Line, ExactLine] = {}
    for routine, is_own, line in lines:
        sums = times if is_own else inner
        before = sums.get((routine, line.line))
        if before is not None:
            line = replace(
                line,
                count=before.count + line.count,
                own_ns=before.own_ns + line.own_ns,
                inclusive_ns=before.inclusive_ns + line.inclusive_ns,
            )
        sums[routine, line.line] = line
    for place, line in inner.items():
        around = times.get(place)
        times[place] = (
            line if around is None else replace(around, own_ns=around.own_ns + line.own_ns)
        )
    return times


def counted(lines: Iterable[LineTime], times: ExactTimes) -> Iterator[LineTime]:
    """The rows of a thread with counts where these are exact, and with exact lines that have none.

    Args:
        lines: the longest first.
    """
    routines = {routine for routine, _ in times}
    open_lines = dict(times)
    for line in lines:
        exact = open_lines.pop((line.timer, line.line), None)
        if exact is not None:
            yield replace(line, count=exact.count, inclusive_ns=exact.inclusive_ns)
        elif line.timer in routines:
            yield replace(line, count=0, inclusive_ns=0)
        else:
            yield line
    for (routine, number), exact in open_lines.items():
        yield LineTime(
            routine, None, number, number, -1, -1, STATES[ACTIVE], 0, exact.own_ns, 0, 0.0,
            count=exact.count, inclusive_ns=exact.inclusive_ns,
        )  # fmt: skip
