"""Collectives summed by the layer or phase that asked for them: `taupy ranks --by layer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taupy.answers.answer import column_of
from taupy.model.collectives import GROUP
from taupy.network.phases import kind_of
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.collectives import read_collectives
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels, written
from taupy.ranks.data import Matched, Ranks

PLACES = ("layer", "layer_type", "phase")
"""The dimensions of call paths by which collectives are summed."""

_COLUMNS = (
    Column("collectives", "int", "Collectives"),
    Column("bytes", "bytes", "Bytes"),
    Column("waited_ns", "time_ns", "Waited", width=9),
    Column("transfer_ns", "time_ns", "Transfer", width=9),
    Column("rest_ns", "time_ns", "Rest", width=9),
    Column("rank", "int", "For rank"),
    Column("caused_ns", "time_ns", "Caused", width=9),
)


_Times = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True)
class _Sums:
    """Of one layer or phase: `times` are waiting, transfer and rest, `caused` is the waiting for
    each rank."""

    number: int = 0
    bytes: int = 0
    times: _Times = field(default_factory=lambda: np.zeros(3))
    caused: dict[int, float] = field(default_factory=dict)

    def cells(self) -> tuple[Cell, ...]:
        rank = max(self.caused, key=self.caused.__getitem__)
        who: tuple[Cell, Cell] = rank, self.caused[rank]
        return self.number, self.bytes, *self.times.tolist(), *(who if who[1] else (None, None))


def of_places(db: ProfileDB, trial: int, job: Ranks, by: str, step: int | None = None) -> View:
    """One row for each layer or phase, the longest waiting first.

    Args:
        by: one of `PLACES`.
        step: only this step.
    """
    place_of = _places(db, trial, by)
    sums: dict[str, _Sums] = {}
    for matched in job.matched:
        if matched.is_pair:
            continue
        (waited, transfer, rest), direct = _times(matched), matched.direct
        for at, last in enumerate(matched.last.tolist()):
            if step is None or matched.step[at] == step:
                place = place_of[matched.communicator, matched.number[at]]
                mine = sums.setdefault(place, _Sums())
                mine.number += 1
                mine.bytes += max(matched.bytes[at], 0)
                mine.times += (waited[at], transfer[at], rest[at])
                caused = {**matched.elsewhere.get(at, {}), matched.ranks[last]: float(direct[at])}
                for rank, time in caused.items():
                    mine.caused[rank] = mine.caused.get(rank, 0.0) + time
    ordered = sorted(sums.items(), key=lambda pair: -pair[1].times[0])
    rows = [(*mine.cells(), place) for place, mine in ordered]
    named = column_of(by)
    return View(f"COLLECTIVES BY {named.heading.upper()}", (*_COLUMNS, named), rows)


def _places(db: ProfileDB, trial: int, by: str) -> Mapping[tuple[str, int], str]:
    """For each communicator and number, the label of what asked for it, on the first rank that did:
    the call path without the routines that communicate."""
    callpath: dict[tuple[str, int], int] = {}
    for _, kept, ids in read_collectives(db, trial):
        for number, id in zip(kept.number, ids, strict=True):
            callpath.setdefault((kept.communicator, number), id)
    above = Ancestry.of(db, callpath.values())
    caller_of = {id: _caller(above, id) for id in dict.fromkeys(callpath.values())}
    label_of = labels(db, by, [*dict.fromkeys(caller_of.values())])
    return {key: written(by, label_of[caller_of[id]][0]) for key, id in callpath.items()}


def _caller(above: Ancestry, callpath: int) -> int:
    """The nearest call path that is not a routine for communication."""
    ids = [*above.ids(callpath)]
    timers = (above.timers[above.steps[id][1]] for id in ids)
    others = (id for id, timer in zip(ids, timers, strict=True) if not _communicates(timer.groups))
    return next(others, callpath)


def _communicates(groups: str) -> bool:
    return kind_of(groups) == "communication" or GROUP in groups.split("|")


def _times(matched: Matched) -> tuple[_Times, _Times, _Times]:
    """Of each collective, the waiting of all ranks, the longest transfer, and the longest rest."""
    return (
        np.nansum(matched.waited, axis=0),
        np.nan_to_num(matched.transfer).max(axis=0),
        np.nan_to_num(matched.rest).max(axis=0),
    )
