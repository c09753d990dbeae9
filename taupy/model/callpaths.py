"""Tables of call paths as forests: parents, depths, and sums over groups of call paths.

Such a table has the dimensions `thread`, `callpath`, `parent` and `timer`; a parent is the
id of a call path, and a row whose parent has no row on its thread is a root. Everything is
iterative and linear in the number of rows: there may be a million, up to a hundred thousand
deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taupy.model.forest import outermost, places_of, preorder
from taupy.model.table import Amount, Column, Table


def parents(table: Table) -> list[int]:
    """Each row's parent row, -1 for a root."""
    ids = table.labels["callpath"]
    above = places_of(table.labels["parent"], ids)
    if table.codes["callpath"] == range(table.size):  # of one thread
        codes = table.codes["parent"]
        return above if codes == range(table.size) else list(map(above.__getitem__, codes))
    size = len(ids)
    threads = [thread * size for thread in table.codes["thread"]]
    keys = map(int.__add__, threads, table.codes["callpath"])
    row_of = {key: row for row, key in enumerate(keys)}
    find = row_of.get
    return [
        find(thread + above[parent], -1) if above[parent] >= 0 else -1
        for thread, parent in zip(threads, table.codes["parent"], strict=True)
    ]


def in_order(table: Table, inclusive: Sequence[float], parent: Sequence[int]) -> list[int]:
    """The rows in preorder, with threads in the table's order.

    Siblings and roots are sorted by decreasing inclusive value, then by name.

    Args:
        parent: as returned by `parents`.
    """
    names = [timer.timer for timer in table.labels["timer"]]
    by_name = sorted(range(len(names)), key=names.__getitem__)
    rank_of = {code: rank for rank, code in enumerate(by_name)}
    rank = list(map(rank_of.__getitem__, table.codes["timer"]))
    order = sorted(range(table.size), key=rank.__getitem__)
    order.sort(key=inclusive.__getitem__, reverse=True)  # stable: keeps the order by name
    order.sort(key=table.codes["thread"].__getitem__)
    return preorder(parent, order)


def depths(parent: Sequence[int]) -> list[int]:
    """How many ancestors each row has; parents precede their children."""
    depth_of = [0] * len(parent)
    for row, above in enumerate(parent):
        if above >= 0:
            depth_of[row] = depth_of[above] + 1
    return depth_of


def rolled_up(own: Sequence[Amount], parent: Sequence[int], order: Sequence[int]) -> list[Amount]:
    """Each row's value plus those of all rows below it; `order` has parents first."""
    sums = list(own)
    for row in reversed(order):
        above, value = parent[row], sums[row]
        if above >= 0 and value is not None:
            before = sums[above]
            sums[above] = value if before is None else before + value
    return sums


def grouped(
    table: Table, parent: Sequence[int], groups: Sequence[Sequence[int]], count: int
) -> dict[Column, list[Amount]]:
    """The columns of groups of call paths; nested paths of a group are not counted twice.

    Args:
        parent: as returned by `parents`.
        groups: the groups of each row, from 0; a row may be in several.
        count: how many groups there are.
    """
    sums: dict[Column, list[Amount]] = {column: [None] * count for column in table.columns}
    for keys in _passes(groups):
        for column, values in table.summed(keys, count, outermost(parent, keys)).items():
            mine = sums[column]
            for group, value in enumerate(values):
                mine[group] = value if mine[group] is None else mine[group]
    return sums


def _passes(groups: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """One group per row, -1 for none. Each group is in exactly one pass, with all its rows."""
    members: dict[int, list[int]] = {}
    for row, mine in enumerate(groups):
        for group in dict.fromkeys(mine):
            members.setdefault(group, []).append(row)
    while members:
        keys = [-1] * len(groups)
        for group, rows in list(members.items()):
            if all(keys[row] < 0 for row in rows):
                del members[group]
                for row in rows:
                    keys[row] = group
        yield keys
