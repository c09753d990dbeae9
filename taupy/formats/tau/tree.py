"""Build a call tree from one thread's TAU rows without changing any number.

A path row counts the activations of its last routine under these callers; a file may have only the
last n callers (TAU_CALLPATH_DEPTH), or no path rows at all. The tree is built so that its sums by
timer equal the flat rows, and its rows equal the path rows:

- Paths that begin with the root (`.TAU application`, or the only routine that begins
  paths and is called by none) are placed under it.
- Everything else is placed under `(callers not recorded)`: cut paths `B => C` as that timer over B
  over C, and routines without paths directly beneath it. It, and the callers in cut
  paths, have no values of their own there.
- The excess of a flat row over its path rows goes to the row of the routine at the beginning of
  paths; it is negative if TAU's inclusive times are inconsistent.
- The inclusive time of a recursive routine is that of its outermost activation, which cut paths do
  not identify. In this case, the routine's row directly under `(callers not recorded)` has the time
  of its outermost activations, with the cut paths below it.
- If the sums would still differ from TAU's, because its rows contradict each other, the rows are
  kept as in the file: one timer for each row, also for `A => B`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from taupy.formats import limits
from taupy.formats.tau import names as tau_names
from taupy.formats.tau.names import CALLPATH_GROUP, CUT, ROOT_NAMES
from taupy.formats.tau.rows import Number, Row, Rows
from taupy.model.forest import outermost
from taupy.model.profile import CallTree, Metric, Timer
from taupy.model.timers import Timers

_CUT_ID = -1


class TauTimers(Timers):
    """A profile's timers, by TAU's names for them."""

    def __init__(self) -> None:
        super().__init__()
        self._routines: dict[tuple[str, str], int] = {}
        self._groups: dict[str, str] = {}

    def groups_of(self, name: str) -> str:
        """TAU's groups of a routine without a row in this thread, from other threads if known."""
        return self._groups.get(name) or ("TAU_TAUPY" if name in ROOT_NAMES else "TAU_DEFAULT")

    def routine(self, name: str, groups: str) -> int:
        """The position of a routine's timer."""
        place = self._routines.get((name, groups))
        if place is None:
            place = self._routines[name, groups] = self.place(tau_names.timer(name, groups))
            self._groups.setdefault(name, groups)
        return place


class Places:
    """The places of a thread's paths in its tree.

    Args:
        row_of: for each trie row, its row in the tree; -1 if it has none.
        heads: routine -> its row as the first routine of paths, or without paths.
    """

    def __init__(self, rows: Rows, row_of: Sequence[int], heads: Mapping[int, int]) -> None:
        self._rows, self._row_of, self._heads = rows, row_of, heads

    def find(self, path: str) -> int | None:
        """The tree's row of a path; None if there is no such path."""
        row = self._rows.find(path)
        if row is not None:
            return self._row_of[row] if self._row_of[row] >= 0 else None
        return self._heads.get(self._rows.ids.get(path, -1))


def call_tree(rows: Rows, timers: TauTimers, *, stream: bool = False) -> tuple[CallTree, Places]:
    """The thread's tree; its timers are added to `timers`.

    Args:
        stream: whether the thread is a GPU's stream: routines without calls are then callers of
            launches, and their inclusive value is that of the launched work.

    Returns:
        The tree, and the places of the paths of `rows` in it.
    """
    rows.settle()
    plan = _Plan(rows)
    plan.place()
    if hidden := plan.seen_too_often():
        plan = _Plan(rows)
        plan.place(hidden)
    if not plan.complete():
        return _as_listed(rows, timers), Places(rows, [-1] * len(rows.leaf), {})
    if stream:
        plan.add_launches_up()
    return plan.call_tree(timers), Places(rows, plan.row_of, plan.heads)


class _Plan:
    """The tree's rows while it is built."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.leaf: list[int] = []  # ids of routines
        self.parent: list[int] = []
        self.values: list[Row] = []
        self.row_of = [-1] * len(rows.leaf)
        self._children: dict[tuple[int, int], int] = {}
        self.heads: dict[int, int] = {}  # routine -> its row at the beginning of paths
        self._cut = -1
        self._called = {
            leaf for leaf, above in zip(rows.leaf, rows.parent, strict=True) if above > 0
        }

    # --- places of rows ----------------------------------------------------------

    def place(self, hidden: frozenset[int] = frozenset()) -> None:
        """Assign a row to every path; truncated paths of `hidden` routines go under their rows."""
        rows = self.rows
        root = self._root()
        if root >= 0:
            self.heads[root] = self._new(root, -1)
        is_cut = [False] * len(rows.leaf)
        for trie_row in range(1, len(rows.leaf)):
            id, above = rows.leaf[trie_row], rows.parent[trie_row]
            if above == 0:
                is_cut[trie_row] = id != root
                row = self._head_of(id)
            else:
                is_cut[trie_row] = is_cut[above]
                under = self.row_of[above]
                if id in hidden and is_cut[above]:
                    under = self._callers_again(trie_row)
                row = self._below(under, id)
            self.row_of[trie_row] = row
            if (values := rows.paths[trie_row]) is not None:
                self.values[row] = values
        for id in rows.flat:
            if id not in self._called:
                self._head_of(id)

    def _root(self) -> int:
        """The routine at the top of all paths; -1 if there is none."""
        rows = self.rows
        for name in ROOT_NAMES:
            id = rows.ids.get(name, -1)
            if id >= 0 and id not in self._called:
                return id
        heads = {leaf for leaf, above in zip(rows.leaf, rows.parent, strict=True) if above == 0}
        heads -= self._called
        if not heads and len(rows.flat) == 1:
            heads = set(rows.flat)  # nothing else ran there
        return heads.pop() if len(heads) == 1 else -1

    def _head_of(self, id: int) -> int:
        if id not in self.heads:
            if self._cut < 0:
                self._cut = self._new(_CUT_ID, 0 if self.leaf else -1)
            self.heads[id] = self._new(id, self._cut)
        return self.heads[id]

    def _callers_again(self, trie_row: int) -> int:
        """Repeat the callers of a cut path under its routine's own row."""
        rows = self.rows
        callers = []
        above = rows.parent[trie_row]
        while above > 0:
            callers.append(rows.leaf[above])
            above = rows.parent[above]
        under = self._below(self._head_of(rows.leaf[trie_row]), _CUT_ID)
        for id in reversed(callers):
            under = self._below(under, id)
        return under

    def _below(self, parent: int, id: int) -> int:
        """The row of a routine below a parent, added if it is new."""
        row = self._children.get((parent, id))
        if row is None:
            row = self._children[parent, id] = self._new(id, parent)
        return row

    def _new(self, id: int, parent: int) -> int:
        self.leaf.append(id)
        self.parent.append(parent)
        self.values.append(_zeros(len(self.rows.metrics)))
        return len(self.leaf) - 1

    # --- sums --------------------------------------------------------------------

    def seen_too_often(self) -> frozenset[int]:
        """Routines whose inclusive time in the tree would exceed that of their flat row."""
        visible = self._visible()
        rows_of = Counter(self.leaf)
        return frozenset(
            id
            for id, flat in self.rows.flat.items()
            if id in self._called
            and any(
                left is not None and left < 0
                for left in self._left(flat.inclusive, visible.get(id, flat.inclusive), rows_of[id])
            )
        )

    def _visible(self) -> dict[int, list[Number | None]]:
        """Each routine's inclusive value, summed over rows with no ancestor of that routine."""
        rows = (row for row in outermost(self.parent, self.leaf))
        return _sums((self.leaf[row], self.values[row].inclusive) for row in rows)

    def complete(self) -> bool:
        """Add the excess of flat rows over their paths where those paths begin.

        Returns:
            False if some flat row is less than the sum of its paths: no tree has these numbers.
        """
        calls: dict[int, int] = {}
        subroutines: dict[int, int] = {}
        for id, values in zip(self.leaf, self.values, strict=True):
            calls[id] = calls.get(id, 0) + values.calls
            subroutines[id] = subroutines.get(id, 0) + values.subroutines
        exclusive = _sums((i, v.exclusive) for i, v in zip(self.leaf, self.values, strict=True))
        visible = self._visible()
        nothing: list[Number | None] = [0] * len(self.rows.metrics)
        rows_of = Counter(self.leaf)
        for id, flat in self.rows.flat.items():
            left = Row(
                flat.groups,
                flat.calls - calls.get(id, 0),
                flat.subroutines - subroutines.get(id, 0),
                self._left(flat.exclusive, exclusive.get(id, nothing), rows_of[id]),
                self._left(flat.inclusive, visible.get(id, nothing), rows_of[id]),
                0,
            )
            sums = [left.calls, left.subroutines, *left.exclusive]
            if id in self._called and any(number and number < 0 for number in sums):
                return False
            if id not in self._called or any(sums) or any(left.inclusive):
                self.values[self._head_of(id)] = left
        return True

    def _left(
        self, totals: list[Number | None], seen: list[Number | None], summed: int
    ) -> list[Number | None]:
        """A routine's totals minus the sums of its rows, of which there are `summed`."""
        slack = summed + 1 if self.rows.rounded else 0
        tolerance = self.rows.tolerance
        return [
            _left(total, other, slack, tolerance) for total, other in zip(totals, seen, strict=True)
        ]

    def add_launches_up(self) -> None:
        """On a stream, add the calls and inclusive values of rows to callers without calls."""
        for row in range(len(self.leaf) - 1, 0, -1):
            above = self.parent[row]
            if not self.values[above].calls:
                self.values[above].subroutines += self.values[row].calls
                totals = self.values[above].inclusive
                for metric, value in enumerate(self.values[row].inclusive):
                    totals[metric] = (totals[metric] or 0) + (value or 0)

    def call_tree(self, timers: TauTimers) -> CallTree:
        rows = self.rows
        position = {}
        for id in dict.fromkeys(self.leaf):
            if id == _CUT_ID:
                position[id] = timers.place(CUT)
            else:
                name = rows.names[id]
                groups = rows.flat[id].groups if id in rows.flat else timers.groups_of(name)
                position[id] = timers.routine(name, groups)
        return _columns(rows.metrics, [position[id] for id in self.leaf], self.parent, self.values)


def _as_listed(rows: Rows, timers: TauTimers) -> CallTree:
    """A tree with a separate timer for every row of the file; paths have their whole names."""
    listed = [(timers.routine(rows.names[id], row.groups), row) for id, row in rows.flat.items()]
    for trie_row, path in enumerate(rows.paths):
        if path is not None:
            flat = rows.flat.get(rows.leaf[trie_row])
            groups = f"{CALLPATH_GROUP}|{flat.groups}" if flat else CALLPATH_GROUP
            whole = Timer(rows.spelled(trie_row), groups=tau_names.our_groups(groups))
            listed.append((timers.place(whole), path))
    roots = [place for place, id in enumerate(rows.flat) if rows.names[id] == ROOT_NAMES[0]]
    first = [listed.pop(place) for place in roots]
    cut = (timers.place(CUT), _zeros(len(rows.metrics)))
    order = [*first, cut, *listed]
    above = len(first)
    parent = [row - 1 if row <= above else above for row in range(len(order))]
    return _columns(
        rows.metrics, [timer for timer, _ in order], parent, [values for _, values in order]
    )


def _columns(
    metrics: Sequence[Metric], timer: list[int], parent: list[int], values: Sequence[Row]
) -> CallTree:
    return CallTree(
        timer=array("q", timer),
        parent=array("q", parent),
        calls=array("q", [row.calls for row in values]),
        subroutines=array("q", [row.subroutines for row in values]),
        inclusive={
            metric.name: _column([row.inclusive[place] for row in values])
            for place, metric in enumerate(metrics)
        },
        exclusive={
            metric.name: _column([row.exclusive[place] for row in values])
            for place, metric in enumerate(metrics)
        },
    )


def _column(values: Sequence[Number | None]) -> array[int]:
    """A column of integers; of type "d" if any value is absent, not an integer, or too large."""
    if all(type(value) is int and abs(value) <= limits.INTEGER for value in values):
        return array("q", values)  # type: ignore[arg-type]
    return array("d", [math.nan if value is None else value for value in values])  # type: ignore[return-value]


def _zeros(metrics: int) -> Row:
    return Row("", 0, 0, [0] * metrics, [0] * metrics, 0)


def _sums(values: Iterable[tuple[int, list[Number | None]]]) -> dict[int, list[Number | None]]:
    sums: dict[int, list[Number | None]] = {}
    for id, row in values:
        total = sums.get(id)
        if total is None:
            sums[id] = list(row)
        else:
            for metric, value in enumerate(row):
                if value is not None:
                    total[metric] = (total[metric] or 0) + value
    return sums


def _left(total: Number | None, seen: Number | None, slack: int, tolerance: float) -> Number | None:
    """The total minus the sum of the parts; 0 if rounding explains the difference.

    Args:
        slack, tolerance: absolute and relative error of sums of rounded values.
    """
    if total is None:
        return -seen if seen else None
    left = total - (seen or 0)
    if isinstance(left, float):
        tolerance = max(tolerance, 1e-9)
    if seen and abs(left) <= max(slack, tolerance * max(abs(total), abs(seen))):
        return 0
    return left
