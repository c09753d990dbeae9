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
        return PathsById(db)
    return PathsByName(db, sides, timers)


class PathsById(Mapping[Hashable, Key]):
    """Call paths whose routines all match by name: equal ids are equal paths.

    As a mapping it gives the names of a path, which are put together when asked for.
    """

    def __init__(self, db: ProfileDB, first: Sequence[int] = ()) -> None:
        """`first` are those whose names will be wanted: all are asked for at once."""
        self._db = db
        self._first = first
        self._named: dict[Hashable, Key] = {}

    def folded(self, side: int, sums: Mapping[int, Sums]) -> dict[Hashable, Sums]:
        """A trial's values by key, those of one key added up."""
        return dict(sums.items())

    def __getitem__(self, key: Hashable) -> Key:
        if key not in self._named:
            self._named[key] = self._name(key)
        return self._named[key]

    def _name(self, key: Any) -> Key:
        wanted, self._first = [*self._first, key], ()
        for path, (last, names) in compare_query.callpath_names(self._db, wanted).items():
            self._named[path] = Key(path, " => ".join(names), *last[1:], "same")
        return self._named[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


class PathsByName(PathsById):
    """Call paths in which a routine goes by another name: each step is its timer's key."""

    def __init__(
        self, db: ProfileDB, sides: Sequence[Side], timers: Sequence[Mapping[int, Key]]
    ) -> None:
        super().__init__(db)
        self._steps: dict[Any, tuple[Any, Key]] = {}  # a path's parent, its last timer
        number: dict[tuple[Any, Any], int] = {}
        self._number_of: list[dict[int, int]] = []
        for side, known in zip(sides, timers, strict=True):
            parents = compare_query.callpath_parents(db, [trial.id for trial in side.trials])
            numbers: dict[int, int] = {}
            for id in parents:
                waiting = [id]
                while waiting:
                    here = waiting[-1]
                    timer, above = parents[here]
                    if above is not None and above in parents and above not in numbers:
                        waiting.append(above)
                        continue
                    key, parent = known[timer], None if above is None else numbers.get(above)
                    numbers[here] = number.setdefault((key.identity, parent), len(number))
                    self._steps[numbers[here]] = (parent, key)
                    waiting.pop()
            self._number_of.append(numbers)

    def folded(self, side: int, sums: Mapping[int, Sums]) -> dict[Hashable, Sums]:
        numbers = self._number_of[side]
        found: dict[Hashable, Sums] = {}
        for id, one in sums.items():
            key = numbers[id]
            found[key] = added(found[key], one) if key in found else one
        return found

    def _name(self, key: Any) -> Key:
        here, last = self._steps[key]
        rule = last.rule
        names = [last.timer]
        while here is not None:
            here, step = self._steps[here]
            names.append(step.timer)
            if step.rule != "same":
                rule = step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)
