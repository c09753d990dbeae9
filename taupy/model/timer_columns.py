"""Timers in columns: the row of one is made when it is asked for.

There may be hundreds of thousands, of which people see a few. What is asked of all of them is asked
of a column: whose groups are these, which names end so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taupy.model.rows import TimerRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TimerColumns(Sequence[TimerRow]):
    """The attributes are those of `TimerRow`, each of all timers."""

    __slots__ = ("_rows", "files", "groups", "lines", "names", "short_names")

    def __init__(
        self,
        names: Sequence[str],
        short_names: Sequence[str],
        files: Sequence[str | None],
        lines: Sequence[int | None],
        groups: Sequence[str],
    ) -> None:
        self.names, self.short_names, self.files = names, short_names, files
        self.lines, self.groups = lines, groups
        self._rows: list[TimerRow | None] = [None] * len(names)

    @classmethod
    def of(cls, rows: Sequence[TimerRow]) -> TimerColumns:
        """Of rows, which may be columns already."""
        if isinstance(rows, TimerColumns):
            return rows
        timers = cls(*(zip(*rows, strict=True) if rows else [()] * 5))
        timers._rows[:] = rows
        return timers

    def at_lines(self, lines: Sequence[int | None]) -> TimerColumns:
        """The same at other lines."""
        return TimerColumns(self.names, self.short_names, self.files, lines, self.groups)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, code: Any) -> Any:
        if isinstance(code, slice):
            return [self[at] for at in range(len(self))[code]]
        row = self._rows[code]
        if row is None:
            row = self._rows[code] = TimerRow(
                self.names[code],
                self.short_names[code],
                self.files[code],
                self.lines[code],
                self.groups[code],
            )
        return row

    def __iter__(self) -> Iterator[TimerRow]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
