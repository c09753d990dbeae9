"""Numbers of calls in a comparison: medians over repeated runs, computed lazily."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from taupy.analysis.compare import median
from taupy.comparison.sides import Side
from taupy.model.question import Condition, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values


class Medians(Mapping[Hashable, tuple[float | None, ...]]):
    """Each row's median on each side, computed on access, since few rows are shown."""

    def __init__(self, sides: Sequence[Sequence[Mapping[Hashable, float]]]) -> None:
        self._sides = sides

    def __getitem__(self, key: Hashable) -> tuple[float | None, ...]:
        medians = []
        for side in self._sides:
            values = [trial[key] for trial in side if key in trial]
            medians.append(median(values) if values else None)
        return tuple(medians)

    def __iter__(self) -> Iterator[Hashable]:
        return iter({key for side in self._sides for trial in side for key in trial})

    def __len__(self) -> int:
        return sum(1 for _ in self)


class CallsOfPaths(Medians):
    """The same for call paths, queried on demand, starting with the first rows."""

    def __init__(self, db: ProfileDB, sides: Sequence[Side], first: Sequence[int]) -> None:
        super().__init__(())
        self._db = db
        self._of = [[trial.id for trial in side.trials] for side in sides]
        self._first = first
        self._some: set[Hashable] = set()
        self._whole = False

    def __getitem__(self, key: Hashable) -> tuple[float | None, ...]:
        if not self._some:
            self._sides = self._calls((Condition("callpath", tuple(self._first)),))
            self._some = {*self._first}
        if key not in self._some:
            self._load()
        return super().__getitem__(key)

    def _load(self) -> None:
        if not self._whole:
            self._sides = self._calls(())
            self._whole = True

    def _calls(self, where: tuple[Condition, ...]) -> list[list[dict[Hashable, float]]]:
        ids = tuple(trial for side in self._of for trial in side)
        of_calls = Question(ids, (), ("trial", "callpath"), where, values=("calls",))
        table = values(self._db, of_calls)
        of_trial: dict[int, dict[Hashable, float]] = {trial: {} for trial in ids}
        for trial, path, calls in zip(
            table.row_labels("trial"),
            table.row_labels("callpath"),
            table.column("calls"),
            strict=True,
        ):
            of_trial[trial][path] = calls or 0
        return [[of_trial[trial] for trial in side] for side in self._of]

    def __iter__(self) -> Iterator[Hashable]:
        self._load()
        return super().__iter__()
