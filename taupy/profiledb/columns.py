"""Large trees, column by column with NumPy; `prepared.py` and `model/flat.py` go row by row.

Only columns of integers are supported. The results are the same; trees for which `wide` is False
are processed row by row, without NumPy.
"""

from __future__ import annotations

from _blake2 import blake2b
from _struct import iter_unpack
from array import array
from collections.abc import Iterator
from functools import partial
from itertools import starmap

from taupy.dataclass import dataclass
from taupy.model.profile import CallTree
from taupy.profiledb.identity import _POSITIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Column = np.ndarray[Any, np.dtype[np.int64]]

ROWS = 2_000
"""Below this number of rows, importing NumPy does not pay off."""
_CLIMBS = 64
"""Maximum mean depth for which climbing level by level pays off."""
_LARGEST = 1 << 62


def wide(tree: CallTree) -> bool:
    """Whether the tree is large and holds only integers, whose sums fit into 64 bits."""
    columns = [*tree.inclusive.values(), *tree.exclusive.values()]
    if len(tree) < ROWS or any(column.typecode != "q" for column in columns):
        return False
    sums = [
        abs(whole(column).sum(dtype=float)) for column in (tree.calls, tree.subroutines, *columns)
    ]
    return bool(max(sums) < _LARGEST)


def whole(column: array[int]) -> Column:
    """A column of the model as a NumPy array, without copying."""
    import numpy as np

    return np.frombuffer(column, "i8")


def column(values: Column) -> array[int]:
    """A NumPy array as a column of the model."""
    return array("q", values.tobytes())


def lawful(tree: CallTree, timers: int, roots: list[int]) -> bool:
    """Whether wide trees, one after the other, satisfy every invariant of `model/invariants.py`.

    Args:
        roots: the first row of each.
    """
    import numpy as np

    rows, parent, timer = len(tree), whole(tree.parent), whole(tree.timer)
    columns = [tree.calls, tree.subroutines, *tree.inclusive.values(), *tree.exclusive.values()]
    if any(len(column) != rows for column in (*columns, tree.parent)):
        return False
    if tree.inclusive.keys() != tree.exclusive.keys():
        return False
    if timer.min() < 0 or timer.max() >= timers or whole(tree.calls).min() < 0:
        return False
    if not np.array_equal(np.flatnonzero(parent < 0), roots) or parent.min() < -1:
        return False
    if (parent >= np.arange(rows)).any():
        return False
    if (_below(parent, whole(tree.calls)) != whole(tree.subroutines)).any():
        return False
    for name, column in tree.inclusive.items():
        inclusive, exclusive = whole(column), whole(tree.exclusive[name])
        if exclusive.min() < 0 or (_below(parent, inclusive) + exclusive != inclusive).any():
            return False
        if (exclusive > inclusive).any():
            return False
    return True


def _below(parent: Column, values: Column) -> Column:
    """For each row, the sum of its children's values."""
    import numpy as np

    sums = np.zeros(len(values), "i8")
    is_below = parent >= 0
    np.add.at(sums, parent[is_below], values[is_below])
    return sums


def depths(parent: Column) -> Column:
    """The depth of each row."""
    import numpy as np

    depth = (parent >= 0).astype("i8")
    above = parent
    while (above >= 0).any():
        depth += np.where(above >= 0, depth[above], 0)
        above = np.where(above >= 0, above[above], -1)
    return depth


def callpath_ids(parent: Column, timers: Column, depth: Column) -> Column:
    """The same ids as `identity.py`, computed level by level."""
    import numpy as np

    ids = np.zeros(len(parent), "<i8")
    order = depth.argsort(kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(parent[rows] >= 0, ids[parent[rows]], 0)
        links = np.stack((above, timers[rows]), 1).astype("<i8").tobytes()
        # One hash per row; nearly all of this runs in C.
        hashes = starmap(partial(blake2b, digest_size=8), iter_unpack("16s", links))
        ids[rows] = np.frombuffer(b"".join(map(blake2b.digest, hashes)), "<i8") & _POSITIVE
    return ids


def is_deep(depth: Column) -> bool:
    """Whether climbing from each row of a tree takes longer than going through it row by row."""
    return bool(depth.sum() > _CLIMBS * len(depth))


def outermost(parent: Column, keys: Column) -> Column:
    """Which rows are outermost, as in `model/forest.py`; of a tree that is not deep."""
    import numpy as np

    inside = np.zeros(len(parent), bool)
    climbing, above = np.arange(len(parent)), parent
    while len(climbing):
        goes_on = above >= 0
        climbing, above = climbing[goes_on], above[goes_on]
        alike = keys[above] == keys[climbing]
        inside[climbing[alike]] = True
        climbing, above = climbing[~alike], parent[above[~alike]]
    return ~inside


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Sums by key, in ascending order of the keys.

    Attributes:
        first: a row of the tree with the key.
    """

    first: Column
    calls: Column
    subroutines: Column
    inclusive: dict[str, Column]
    exclusive: dict[str, Column]

    def is_any(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether any number of a key is not 0."""
        import numpy as np

        numbers = (*self.inclusive.values(), *self.exclusive.values())
        is_any: np.ndarray[Any, np.dtype[np.bool_]]
        is_any = np.any((self.calls, self.subroutines, *numbers), axis=0)
        return is_any


def flat_sums(tree: CallTree, keys: Column) -> FlatColumns:
    """Sum a tree that is not deep by `keys`, which are not negative."""
    import numpy as np

    top = outermost(whole(tree.parent), keys)
    order = keys.argsort()
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))

    def sums(values: Column) -> Column:
        return np.add.reduceat(values[order], starts)

    return FlatColumns(
        order[starts],
        calls=sums(whole(tree.calls)),
        subroutines=sums(whole(tree.subroutines)),
        inclusive={
            name: sums(np.where(top, whole(values), 0)) for name, values in tree.inclusive.items()
        },
        exclusive={name: sums(whole(tree.exclusive[name])) for name in tree.inclusive},
    )


def statements(cells: Column, rows: int) -> Iterator[list[int]]:
    """Rows of cells as the parameters of statements that insert `rows` of them at a time."""
    for at in range(0, len(cells), rows * 100):
        piece = cells[at : at + rows * 100]
        yield from piece.reshape(len(piece) // rows, -1).tolist()
