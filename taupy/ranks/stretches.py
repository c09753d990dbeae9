"""Find what delayed the last rank since the previous collective.

Each rank lists where its time went between collectives (`Stretches`). Ranks may have merged
different stretches. They are therefore added up between the collectives at which a stretch ends on
all ranks of a communicator, and these sums are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from taupy.model.collectives import STRETCH_PLACES, Stretches
from taupy.ranks.data import Matched, Ranks

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Values = np.ndarray[Any, np.dtype[np.float64]]
LEFT_OUT = -1
"""The key of a call path that is not compared."""


class Longer(NamedTuple):
    """What took a rank longer before a collective at which it arrived last.

    Attributes:
        number: the collective's number; of several without an end of a stretch between them, that
            of the one at which the others waited longest for the rank.
        step: that collective's step; 0 outside steps.
        key: the key of the call paths that took longer.
        path: the call path with that key and the longest time.
        excess_ns: the rank's own time minus the median of the other ranks'; negative if it was
            shorter. For ranks that do not list the key, an upper bound of their time is used.
        is_repeated: the same time was found before a collective of another communicator, at which
            the others waited longer for the rank.
    """

    rank: int
    communicator: str
    number: int
    step: int
    key: int
    path: int
    excess_ns: float
    is_repeated: bool = False


class _Claim(NamedTuple):
    """What took a rank longer in some of its stretches, from `first` to `last`."""

    waited_ns: float
    rank: int
    first: int
    last: int
    items: list[Longer]


@dataclass
class OwnTimes:
    """Where one rank's time went.

    Attributes:
        paths: for each entry of the stretches, the number of its call path, common to all ranks.
        keys: for each call path, its key; paths with the same key are added up, and `LEFT_OUT` is
            not compared.
    """

    stretches: Stretches
    paths: Numbers
    keys: Numbers

    @cached_property
    def ends(self) -> Numbers:
        return np.array(self.stretches.end_ns, "i8")

    @cached_property
    def of(self) -> Numbers:
        """The stretch of each entry."""
        return np.array(self.stretches.stretch, "i8")

    @cached_property
    def own(self) -> Values:
        return np.array(self.stretches.own_ns, "f8")

    @cached_property
    def at_most(self) -> Values:
        """For each stretch, the upper bound of the time of a call path that it does not list."""
        least = np.full(len(self.ends), np.inf)
        np.minimum.at(least, self.of, self.own)
        is_full = np.bincount(self.of, minlength=len(self.ends)) >= STRETCH_PLACES
        return np.where(is_full, least, 0.0)


@dataclass
class _Summed:
    """One rank's entries, added up by group and key."""

    places: Numbers  # group * keys + key, rising
    own: Values
    path: Numbers
    at_most: Values  # upper bound of each group


def longer(job: Ranks, held: Mapping[int, OwnTimes]) -> Iterator[Longer]:
    """What took the last rank longer, for each collective at which others waited.

    Args:
        held: own times by rank.
    """
    claims: list[_Claim] = []
    for matched in job.matched:
        members = [rank for rank in matched.ranks if rank in held]
        if len(members) > 1:
            claims += _longer_of(job, matched, {rank: held[rank] for rank in members})
    taken = {rank: np.zeros(len(own.ends), bool) for rank, own in held.items()}
    for claim in sorted(claims, key=lambda claim: -claim.waited_ns):
        stretches = taken[claim.rank][claim.first : claim.last + 1]
        if stretches.any():
            yield from (item._replace(is_repeated=True) for item in claim.items)
        else:
            stretches[:] = True
            yield from claim.items


def _longer_of(job: Ranks, matched: Matched, held: Mapping[int, OwnTimes]) -> Iterator[_Claim]:
    labels = {rank: _labels(job, matched, rank, own) for rank, own in held.items()}
    common = np.array(sorted(set.intersection(*(set(label.tolist()) for label in labels.values()))))
    common = common[common > 0]
    if not len(common):
        return
    culprits, numbers, waited = _culprits(matched, common)
    count = 1 + max(int(own.keys.max(initial=0)) for own in held.values())
    summed = {rank: _summed(own, labels[rank], common, count) for rank, own in held.items()}
    step_of = dict(zip(matched.number, matched.step.tolist(), strict=True))
    for rank, mine in summed.items():
        chosen = culprits[mine.places // count] == rank
        places, groups = mine.places[chosen], mine.places[chosen] // count
        others = np.stack(
            [_at(other, places, groups) for number, other in summed.items() if number != rank]
        )
        excess = mine.own[chosen] - np.median(others, axis=0)
        items: dict[int, list[Longer]] = {}
        for group, place, path, time in zip(
            groups.tolist(), places.tolist(), mine.path[chosen].tolist(), excess.tolist(),
            strict=True,
        ):  # fmt: skip
            number = int(numbers[group])
            step = step_of.get(number, 0)
            items.setdefault(group, []).append(
                Longer(rank, matched.communicator, number, step, place % count, path, time)
            )
        group_of = np.where(labels[rank] > 0, _group(common, labels[rank]), -1)
        for group, of_group in items.items():
            inside = np.flatnonzero(group_of == group)
            yield _Claim(float(waited[group]), rank, int(inside[0]), int(inside[-1]), of_group)


def _labels(job: Ranks, matched: Matched, rank: int, own: OwnTimes) -> Numbers:
    """The last collective requested before each stretch ended; 0 for none."""
    for member in job.ranks:
        for kept in member.communicators:
            if member.number == rank and kept.communicator == matched.communicator:
                numbers = np.array([0, *kept.number], "i8")
                requested_ns = np.array(kept.asked_ns, "i8")
                labels: Numbers = numbers[np.searchsorted(requested_ns, own.ends, "right")]
                return np.where(np.isin(labels, matched.number), labels, 0)
    return np.zeros(len(own.ends), "i8")


def _group(common: Numbers, numbers: Numbers) -> Numbers:
    """The group of each collective: those up to the next common number."""
    group: Numbers = np.searchsorted(common, numbers, "left")
    return group


def _culprits(matched: Matched, common: Numbers) -> tuple[Numbers, Numbers, Values]:
    """For each group, the rank that others waited for most (-1 if no rank waited), the collective
    at which they waited longest for it, and how long they waited for it."""
    numbers = np.array(matched.number, "i8")
    group, waited = _group(common, numbers), matched.direct
    caused = np.zeros((len(matched.ranks), len(common) + 1))
    np.add.at(caused, (matched.last, group), waited)
    ranks, rows = np.array(matched.ranks, "i8"), caused.argmax(axis=0)
    culprits: Numbers = np.where(caused.max(axis=0) > 0, ranks[rows], -1)
    longest = np.append(common, 0)
    by_time = np.argsort(waited, kind="stable")
    by_time = by_time[matched.last[by_time] == rows[group[by_time]]]
    longest[group[by_time]] = numbers[by_time]  # of several numbers for a group, the last one
    return culprits, longest, caused.max(axis=0)


def _summed(own: OwnTimes, labels: Numbers, common: Numbers, count: int) -> _Summed:
    """Entries by group and key. Stretches after the last common number have no group."""
    group = np.where(labels > 0, _group(common, labels), len(common))
    at_most = np.bincount(group, own.at_most, len(common) + 1).astype("f8")
    keys = own.keys[own.paths]
    groups = group[own.of]
    is_in = (keys != LEFT_OUT) & (groups < len(common))
    places, own_ns, paths = (groups * count + keys)[is_in], own.own[is_in], own.paths[is_in]
    order = np.lexsort((-own_ns, places))
    places, own_ns, paths = places[order], own_ns[order], paths[order]
    distinct, first = np.unique(places, return_index=True)
    sums: Values = np.add.reduceat(own_ns, first) if len(first) else own_ns
    return _Summed(distinct, sums, paths[first], at_most)


def _at(summed: _Summed, places: Numbers, groups: Numbers) -> Values:
    """A rank's times at these places; for places that it does not list, the upper bound."""
    at = np.searchsorted(summed.places, places)
    at_end = np.append(summed.places, -1)[at] == places
    values: Values = np.where(at_end, np.append(summed.own, 0.0)[at], summed.at_most[groups])
    return values
