"""Find the rank that was itself late, if the last one to arrive had waited for it elsewhere.

The last rank of a collective may be late only because a third rank kept it waiting in another
group. What it waited there since it last met a rank that waits for it now, less what that rank
waited elsewhere in the same time, is attributed to the third rank, or to the one that this rank had
waited for, and so on. An arrival is explained by earlier ones only, so this comes to an end.

A collective may run while its rank computes. Only time that the rank's thread demonstrably spent in
routines that communicate counts as its waiting here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from taupy.ranks.data import Array, Ranks
from taupy.ranks.matching import union


@dataclass
class InRoutines:
    """When a rank's thread was in routines that communicate.

    Attributes:
        start, end: of its stretches, consecutive, as in `Matched.requested`.
        time_ns: in such routines, in each stretch; a lower bound.
    """

    start: Array
    end: Array
    time_ns: Array

    @cached_property
    def _before(self) -> Array:
        return np.concatenate([[0.0], np.cumsum(self.time_ns)])

    def between(self, since: float, until: float) -> float:
        """The time in stretches that lie within these moments."""
        first = int(np.searchsorted(self.start, since, "left"))
        after = int(np.searchsorted(self.end, until, "right"))
        return float(self._before[after] - self._before[first]) if after > first else 0.0


class _Wait(NamedTuple):
    """A rank's waiting in a collective, and for whom: shares that add up to 1."""

    start: float
    end: float
    shares: Mapping[int, float]


@dataclass
class _Chains:
    job: Ranks
    threads: Mapping[int, InRoutines]
    waits: dict[int, list[_Wait]] = field(default_factory=dict)
    _met: dict[tuple[int, int, int], tuple[Array, Array]] = field(default_factory=dict)

    @cached_property
    def _places(self) -> dict[int, list[int]]:
        """Where in `Ranks.matched` each rank's communicators are."""
        places: dict[int, list[int]] = {}
        for place, matched in enumerate(self.job.matched):
            for rank in matched.ranks:
                places.setdefault(rank, []).append(place)
        return places

    def met(self, late: int, other: int, before: float) -> tuple[float, float]:
        """When each of two ranks came to the last collective of both that `late` requested before
        a moment; minus infinity for none."""
        latest = -np.inf, -np.inf
        for place in self._places[late]:
            if other in self.job.matched[place].ranks:
                mine, others = self._met_in(place, late, other)
                at = bisect_left(mine, before) - 1
                if at >= 0 and mine[at] > latest[0]:
                    latest = float(mine[at]), float(others[at])
        return latest

    def _met_in(self, place: int, late: int, other: int) -> tuple[Array, Array]:
        key = place, late, other
        if key not in self._met:
            matched = self.job.matched[place]
            rows = [matched.ranks.index(rank) for rank in (late, other)]
            both = matched.requested[rows]
            both = both[:, ~np.isnan(both).any(axis=0)]
            mine, others = both[:, np.argsort(both[0], kind="stable")]
            self._met[key] = mine, others
        return self._met[key]

    def waited(self, rank: int, since: float, until: float) -> tuple[float, dict[int, float]]:
        """How long a rank was kept waiting between two moments, and the shares of those for whom
        it waited."""
        waits = [*_within(self.waits.get(rank, []), since, until)]
        if not waits or rank not in self.threads:
            return 0.0, {}
        whole = sum(wait.end - wait.start for wait in waits)
        shares: dict[int, float] = {}
        for wait in waits:
            for other, share in wait.shares.items():
                part = share * (wait.end - wait.start) / whole
                shares[other] = shares.get(other, 0.0) + part
        time = union([np.array([(wait.start, wait.end) for wait in waits])])
        return min(time, self.threads[rank].between(since, until)), shares

    def shares(self, late: int, other: int, requested: float, arrival: float) -> dict[int, float]:
        """For whom a rank waited in a collective to which `late` came last."""
        if late not in self.waits or late not in self.threads:
            return {late: 1.0}
        since, of_other = self.met(late, other, arrival)
        time, shares = self.waited(late, since, arrival)
        if time > 0:
            time -= self.waited(other, of_other, requested)[0]
        part = min(max(time / (arrival - requested), 0.0), 1.0)
        others = {
            rank: part * share
            for rank, share in shares.items()
            if part > 0 and rank not in (late, other)
        }
        return {**others, late: 1.0 - sum(others.values())}


def _within(waits: Sequence[_Wait], since: float, until: float) -> Iterator[_Wait]:
    """Those of the waits, which are ordered by their ends, that lie within these moments."""
    for wait in reversed(waits):
        if wait.end < since:
            return
        if wait.start >= since and wait.end <= until:
            yield wait


def follow(job: Ranks, threads: Mapping[int, InRoutines]) -> None:
    """Set `Matched.elsewhere` of all collectives.

    Args:
        threads: by rank; without a rank's, its own lateness cannot be told from others'.
    """
    chains = _Chains(job, threads)
    every = [(matched.arrival, matched.last, matched.waited) for matched in job.matched]
    order = sorted(
        (float(arrival[at]), place, int(at))
        for place, (arrival, _, waited) in enumerate(every)
        for at in np.flatnonzero(np.nansum(waited, axis=0) > 0)
    )
    for came, place, at in order:
        matched, (_, last, waited) = job.matched[place], every[place]
        late = matched.ranks[int(last[at])]
        moved: dict[int, float] = {}
        new = []
        for row in np.flatnonzero(waited[:, at] > 0):
            rank, time = matched.ranks[int(row)], float(waited[row, at])
            start = float(matched.requested[row, at])
            shares = chains.shares(late, rank, start, came)
            new.append((rank, _Wait(start, start + time, shares)))
            for other, share in shares.items():
                if other != late:
                    moved[other] = moved.get(other, 0.0) + share * time
        for rank, wait in new:
            chains.waits.setdefault(rank, []).append(wait)
        if moved:
            matched.elsewhere[at] = moved
