"""How a run divides into the calls of one routine: its phases, as its author wrote them.

From the root of a thread, the way leads down as long as one call has most of the time, through
launchers, frameworks and main functions. Where it does no longer, the calls of that routine are
what the run consists of: to parse, transform and write; or, below a test runner, the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.analysis.findings.calls import Calls, around
from taupy.analysis.places import Part
from taupy.dataclass import NamedTuple
from taupy.model.rows import ThreadRow, TimerRow

_MOST = 0.8
"""Share of a thread's time, without imports, from which on a call says no more than all of it."""


class Division(NamedTuple):
    """The calls of a routine, the longest first.

    Attributes:
        timer: the routine.
        ns: its time with them.
    """

    timer: TimerRow
    ns: float
    parts: Sequence[Part]


def division(calls: Calls, thread: ThreadRow) -> Division | None:
    """That of a thread; None if it is all in one place."""
    row = next((row for row in calls.roots if calls.thread[row] == thread), None)
    if row is None:
        return None
    apart = calls.by_thread(calls.outermost(around)).get(thread)
    whole = calls.inclusive[row] - (0 if apart is None else apart.ns)
    while True:
        children = [child for child in calls.children(row) if not around(calls.timer[child])]
        first = max(children, key=calls.inclusive.__getitem__, default=None)
        if first is None or whole <= 0:
            return None
        if calls.inclusive[first] < _MOST * whole:
            break
        row = first
    parts = [
        Part(calls.timer[child], calls.inclusive[child], int(calls.calls[child]))
        for child in children
        if calls.inclusive[child] > 0
    ]
    parts.sort(key=lambda part: (-part.ns, part.timer.timer))
    return Division(calls.timer[row], calls.inclusive[row], parts) if len(parts) > 1 else None
