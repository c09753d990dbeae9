"""Calls beside a comparison's values: medians of repeated runs, worked out when looked at."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from taupy.analysis.compare import median
from taupy.profiledb import compare_query
from taupy.profiledb.database import ProfileDB
from taupy.report.sides import Side


class Medians(Mapping[Hashable, tuple[float | None, ...]]):
    """Each row's median on each side, worked out when asked for: few rows are looked at."""

    def __init__(self, sides: Sequence[Sequence[Mapping[Hashable, float]]]) -> None:
        self._sides = sides

    def __getitem__(self, key: Hashable) -> tuple[float | None, ...]:
        found = []
        for side in self._sides:
            values = [trial[key] for trial in side if key in trial]
            found.append(median(values) if values else None)
        return tuple(found)

    def __iter__(self) -> Iterator[Hashable]:
        return iter({key for side in self._sides for trial in side for key in trial})

    def __len__(self) -> int:
        return sum(1 for _ in self)


class CallsOfPaths(Medians):
    """The same of call paths, asked of the database when needed: first for the first rows."""

    def __init__(self, db: ProfileDB, sides: Sequence[Side], first: Sequence[int]) -> None:
        super().__init__(())
        self._db = db
        self._of = [[trial.id for trial in side.trials] for side in sides]
        self._first = first
        self._some: set[Hashable] = set()
        self._whole = False

    def __getitem__(self, key: Hashable) -> tuple[float | None, ...]:
        if not self._some:
            self._sides = [
                [
                    dict(compare_query.calls_of(self._db, trial, self._first).items())
                    for trial in side
                ]
                for side in self._of
            ]
            self._some = {*self._first}
        if key not in self._some:
            self._load()
        return super().__getitem__(key)

    def _load(self) -> None:
        if not self._whole:
            self._sides = [
                [
                    {
                        path: one[0]
                        for path, one in compare_query.callpath_calls(self._db, id).items()
                    }
                    for id in side
                ]
                for side in self._of
            ]
            self._whole = True

    def __iter__(self) -> Iterator[Hashable]:
        self._load()
        return super().__iter__()
