"""The ranks of a trial and their matched collectives; `matching.py` matches and adds up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taupy.model.collectives import Collectives
from taupy.model.profile import Steps
from taupy.ranks.clocks import Clock

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True)
class Rank:
    """A rank and its measurements.

    Attributes:
        steps: steps of its training, if any.
        memory_bytes: peak memory; None if unknown.
        node: node of its process; None if equal to `number`.
        host: name of its host; None if unknown.
    """

    number: int
    communicators: list[Collectives] = field(default_factory=list)
    steps: Steps | None = None
    memory_bytes: int | None = None
    node: int | None = None
    host: str | None = None

    @property
    def place(self) -> int:
        """Its node."""
        return self.number if self.node is None else self.node


@dataclass(slots=True)
class Matched:
    """The collectives of one communicator that several ranks recorded, or what one rank sent to
    another.

    Attributes:
        size: number of ranks that belong to it; 0 if unknown.
        ranks: the ranks present, one per row of `requested` and `ended`.
        number, operation, bytes: one per collective, that is, per column.
        requested, ended: ns after `Ranks.start_ns` by the first rank's clock; NaN if the rank did
            not arrive, or if the collective did not end.
        step: step of the training; 0 outside steps.
        not_waited_for: of sends and receives: where a rank did not wait for the end when it issued
            one, or its send ended first. What it waited later is unknown; `ended` is NaN.
        error_ns: waits up to this may be an error of the clocks: none.
        elsewhere: for a collective, the waiting for ranks that had kept the last one waiting
            elsewhere, by rank [ns]; see `chains.py`.
    """

    communicator: str
    size: int
    ranks: list[int]
    number: list[int]
    operation: list[str]
    bytes: list[int]
    requested: Array
    ended: Array
    step: np.ndarray[Any, np.dtype[np.int64]]
    not_waited_for: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    error_ns: float = 0.0
    elsewhere: dict[int, dict[int, float]] = field(default_factory=dict)

    @property
    def is_pair(self) -> bool:
        return self.not_waited_for is not None

    @property
    def last(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The row of the rank that arrived last, for each collective."""
        latest: np.ndarray[Any, np.dtype[np.int64]] = np.argmax(
            np.where(np.isnan(self.requested), -np.inf, self.requested), axis=0
        )
        return latest

    @property
    def arrival(self) -> Array:
        """When the last rank arrived."""
        latest: Array = np.nanmax(self.requested, axis=0)
        return latest

    @property
    def waited(self) -> Array:
        """How long each rank waited for the last one; 0 for the last one itself."""
        until = np.fmin(self.arrival, np.where(np.isnan(self.ended), np.inf, self.ended))
        waited: Array = np.maximum(until - self.requested, 0)
        if self.not_waited_for is not None:
            waited[self.not_waited_for | (waited <= self.error_ns)] = 0
        return waited

    @property
    def direct(self) -> Array:
        """How long all ranks waited in each collective for the last one itself."""
        direct: Array = np.nansum(self.waited, axis=0)
        for at, moved in self.elsewhere.items():
            direct[at] = max(0.0, direct[at] - sum(moved.values()))
        return direct

    @property
    def through(self) -> Array:
        """When each rank's transfer was complete: when the last rank left, or the rank itself if
        that was earlier, or if the last rank never left."""
        left = self.ended[self.last, np.arange(self.ended.shape[1])]
        through: Array = np.where(np.isnan(self.ended), np.nan, np.fmin(self.ended, left))
        return through

    @property
    def transfer(self) -> Array:
        """How long each rank was in the collective together with the last rank."""
        took: Array = np.maximum(self.through - np.fmax(self.arrival, self.requested), 0)
        return took

    @property
    def rest(self) -> Array:
        """How long each rank stayed in the collective after the last rank had left."""
        longer: Array = np.maximum(self.ended - np.fmax(self.through, self.requested), 0)
        return longer


@dataclass(slots=True)
class Ranks:
    """All ranks of a trial.

    Attributes:
        missing: ranks that belong to a communicator but left no data.
        apart: descriptions of collectives with different operations on different ranks; these and
            all later ones are not matched.
        clocks: the clocks that differ from the first rank's, by rank.
        never_ended: collectives that did not end on all ranks, with the ranks that had arrived and
            those that had not.
        behind: communicators in which some ranks began fewer collectives than others.
        failed: the ranks that were killed or ended with an error.
        received_ns: how long each rank was in receives that are matched, and waited for.
        unmatched: for each rank, its collectives of several ranks that no other rank here recorded:
            requested, ended, step, one row for each.
    """

    ranks: list[Rank]
    matched: list[Matched]
    start_ns: int = 0
    missing: list[int] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    clocks: dict[int, Clock] = field(default_factory=dict)
    never_ended: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    received_ns: dict[int, float] = field(default_factory=dict)
    unmatched: dict[int, Array] = field(default_factory=dict)
