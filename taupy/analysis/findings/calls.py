"""The call tree of a trial's host threads, with the queries that rules need."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

from taupy.analysis.known_routines import Either, Grouped, Known, Matches, OneOf, Worded
from taupy.dataclass import NamedTuple
from taupy.model import callpaths
from taupy.model.forest import members, sums_by_key
from taupy.model.question import Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Amount, Table, numbered
from taupy.model.timer_columns import TimerColumns
from taupy.network.phases import kind_of
from taupy.units import percent

TREE = ("thread", "callpath", "parent", "timer")


def trees(trial: int) -> Question:
    """The call trees of all threads: rules look at those of the host's, a page shows all."""
    return Question((trial,), by=TREE, values=("calls", "inclusive", "exclusive"))


class Sum(NamedTuple):
    """Some call paths of one thread: the time in which any of them was active, the number of
    calls, and their rows."""

    ns: float = 0
    calls: int = 0
    rows: tuple[int, ...] = ()

    def plus(self, other: Sum) -> Sum:
        """The sum of both, none of whose call paths is below another."""
        return Sum(self.ns + other.ns, self.calls + other.calls, self.rows + other.rows)


@dataclass
class Calls:
    """Call paths, one per row of the columns.

    Attributes:
        parent: the caller's row; -1 for a root.
    """

    parent: list[int]
    timer: Sequence[TimerRow]
    thread: list[ThreadRow]
    calls: Sequence[float]
    inclusive: Sequence[float]
    exclusive: Sequence[float]
    table: Table
    _of_timer: dict[TimerRow, Mapping[ThreadRow, Sum]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, table: Table) -> Calls:
        """From the answer to a question by `TREE`; missing values count as 0."""
        return cls(
            parent=callpaths.parents(table),
            timer=_RowLabels(table, "timer"),
            thread=table.row_labels("thread"),
            calls=_numbers(table.column("calls")),
            inclusive=_numbers(table.column("inclusive", "time")),
            exclusive=_numbers(table.column("exclusive", "time")),
            table=table,
        )

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def threads(self) -> list[ThreadRow]:
        codes = dict.fromkeys(self.table.codes["thread"])
        return list(map(self.table.labels["thread"].__getitem__, codes))

    def __contains__(self, timer: TimerRow) -> bool:
        return bool(self._code(timer))

    @cached_property
    def timers(self) -> TimerColumns:
        """The distinct timers."""
        return TimerColumns.of(self.table.labels["timer"])

    def life_ns(self) -> dict[ThreadRow, float]:
        """How long each thread was measured."""
        return {self.thread[row]: self.inclusive[row] for row in self.roots}

    @cached_property
    def roots(self) -> list[int]:
        return [*compress(range(len(self)), map((0).__gt__, self.parent))]

    @cached_property
    def children(self) -> Callable[[int], list[int]]:
        """The rows below a row."""
        return members(self.parent, len(self))

    def below(self, row: int) -> Iterator[int]:
        """The row and all rows below it."""
        stack = [row]
        while stack:
            row = stack.pop()
            yield row
            stack += self.children(row)

    @cached_property
    def _rows_of(self) -> Callable[[int], list[int]]:
        """The rows of a timer."""
        return members(self.table.codes["timer"], len(self.timers))

    def matching(self, matches: Matches) -> list[TimerRow]:
        """The distinct timers that match."""
        return [self.timers[code] for code in self._matching(matches)]

    def rows(self, matches: Matches) -> list[int]:
        """The rows of these timers."""
        return sorted(row for code in self._matching(matches) for row in self._rows_of(code))

    def _matching(self, matches: Matches) -> Iterable[int]:
        """The codes of these timers. For routines with known names or groups, only those with one
        of these are looked at: there may be hundreds of thousands of others, and dozens of rules.
        """
        if isinstance(matches, Either):
            return {code for part in matches.parts for code in self._matching(part)}
        codes: Iterable[int] = range(len(self.timers))
        if isinstance(matches, Grouped):
            codes = [code for groups in filter(matches.passes, self._groups)
                     for code in self._groups[groups]]  # fmt: skip
            if matches.named is None:
                return codes
        elif isinstance(matches, Known | OneOf):
            names = matches.files if isinstance(matches, Known) else {
                timer.short_name for timer in matches.timers}  # fmt: skip
            codes = [code for name in names for code in self._named.of(name)]
        elif isinstance(matches, Worded):
            codes = self._worded(matches)
        return [code for code in codes if matches(self.timers[code])]

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        """The codes of the timers with the same groups."""
        codes: dict[str, list[int]] = {}
        for code, groups in enumerate(self.timers.groups):
            codes.setdefault(groups, []).append(code)
        return codes

    def _worded(self, matches: Worded) -> Iterable[int]:
        """The codes of the timers with one of the words: of most there are none."""
        words = [word for word in matches.words if word in self._text]
        of_words = (
            code
            for code, name in enumerate(self.timers.short_names if words else ())
            if any(word in name for word in words)
        )
        files = {file for file in self._files if file.endswith(matches.end)}
        of_files = (
            code for code, file in enumerate(self.timers.files if files else ()) if file in files
        )
        return sorted({*of_words, *of_files})

    @cached_property
    def _text(self) -> str:
        """All short names: one look tells that a word is in none of them."""
        return "\n".join(self.timers.short_names)

    @cached_property
    def _files(self) -> set[str]:
        return {*filter(None, self.timers.files)}

    @cached_property
    def _named(self) -> _Named:
        """The codes of the timers with the same short name."""
        return _Named(self.timers.short_names)

    @cached_property
    def _in_full(self) -> _Named:
        """The codes of the timers with the same full name."""
        return _Named(self.timers.names)

    def _code(self, timer: TimerRow) -> list[int]:
        """The code of a timer, if it is one of these."""
        return [code for code in self._in_full.of(timer.timer) if self.timers[code] == timer]

    def rows_of(self, timer: TimerRow) -> list[int]:
        """The rows of one timer."""
        (code,) = self._code(timer)
        return self._rows_of(code)

    def entries(self, timer: TimerRow) -> float:
        """How often a timer was entered, in all threads."""
        (code,) = self._code(timer)
        return self._entries[code]

    @cached_property
    def _entries(self) -> Sequence[float]:
        return sums_by_key(self.table.codes["timer"], len(self.timers), self.calls)

    def lasting(self, least_ns: float) -> list[TimerRow]:
        """The timers that took at least that long in one thread, each call with all that is below
        it: those for which `of_timer` has such a sum."""
        longest = self._longest_ns
        number = bisect_right(self._by_length, -least_ns, key=lambda code: -longest[code])
        return [self.timers[code] for code in sorted(self._by_length[:number])]

    @cached_property
    def _by_length(self) -> list[int]:
        """The codes of the timers, the longest first: dozens of questions are about a few."""
        return sorted(range(len(self.timers)), key=self._longest_ns.__getitem__, reverse=True)

    @cached_property
    def _longest_ns(self) -> Sequence[float]:
        """The time of each timer in the thread in which it took longest."""
        count = len(self.timers)
        codes, threads = self.table.codes["timer"], self.table.codes["thread"]
        if len(self.threads) == 1:
            return sums_by_key(codes, count, self.inclusive)
        alone = [thread * count + code for code, thread in zip(codes, threads, strict=True)]
        which, firsts = numbered(alone, size=len(alone))
        longest = [-math.inf] * count
        for row, ns in zip(firsts, sums_by_key(which, len(firsts), self.inclusive), strict=True):
            longest[codes[row]] = max(longest[codes[row]], ns)
        return longest

    def of_timer(self, timer: TimerRow) -> Mapping[ThreadRow, Sum]:
        """The sums of a timer's rows by thread, each of them with all that is below it."""
        sums = self._of_timer.get(timer)
        if sums is None:
            sums = self._of_timer[timer] = self.by_thread(self.rows_of(timer))
        return sums

    def outermost(self, matches: Matches) -> list[int]:
        """The rows of these timers that are not below another of them."""
        chosen = self.rows(matches)
        is_below = dict.fromkeys(chosen, True)  # of a row: whether what it calls is below another
        outer: list[int] = []
        for row in chosen:
            climbed: list[int] = []
            above = self.parent[row]
            while above >= 0 and above not in is_below:
                climbed.append(above)
                above = self.parent[above]
            is_there = is_below.get(above, False)
            is_below.update(dict.fromkeys(climbed, is_there))  # no row is climbed twice
            if not is_there:
                outer.append(row)
        return outer

    def by_thread(self, rows: Iterable[int]) -> dict[ThreadRow, Sum]:
        """Sums of these rows by thread; none of the rows may be below another."""
        rows_of: dict[ThreadRow, list[int]] = {}
        last: ThreadRow | None = None
        for row in rows:
            thread = self.thread[row]
            if thread is not last:  # mostly, a look at it is cheaper than its hash
                mine = rows_of.setdefault(thread, [])
                last = thread
            mine.append(row)
        return {
            thread: Sum(
                sum(map(self.inclusive.__getitem__, mine)),
                sum(map(int, map(self.calls.__getitem__, mine))),
                tuple(mine),
            )
            for thread, mine in rows_of.items()
        }

    def longest(self, matches: Matches) -> Sum:
        """The sum of the thread in which these timers were active longest: an upper bound of the
        saving."""
        return max(self.by_thread(self.outermost(matches)).values(), default=Sum())

    def largest(self, rows: Iterable[int]) -> int:
        """The row with the largest inclusive time."""
        return max(rows, key=self.inclusive.__getitem__)


class _RowLabels(Sequence[TimerRow]):
    """The label of each row, looked up when it is asked for."""

    __slots__ = ("_codes", "_labels")

    def __init__(self, table: Table, dimension: str) -> None:
        self._codes, self._labels = table.codes[dimension], table.labels[dimension]

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, row: Any) -> Any:
        return self._labels[self._codes[row]]


class _Named:
    """The positions of names, most of which stand once: only of the others there is a list."""

    def __init__(self, names: Sequence[str]) -> None:
        self._last = last = dict(zip(names, range(len(names)), strict=True))
        self._before: dict[str, list[int]] = {}
        if len(last) < len(names):
            for at, name in enumerate(names):
                if last[name] != at:
                    self._before.setdefault(name, []).append(at)

    def of(self, name: str) -> list[int]:
        last = self._last.get(name)
        return [] if last is None else [*self._before.get(name, ()), last]


def _numbers(values: Sequence[Amount]) -> Sequence[float]:
    return [value or 0 for value in values] if None in values else values  # type: ignore[return-value]


def phase(kind: str) -> Matches:
    """Timers that are phases of this kind."""
    return Grouped(lambda groups: kind_of(groups) == kind)


around = Grouped(lambda groups: kind_of(groups) in ("import", "exit"))
"""Phases before and after the program's work."""


LEAST_NAMED = 0.1
"""Minimum share of a sum that is worth naming."""


def largest_part(where: str, part: float, whole: float, of: str = "it") -> str:
    """Where the largest part of a sum is, as a clause that follows the sum; "" if even that is
    small."""
    if 0 < whole / 2 < part:
        return f", most of {of} in {where}"
    if 0 < LEAST_NAMED * whole <= part:
        return f", {percent(100 * part / whole)} % of {of} in {where}"
    return ""


def place(timer: TimerRow | None) -> str:
    """A routine as it appears in a sentence, such as `smooth (filter.py:8)`."""
    if timer is None:
        return "the program"
    if timer.file is None or timer.line is None:
        return timer.short_name
    return f"{timer.short_name} ({timer.file}:{timer.line})"
