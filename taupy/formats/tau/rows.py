"""The rows of one thread of a TAU profile; `tree.py` builds the thread's tree from them.

TAU lists routines (*flat rows*) and, in addition, call paths `A => B => C` (*path rows*). Path rows
are kept as a trie: row 0 is its root, whose children are the *heads*, the first routines of paths.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from taupy.formats import limits
from taupy.formats.tau.names import ARROW, CALLPATH_GROUP, MICROSECOND_NS
from taupy.model.metric import Metric

_MICROSECONDS = re.compile(r"(-?)([0-9]{1,16})\.([0-9]{1,3})", re.ASCII)

Number = int | float
Values = tuple[int, int, int, Number, Number]  # metric, calls, subroutines, exclusive, inclusive


@dataclass(slots=True)
class Row:
    """The file's values for one routine or path; None for metrics that it lacks."""

    groups: str
    calls: int
    subroutines: int
    exclusive: list[Number | None]
    inclusive: list[Number | None]
    counted: int  # the metric whose file gave calls and subroutines; the other files repeat them

    @classmethod
    def empty(cls, metrics: int, groups: str = "", counted: int = -1) -> Row:
        return cls(groups, 0, 0, [None] * metrics, [None] * metrics, counted)

    def add(
        self, metric: int, calls: int, subroutines: int, exclusive: Number, inclusive: Number
    ) -> None:
        """Add values of one metric; duplicate rows add up, as in ParaProf."""
        if self.counted == metric:
            self.calls += calls
            self.subroutines += subroutines
        self.exclusive[metric] = (self.exclusive[metric] or 0) + exclusive
        self.inclusive[metric] = (self.inclusive[metric] or 0) + inclusive


class Rows:
    """Collects the rows of one thread, metric after metric.

    Attributes:
        names: names of routines, by id.
        rounded: whether any time was not a whole number of nanoseconds; a routine's sum may then
            be wrong by as many nanoseconds as it has rows.
        tolerance: relative error of sums, for files with few digits.
        flat: the flat rows, by id of their routine.
        leaf, parent: for each trie row, the id of its routine and its parent row.
        paths: for each trie row, its path row; None if the file has none for it.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = list(metrics)
        self.names: list[str] = []
        self.rounded = False
        self.tolerance = 0.0
        self.ids: dict[str, int] = {}
        self.flat: dict[int, Row] = {}
        self.leaf = array("q", [-1])
        self.parent = array("q", [-1])
        self.paths: list[Row | None] = [None]
        self._children: dict[tuple[int, int], int] = {}
        self._waiting: list[tuple[str, Values]] = []
        self._uncertain: list[tuple[str, str, Values]] = []
        self._trimmed: dict[str, int] = {}
        self._placed: dict[str, int] = {}  # path -> its row, if names contain arrows
        self._arrows_in_names = False
        self._has_path_group = False

    def add(self, name: str, groups: str, values: Values) -> None:
        """One row of the file.

        Args:
            values: the metric's number, calls, subroutines, exclusive and inclusive value, in
                taupy's units (see `value`).
        """
        if ARROW in name:
            if CALLPATH_GROUP not in groups:
                self._arrows_in_names = True
                self._uncertain.append((name, groups, values))
                return
            self._has_path_group = True
            row = self._existing_path(name)
            if row > 0:
                self._at(row, values[0]).add(*values)
            else:
                self._waiting.append((name, values))
            return
        self.add_flat(name, groups, values)

    def value(self, metric: int, measured: str | float) -> Number:
        """Convert a value of the file to taupy's unit.

        TAU's microseconds are rounded to nanoseconds; values of other metrics become integers if
        they are whole numbers.

        Args:
            measured: the value in the file; text is converted exactly.

        Raises:
            ValueError, OverflowError: it is not a finite number, or a time too long for 64 bits.
        """
        is_time = self.metrics[metric].unit == "ns"
        result = self._nanoseconds(measured) if is_time else self._number(measured)
        if is_time and abs(result) > limits.INTEGER:
            raise OverflowError
        return result

    def _nanoseconds(self, measured: str | float) -> int:
        if isinstance(measured, str):
            if measured.isdigit() and measured.isascii():
                return int(measured) * MICROSECOND_NS
            if match := _MICROSECONDS.fullmatch(measured):
                whole = int(match[2] + match[3].ljust(3, "0"))
                return -whole if match[1] else whole
            measured = _real(measured)
        if not isfinite(measured):
            raise ValueError
        nanoseconds = round(measured * MICROSECOND_NS)
        # No double equals 0.001 microseconds exactly, but the nearest one stands for a nanosecond.
        self.rounded = self.rounded or nanoseconds / MICROSECOND_NS != measured
        return nanoseconds

    def _number(self, measured: str | float) -> Number:
        if isinstance(measured, str):
            if measured.isdigit() and measured.isascii() and len(measured) < 19:
                return int(measured)
            measured = _real(measured)
        if not isfinite(measured):
            raise ValueError
        return int(measured) if measured.is_integer() and abs(measured) < limits.EXACT else measured

    def add_path(self, names: Sequence[str], values: Values) -> None:
        """Add a path row, given the names of its routines."""
        row = 0
        for name in names:
            row = self._below(row, self._id(name))
        self._at(row, values[0]).add(*values)

    def add_flat(self, name: str, groups: str, values: Values) -> None:
        """Add a flat row, even if its name contains an arrow."""
        id = self._id(name)
        flat = self.flat.get(id)
        if flat is None:
            flat = self.flat[id] = Row.empty(len(self.metrics), groups, values[0])
        flat.add(*values)

    def settle(self) -> None:
        """Add the deferred paths, now that all routines are known."""
        uncertain, self._uncertain = self._uncertain, []
        for name, groups, values in uncertain:
            # If no row is marked as a path, names that consist of known routines are paths.
            if not self._has_path_group and all(piece in self.ids for piece in name.split(ARROW)):
                self._waiting.append((name, values))
            else:
                self.add_flat(name, groups, values)
        self._trimmed = {self.names[id].strip(): id for id in self.flat}
        waiting, self._waiting = self._waiting, []
        if self._arrows_in_names:
            waiting.sort(key=lambda path: path[0].count(ARROW))  # callers first
        for name, values in waiting:
            row, routines = self._caller_of(name)
            for routine in routines:
                id = self._known_id(routine)
                row = self._below(row, self._id(routine) if id is None else id)
            self._at(row, values[0]).add(*values)
            if self._arrows_in_names:
                self._placed[name] = row

    def find(self, path: str) -> int | None:
        """The trie row of a path; None if there is none. Call `settle` first."""
        row, routines = self._caller_of(path)
        for routine in routines:
            id = self._known_id(routine)
            below = None if id is None else self._children.get((row, id))
            if below is None:
                return None
            row = below
        return row

    def _known_id(self, routine: str) -> int | None:
        """The id of a routine as spelled in a path, where TAU may append a blank."""
        id = self.ids.get(routine)
        return self._trimmed.get(routine.strip()) if id is None else id

    def spelled(self, row: int) -> str:
        """The path of a trie row."""
        names = []
        while row > 0:
            names.append(self.names[self.leaf[row]])
            row = self.parent[row]
        return ARROW.join(reversed(names))

    def _existing_path(self, name: str) -> int:
        """The trie row of a path; 0 if it cannot be determined yet.

        The row of one of its routines may follow later, or a name may contain an arrow.
        """
        if self._arrows_in_names:
            return 0
        row = 0
        id_of, children = self.ids.get, self._children.get
        for routine in name.split(ARROW):
            id = id_of(routine)
            if id is None:
                return 0
            row = children((row, id)) or self._below(row, id)
        return row

    def _caller_of(self, path: str) -> tuple[int, list[str]]:
        """The caller's row, 0 if there is none, and the routines below it. If names contain arrows,
        a caller with a row of its own in the file is the best evidence of where names begin."""
        if self._arrows_in_names:
            pieces = path.split(ARROW)
            for end in range(len(pieces) - 1, max(0, len(pieces) - limits.TAU_ARROWS), -1):
                routine, above = ARROW.join(pieces[end:]), ARROW.join(pieces[:end])
                if self._known_id(routine) is not None:
                    caller = self._placed.get(above) or self._plain_row(above)
                    if caller:
                        return caller, [routine]
        return 0, self._routines(path)

    def _plain_row(self, path: str) -> int:
        """The row of a path in the file whose routines contain no arrows; 0 if there is none."""
        row = 0
        for routine in path.split(ARROW):
            id = self._known_id(routine)
            row = self._children.get((row, -1 if id is None else id), 0)
            if not row:
                return 0
        return row if self.paths[row] is not None or self.parent[row] == 0 else 0

    def _routines(self, path: str) -> list[str]:
        """The routines of a path whose caller has no row in the file. Known names that contain
        arrows are preferred, the longest first."""
        pieces = path.split(ARROW)
        if not self._arrows_in_names:
            return pieces
        paths = []
        place = 0
        while place < len(pieces):
            end = place + 1
            for longer in range(min(len(pieces), place + limits.TAU_ARROWS), end, -1):
                if ARROW.join(pieces[place:longer]) in self.ids:
                    end = longer
                    break
            paths.append(ARROW.join(pieces[place:end]))
            place = end
        return paths

    def _below(self, row: int, id: int) -> int:
        below = self._children.get((row, id))
        if below is None:
            below = self._children[row, id] = len(self.leaf)
            self.leaf.append(id)
            self.parent.append(row)
            self.paths.append(None)
        return below

    def _at(self, row: int, metric: int) -> Row:
        path = self.paths[row]
        if path is None:
            path = self.paths[row] = Row.empty(len(self.metrics), counted=metric)
        return path

    def _id(self, name: str) -> int:
        id = self.ids.setdefault(name, len(self.names))
        if id == len(self.names):
            self.names.append(name)
        return id


def _real(text: str) -> float:
    if "_" in text:  # only Python writes 1_000 for 1000
        raise ValueError
    return float(text)
