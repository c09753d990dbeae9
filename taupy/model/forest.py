"""Call paths as a forest: links, preorder, the outermost row of each key, and sums up the tree.

Everything here is iterative and linear in the number of rows: there may be a million, up to a
hundred thousand deep.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    import numpy as np

    Column = np.ndarray[Any, np.dtype[np.int64]]

    _Array = TypeVar("_Array", "array[int]", "array[float]")
    _Column = TypeVar("_Column", "array[int]", list[int], list[float])

MANY = 50_000
"""Rows from which on NumPy, whose import takes a tenth of a second, is faster than dictionaries and
lists that are larger than a processor's caches."""
SHALLOW = 64
"""Mean number of rows of a depth from which on a forest is shallow."""


class Links:
    """First child and next sibling of every row, -1 for none, and the roots.

    Siblings and roots are in the given order, by default that of the rows.
    """

    __slots__ = ("first_child", "next_sibling", "roots")

    def __init__(self, parent: Sequence[int], order: Sequence[int] | None = None) -> None:
        self.first_child = [-1] * len(parent)
        self.next_sibling = [-1] * len(parent)
        self.roots: list[int] = []
        for row in reversed(range(len(parent)) if order is None else order):
            above = parent[row]
            if above < 0:
                self.roots.append(row)
            else:
                self.next_sibling[row] = self.first_child[above]
                self.first_child[above] = row
        self.roots.reverse()

    def children(self, row: int) -> list[int]:
        rows = []
        child = self.first_child[row]
        while child >= 0:
            rows.append(child)
            child = self.next_sibling[child]
        return rows


def preorder(parent: Sequence[int], order: Sequence[int] | None = None) -> list[int]:
    """The rows in preorder; siblings in the given order."""
    if of_depths := levels(parent):
        return _preorder_by_level(parent, of_depths, order)
    links = Links(parent, order)
    first_child, next_sibling = links.first_child, links.next_sibling
    rows: list[int] = []
    stack = links.roots[::-1]
    while stack:
        row = stack.pop()
        rows.append(row)
        if next_sibling[row] >= 0:
            stack.append(next_sibling[row])
        if first_child[row] >= 0:
            stack.append(first_child[row])
    return rows


def _preorder_by_level(
    parent: Sequence[int], of_depths: Sequence[Column], order: Sequence[int] | None
) -> list[int]:
    import numpy as np

    above = np.array(parent, "i8")
    size = np.ones(len(above), "i8")  # of each row, with all that is below it
    for level in reversed(of_depths[1:]):
        np.add.at(size, above[level], size[level])
    siblings = np.concatenate(of_depths)
    if order is not None:
        rank = np.empty(len(above), "i8")
        rank[np.array(order, "i8")] = np.arange(len(above))
        siblings = siblings[np.argsort(rank[siblings])]
    else:
        siblings = np.sort(siblings)
    siblings = siblings[np.argsort(above[siblings], kind="stable")]
    before = np.cumsum(size[siblings]) - size[siblings]
    begins = np.flatnonzero(np.diff(above[siblings], prepend=-2))
    counts = np.diff(begins, append=len(siblings))
    place = np.empty(len(above), "i8")
    place[siblings] = before - np.repeat(before[begins], counts)  # below its caller
    for level in of_depths[1:]:
        place[level] += place[above[level]] + 1
    rows = np.empty(len(siblings), "i8")
    rows[place[siblings]] = siblings
    in_order: list[int] = rows.tolist()
    return in_order


def members(keys: Sequence[int], count: int) -> Callable[[int], list[int]]:
    """The positions of a key, in order; keys are from 0 up to `count`, others do not matter."""
    if len(keys) < MANY:
        positions: list[list[int]] = [[] for _ in range(count)]
        for at, key in enumerate(keys):
            if key >= 0:
                positions[key].append(at)
        return positions.__getitem__
    import numpy as np

    of_rows = np.array(keys, "i8")
    in_order = np.argsort(of_rows, kind="stable")
    ends = np.searchsorted(of_rows[in_order], np.arange(count + 1))
    order, begins = array("q", in_order.tobytes()), array("q", ends.astype("i8").tobytes())

    def of_key(key: int) -> list[int]:
        return order[begins[key] : begins[key + 1]].tolist()

    return of_key


def sums_by_key(keys: Sequence[int], count: int, values: Sequence[float]) -> list[float]:
    """The sum of each key's values."""
    of_keys: list[float] = [0] * count
    for key, value in zip(keys, values, strict=True):
        of_keys[key] += value
    return of_keys


def by_first(keys: Sequence[int]) -> tuple[list[int], list[int]]:
    """A number per row, equal for equal keys, and the first row with each number: of many rows."""
    import numpy as np

    _, firsts, which = np.unique(np.array(keys, "i8"), return_index=True, return_inverse=True)
    in_order = np.argsort(firsts)
    numbers: list[int] = np.argsort(in_order)[which].tolist()
    return numbers, firsts[in_order].tolist()


def taken(column: _Array, rows: Sequence[int]) -> _Array:
    """These rows of a column, in this order."""
    if len(rows) < MANY:
        return array(column.typecode, map(column.__getitem__, rows))
    import numpy as np

    of_rows = np.frombuffer(column, column.typecode)[np.array(rows, "i8")]
    return array(column.typecode, of_rows.tobytes())


def ascending(keys: array[int]) -> Sequence[int]:
    """The rows in the order of their keys; those with equal keys in their own."""
    if len(keys) < MANY:
        return sorted(range(len(keys)), key=keys.__getitem__)
    import numpy as np

    return array("q", np.argsort(np.frombuffer(keys, "i8"), kind="stable").tobytes())


def parents_in(order: Sequence[int], parent: array[int]) -> array[int]:
    """The parent column of these rows, in this order; a row's parent is among them."""
    place_of: array[int] = array("q", [0]) * (len(parent) + 1)
    place_of[-1] = -1  # what is above a root
    if len(order) < MANY:
        for place, row in enumerate(order):
            place_of[row] = place
    else:
        import numpy as np

        np.frombuffer(place_of, "i8")[np.array(order, "i8")] = np.arange(len(order))
    return taken(place_of, taken(parent, order))


def callers_first(parent: Sequence[int]) -> Sequence[int]:
    """The rows, each after its caller, as far as they are below a root: for values that pass from
    callers to callees, where the order of siblings does not matter."""
    if all(above < row for row, above in enumerate(parent)):
        return range(len(parent))
    order: list[int] = []
    reached = bytearray(len(parent))  # 1: climbed from, 2: in order
    for row, above in enumerate(parent):
        if reached[row]:
            continue
        if above < 0 or reached[above] == 2:
            reached[row] = 2
            order.append(row)
            continue
        climbed = []
        here = row
        while here >= 0 and not reached[here]:
            reached[here] = 1
            climbed.append(here)
            here = parent[here]
        if here < 0 or reached[here] == 2:
            for here in reversed(climbed):
                reached[here] = 2
                order.append(here)
    return order


def levels(parent: Sequence[int]) -> list[Column]:
    """The rows of each depth, of a large and shallow forest, as far as they are below a root: a few
    steps of NumPy for each depth then take less time than one for each row. Of others, nothing."""
    if len(parent) < MANY:
        return []
    import numpy as np

    above = np.array(parent, "i8")
    depth = (above >= 0).astype("i4")
    for _ in range(len(parent).bit_length()):  # each round, all rows look twice as far up
        below = np.flatnonzero(above >= 0)
        if not len(below):
            break
        callers = above[below]
        depth[below] += depth[callers]
        above[below] = above[callers]
    rows = np.flatnonzero(above < 0)  # without those that call themselves, in a damaged file
    rows = rows[np.argsort(depth[rows], kind="stable")]
    ends = np.cumsum(np.bincount(depth[rows]))
    return np.split(rows, ends[:-1]) if len(ends) * SHALLOW < len(rows) else []


def places_of(names: Sequence[int | None], among: Sequence[int]) -> list[int]:
    """The position of each name among others, which are distinct; -1 of None and of those that are
    missing."""
    if len(among) < MANY:
        place_of = dict(zip(among, range(len(among)), strict=True))
        return list(map(place_of.get, names, repeat(-1)))  # type: ignore[arg-type]
    import numpy as np

    here, wanted = np.array(among, "i8"), np.array([name or 0 for name in names], "i8")
    order, by_name = np.argsort(here), np.argsort(wanted)
    here, sought = here[order], wanted[by_name]  # in order, both are read once
    at = np.minimum(np.searchsorted(here, sought), len(here) - 1)
    places = np.empty(len(wanted), "i8")
    places[by_name] = np.where(here[at] == sought, order[at], -1)
    if 0 in here:
        places[[name is None for name in names]] = -1
    positions: list[int] = places.tolist()
    return positions


def outermost(parent: Sequence[int], keys: Sequence[int]) -> array[int]:
    """Rows that have no ancestor with the same key; rows with the key -1 never count.

    Their inclusive values add up to the time during which the key was on the stack.
    """
    links = Links(parent)
    first_child, next_sibling = links.first_child, links.next_sibling
    rows: array[int] = array("q")
    active = dict.fromkeys(keys, 0)
    active[-1] = 1
    stack = links.roots[::-1]
    push, pop = stack.append, stack.pop
    while stack:
        row = pop()
        if row < 0:  # everything below row ~row is done
            active[keys[~row]] -= 1
            continue
        key = keys[row]
        if not active[key]:
            rows.append(row)
        child = first_child[row]
        if child >= 0:
            active[key] += 1
            push(~row)
            while child >= 0:
                push(child)
                child = next_sibling[child]
    return rows


def subroutines(parent: Sequence[int], calls: Sequence[int]) -> array[int]:
    """For each row, the calls of the rows directly below it."""
    below = array("q", bytes(8 * len(parent)))
    for above, count in zip(parent, calls, strict=True):
        if above >= 0:
            below[above] += count
    return below


def inclusive(parent: Sequence[int], exclusive: _Column) -> _Column:
    """For each row, its value and those of all rows below it; callers must precede callees.

    A row whose value is NaN has none, and adds nothing to its caller.
    """
    sums = exclusive[:]
    for row in range(len(sums) - 1, 0, -1):
        value, above = sums[row], parent[row]
        if above >= 0 and value == value:
            own = sums[above]
            sums[above] = own + value if own == own else value
    return sums
