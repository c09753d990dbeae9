"""Call paths of different trials under common keys, and their names when asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from taupy.analysis.match import Key
from taupy.profiledb import compare_query
from taupy.profiledb.compare_query import Sums
from taupy.profiledb.database import ProfileDB
from taupy.report.sides import Side
from taupy.report.trial_values import added


def path_keys(
    db: ProfileDB, sides: Sequence[Side], timers: Sequence[Mapping[int, Key]]
) -> PathsById:
    """Keys for the call paths of each side, whose timers have these keys."""
    if all(key.rule == "same" for side in timers for key in side.values()):
        return PathsById(db, timers)
    return PathsByName(db, sides, timers)


class PathsById(Mapping[Hashable, Key]):
    """Call paths whose routines all match by name: equal ids are equal paths.

    As a mapping it gives the names of a path, which are put together when asked for.
    """

    def __init__(self, db: ProfileDB, timers: Sequence[Mapping[int, Key]]) -> None:
        self._db = db
        self._steps: dict[Any, tuple[Any, Any]] = {}
        self._timers: dict[Any, Key] = {}
        for known in timers:
            self._timers.update(known)

    def folded(self, side: int, sums: Mapping[int, Sums]) -> dict[Hashable, Sums]:
        """A trial's values by key, those of one key added up."""
        return {id: one for id, one in sums.items()}  # noqa: C416 - of another type

    def timer(self, side: int, id: int) -> int:
        """The timer of a call path, by its id."""
        timer: int = self._step(id)[0]
        return timer

    def _step(self, id: Any) -> tuple[Any, Any]:
        if id not in self._steps:
            self._steps[id] = compare_query.callpath_step(self._db, id)
        return self._steps[id]

    def __getitem__(self, key: Hashable) -> Key:
        names: list[str] = []
        timer, here = self._step(key)
        last = self._timers[timer]
        rule = last.rule
        names.append(last.timer)
        while here is not None:
            timer, here = self._step(here)
            step = self._timers[timer]
            names.append(step.timer)
            if step.rule != "same":
                rule = step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class PathsByName(PathsById):
    """Call paths in which a routine goes by another name: each step is its timer's key."""

    def __init__(
        self, db: ProfileDB, sides: Sequence[Side], timers: Sequence[Mapping[int, Key]]
    ) -> None:
        super().__init__(db, ())
        self._timers = {key.identity: key for side in timers for key in side.values()}
        self._parents = [
            compare_query.callpath_parents(db, [trial.id for trial in side.trials])
            for side in sides
        ]
        number: dict[tuple[Any, Any], int] = {}
        self._number_of: list[dict[int, int]] = []
        for parents, known in zip(self._parents, timers, strict=True):
            numbers: dict[int, int] = {}
            for id in parents:
                waiting = [id]
                while waiting:
                    here = waiting[-1]
                    timer, above = parents[here]
                    if above is not None and above in parents and above not in numbers:
                        waiting.append(above)
                        continue
                    step = (known[timer].identity, None if above is None else numbers.get(above))
                    numbers[here] = number.setdefault(step, len(number))
                    self._steps[numbers[here]] = step
                    waiting.pop()
            self._number_of.append(numbers)

    def folded(self, side: int, sums: Mapping[int, Sums]) -> dict[Hashable, Sums]:
        numbers = self._number_of[side]
        found: dict[Hashable, Sums] = {}
        for id, one in sums.items():
            key = numbers[id]
            found[key] = added(found[key], one) if key in found else one
        return found

    def timer(self, side: int, id: int) -> int:
        return self._parents[side][id][0]
