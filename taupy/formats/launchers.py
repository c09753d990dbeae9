"""Which call launched what: correlation ids of API calls to where those calls stand."""

from __future__ import annotations

from array import array
from typing import Final

from taupy.formats.gpu_records import NOWHERE

_DENSE: Final = 1 << 26
"""Ids below are looked up in a column, 8 bytes each; profilers number from 1."""


class Launchers:
    """The innermost call with a correlation id, by process."""

    def __init__(self) -> None:
        self._columns: dict[int, array[int]] = {}
        self._rest: dict[tuple[int, int], int] = {}

    def note(self, process: int, correlation: int, code: int) -> None:
        """The call at `code` has this id; a later, inner one takes its place."""
        column = self._columns.get(process)
        if column is None:
            column = self._columns[process] = array("q")
        if 0 <= correlation < len(column):
            column[correlation] = code
        elif 0 <= correlation < min(_DENSE, 2 * len(column) + 4096):
            column.extend([NOWHERE] * (correlation + 1024 - len(column)))
            column[correlation] = code
        else:
            self._rest[process, correlation] = code

    def of_all(self, correlation: int) -> list[tuple[int, int]]:
        """The calls with this id, of any process: process and place."""
        calls = [(process, self.find(process, correlation)) for process in self._columns]
        return [call for call in calls if call[1] != NOWHERE]

    def find(self, process: int, correlation: int) -> int:
        """The place of that call; NOWHERE if it was not seen."""
        column = self._columns.get(process)
        if column is not None and 0 <= correlation < len(column):
            code = column[correlation]
            if code != NOWHERE or not self._rest:
                return code
        return self._rest.get((process, correlation), NOWHERE) if self._rest else NOWHERE
