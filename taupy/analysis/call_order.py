"""Pair the calls of two runs by their order.

A longest common subsequence pairs equal calls so that no two pairs cross: if calls are missing on a
side, those after them keep their partners. (Pairing the k-th call with the k-th would shift all of
them; so would blocks as of `difflib`, by whole layers of a network.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

MOST_CALLS = 20_000
"""Of a process: one bit for each pair of calls, 50 MB."""

Pair = tuple[int, int]

T = TypeVar("T")


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[Pair]:
    """The positions of a longest common subsequence of two sequences.

    Source:
        Hyyrö, Bit-parallel LCS-length computation revisited, AWOCA 2004: bit j of row i is 0 where
        the second sequence's element j makes the subsequence longer.
    """
    begin, end = 0, 0
    shorter = min(len(first), len(second))
    while begin < shorter and first[begin] == second[begin]:
        begin += 1
    while end < shorter - begin and first[-1 - end] == second[-1 - end]:
        end += 1
    middle = _middle(first[begin : len(first) - end], second[begin : len(second) - end])
    return [
        *((at, at) for at in range(begin)),
        *((begin + row, begin + column) for row, column in middle),
        *((len(first) - at, len(second) - at) for at in range(end, 0, -1)),
    ]


def _middle(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[Pair]:
    places: dict[Hashable, int] = {}
    for at, element in enumerate(second):
        places[element] = places.get(element, 0) | 1 << at
    ones = (1 << len(second)) - 1
    rows = [ones]
    for element in first:
        row = rows[-1]
        equal = row & places.get(element, 0)
        rows.append((row + equal | row - equal) & ones)
    pairs = []
    row, column = len(first), len(second)
    while row and column:
        if rows[row] >> column - 1 & 1:
            column -= 1
            continue
        row -= 1
        if rows[row] >> column - 1 & 1:
            column -= 1
            pairs.append((row, column))
    return pairs[::-1]


def paired(
    first: Sequence[T], second: Sequence[T], keys: Sequence[Callable[[T], Hashable]]
) -> list[Pair]:
    """The positions of calls that belong together, in order.

    Args:
        keys: what equal calls have in common, the most telling first. Calls that a key leaves
            between two pairs are paired by the next one.
    """
    pairs: list[Pair] = []
    for key in keys:
        places, labels = _left(first, [at for at, _ in pairs], key)
        others, other_labels = _left(second, [at for _, at in pairs], key)
        common = common_subsequence(labels, other_labels)
        pairs = sorted([*pairs, *((places[at], others[other]) for at, other in common)])
    return pairs


def _left(
    calls: Sequence[T], taken: Sequence[int], key: Callable[[T], Hashable]
) -> tuple[list[int], list[Hashable]]:
    """Positions of the calls that are not taken; keys, with how many taken ones are before."""
    ends = [*taken, len(calls)]
    begins = [0, *(at + 1 for at in taken)]
    places, labels = list[int](), list[Hashable]()
    for gap, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        places += range(begin, end)
        labels += ((gap, key(call)) for call in calls[begin:end])
    return places, labels
