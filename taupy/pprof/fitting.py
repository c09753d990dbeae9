"""Fit a table into a narrow window.

Space around numbers is reduced first, then long names as far as they stay readable, then whole
columns are dropped: spare ones, then columns of numbers from the right, but never the sides that
are compared: if these do not fit, the table is shown in parts of some sides each, with the names.
Only then are names cut further, and texts dropped. Numbers are never cut. Widths are in columns of
the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taupy.pprof.view import Column

READABLE_NAME = 0.45
"""Share of the window that a long name keeps as long as columns can be dropped instead."""

NAME_OF_SIDES = 0.3
"""Share of the window that a long name keeps beside all sides; otherwise they stand in parts."""

NARROWEST_NAME = 12
"""Minimum width of a long name once no more columns can be dropped."""

NARROWEST_TEXT = 8
"""Minimum width of any text; in a narrower window, lines wrap."""


class Fit(NamedTuple):
    """The positions of the columns shown, and the width of each."""

    kept: list[int]
    widths: list[int]


def fitted(
    columns: Sequence[Column], widths: Sequence[int], needed: Sequence[int], limit: int
) -> list[Fit]:
    """Choose columns and widths that fit into `limit` columns, if possible.

    Args:
        widths: preferred width of each column.
        needed: width of each column's widest cell or heading.

    Returns:
        One part, or several, each with some of the sides and all the names.
    """
    table = _Table(columns, widths, needed, limit)
    sides = [at for at, column in enumerate(columns) if column.side]
    whole = table.fit(range(len(columns)), NAME_OF_SIDES if len(sides) > 1 else 0)
    if len(sides) < 2 or _excess(whole.widths, range(len(whole.kept)), limit) <= 0:
        return [whole]
    names = [at for at in whole.kept if at not in sides]
    of_names = sum(table.least(at, NAME_OF_SIDES) + 1 for at in names)
    widest = max(table.least(at, NAME_OF_SIDES) for at in sides)
    parts = -(-len(sides) // max(1, (limit + 1 - of_names) // (widest + 1)))
    size, larger = divmod(len(sides), parts)
    fits, first = [], 0
    for part in range(parts):
        end = first + size + (part < larger)
        shown = {*names, *sides[first:end]}
        fits.append(table.fit(sorted(shown), 0))
        first = end
    return fits


class _Table(NamedTuple):
    columns: Sequence[Column]
    widths: Sequence[int]
    needed: Sequence[int]
    limit: int

    def least(self, at: int, share: float) -> int:
        """Width below which a column is not cut while a long name keeps this share."""
        if self.columns[at].kind not in ("text", "any"):
            return self.needed[at]
        width = NARROWEST_NAME if self.columns[at].side else self._name(share)
        return min(self.needed[at], width)

    def _name(self, share: float) -> int:
        """Width of each long name, if all together keep this share."""
        names = sum(
            column.kind in ("text", "any") and needed > 2 * NARROWEST_NAME
            for column, needed in zip(self.columns, self.needed, strict=True)
            if not (column.spare or column.side)
        )
        return max(NARROWEST_NAME, int(share * self.limit / max(1, names)))

    def fit(self, shown: Sequence[int], share: float) -> Fit:
        """Of these columns those that fit, where long names keep this share of the window."""
        columns, needed, limit = self.columns, self.needed, self.limit
        kept = list(shown)
        names = [at for at in kept if columns[at].kind in ("text", "any")]
        sides = [at for at in kept if columns[at].side]
        # The first number is kept.
        numbers = [at for at in kept if at not in names and at not in sides][0 if sides else 1 :]
        spare = [at for at in kept if columns[at].spare]
        to_leave_out = [*(at for at in numbers if at not in spare), *spare]
        # Short texts, such as verdicts, are kept whole while longer ones can be cut.
        longest = [at for at in names if needed[at] > 2 * NARROWEST_NAME]
        lasting = [at for at in longest if not columns[at].spare]
        readable = max(NARROWEST_NAME, int(READABLE_NAME * limit / max(1, len(lasting))))
        # At last, all texts but the first and the longest.
        last = sorted(names[1:], key=lambda at: -needed[at])[1:]
        texts = [at for at in names if at in last and at not in spare and at not in sides]
        while True:
            now = list(self.widths)
            _give_room(now, needed, kept, limit)
            _narrow(now, longest, readable, kept, limit)
            if not to_leave_out:
                long = [at for at in longest if at in kept]
                _narrow(now, [at for at in long if at in sides], NARROWEST_NAME, kept, limit)
                _narrow(now, [at for at in long if at not in sides], self._name(share), kept, limit)
                if not share:
                    _narrow(now, [at for at in names if at in kept], NARROWEST_TEXT, kept, limit)
            if _excess(now, kept, limit) <= 0 or not (to_leave_out or (texts and not share)):
                break
            kept.remove((to_leave_out or texts).pop())
        return Fit(kept, [now[at] for at in kept])


def _excess(widths: Sequence[int], kept: Sequence[int], limit: int) -> int:
    return sum(widths[at] for at in kept) + len(kept) - 1 - limit


def _give_room(widths: list[int], needed: Sequence[int], kept: Sequence[int], limit: int) -> None:
    """Reduce the space around numbers, widest column first."""
    excess = _excess(widths, kept, limit)
    for at in sorted(kept, key=lambda at: needed[at] - widths[at]):
        given = max(0, min(excess, widths[at] - needed[at]))
        widths[at] -= given
        excess -= given


def _narrow(
    widths: list[int], names: Sequence[int], floor: int, kept: Sequence[int], limit: int
) -> None:
    """Shorten the widest name until the table fits or no name can be shortened."""
    while (excess := _excess(widths, kept, limit)) > 0:
        flexible = [at for at in names if widths[at] > floor]
        if not flexible:
            return
        widest = max(flexible, key=lambda at: widths[at])
        others = [widths[at] for at in flexible if at != widest]
        least = max([floor, *(other - 1 for other in others if other < widths[widest])])
        widths[widest] = max(widths[widest] - excess, min(least, widths[widest] - 1))
