"""How a table gets into a narrow window: what its columns give up, and in which order.

First the room around numbers, then long names as far as they stay readable, then whole columns:
spare ones, then those of numbers from the right; only then are names cut short. A number is
never cut. Widths are in columns of the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taupy.pprof.view import Column

READABLE_NAME = 0.375
"""The part of the window that a long name keeps as long as columns can be left out for it."""

NARROWEST_NAME = 12
"""What is left of a long name where no more columns can be left out."""

NARROWEST_TEXT = 8
"""No text is cut below this; in a window narrower than that lines wrap."""


class Fit(NamedTuple):
    """Which columns are shown, by their places, and the width of each of these."""

    kept: list[int]
    widths: list[int]


def fitted(
    columns: Sequence[Column], widths: Sequence[int], needed: Sequence[int], limit: int
) -> Fit:
    """What of a table has a place in `limit` columns, as far as that can be.

    Args:
        widths: as wide as each column would like to be.
        needed: as wide as its widest cell or heading is.
    """
    kept = list(range(len(columns)))
    names = [at for at in kept if columns[at].kind in ("text", "any")]
    numbers = [at for at in kept if at not in names][1:]  # the first one stays
    to_leave_out = [*numbers, *(at for at in kept if columns[at].spare)]
    # Short texts, a verdict for one, stay whole as long as there are others.
    longest = [at for at in names if needed[at] > 2 * NARROWEST_NAME]
    readable = max(NARROWEST_NAME, int(READABLE_NAME * limit / max(1, len(longest))))
    while True:
        now = list(widths)
        _give_room(now, needed, kept, limit)
        _narrow(now, longest, readable, kept, limit)
        if _excess(now, kept, limit) <= 0:
            break
        if not to_leave_out:
            _narrow(now, longest, NARROWEST_NAME, kept, limit)
            _narrow(now, names, NARROWEST_TEXT, kept, limit)
            break
        kept.remove(to_leave_out.pop())
    return Fit(kept, [now[at] for at in kept])


def _excess(widths: Sequence[int], kept: Sequence[int], limit: int) -> int:
    return sum(widths[at] for at in kept) + len(kept) - 1 - limit


def _give_room(widths: list[int], needed: Sequence[int], kept: Sequence[int], limit: int) -> None:
    """Take from the room around numbers, from the widest first."""
    excess = _excess(widths, kept, limit)
    for at in sorted(kept, key=lambda at: needed[at] - widths[at]):
        given = max(0, min(excess, widths[at] - needed[at]))
        widths[at] -= given
        excess -= given


def _narrow(
    widths: list[int], names: Sequence[int], floor: int, kept: Sequence[int], limit: int
) -> None:
    """Take from the widest name until all fit, or none can give more."""
    while (excess := _excess(widths, kept, limit)) > 0:
        flexible = [at for at in names if widths[at] > floor]
        if not flexible:
            return
        widest = max(flexible, key=lambda at: widths[at])
        others = [widths[at] for at in flexible if at != widest]
        least = max([floor, *(other - 1 for other in others if other < widths[widest])])
        widths[widest] = max(widths[widest] - excess, min(least, widths[widest] - 1))
