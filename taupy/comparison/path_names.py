"""Common keys for call paths of different trials, with names built on demand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from taupy.analysis.match import Key, Level, NameTable
from taupy.comparison.matching import matched
from taupy.comparison.sides import Side
from taupy.model import table as tables
from taupy.model.question import Question
from taupy.profiledb import trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values


def path_keys(
    db: ProfileDB, sides: Sequence[Side], level: Level, table: NameTable | None
) -> PathsById:
    """Keys for the call paths of each side."""
    of_sides = [_call_paths(db, side) for side in sides]
    timers = [{timer: timer for timer in side.labels["timer"]} for side in of_sides]
    trials = [{trial.id for trial in side.trials} for side in sides]
    keys = matched(db, trials, timers, level, table)
    if all(
        key.rule == "same" and key.identity == timer for side in keys for timer, key in side.items()
    ):
        return PathsById(db)
    return PathsByName(db, of_sides, keys)


def _call_paths(db: ProfileDB, side: Side) -> tables.Table:
    """All call paths of the side's trials."""
    ids = tuple(trial.id for trial in side.trials)
    return values(db, Question(ids, (), ("callpath", "parent", "timer"), values=("calls",)))


class PathsById(Mapping[Hashable, Key]):
    """Keys of call paths whose routines all match by name: equal ids mean equal paths.

    As a mapping it returns the name of a path, built on access.
    """

    def __init__(self, db: ProfileDB, first: Sequence[int] = ()) -> None:
        """`first`: paths whose names will be needed; they are queried at once."""
        self._db = db
        self._first = first
        self._named: dict[Hashable, Key] = {}

    def keyed(self, side: int, paths: Sequence[int]) -> Sequence[Hashable]:
        """The keys of a side's call paths."""
        return paths

    def __getitem__(self, key: Hashable) -> Key:
        if key not in self._named:
            self._named[key] = self._name(key)
        return self._named[key]

    def _name(self, key: Any) -> Key:
        wanted, self._first = [*self._first, key], ()
        for path, (last, names) in trial_facts.callpath_names(self._db, wanted).items():
            self._named[path] = Key(path, " => ".join(names), *last[1:], "same")
        return self._named[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


class PathsByName(PathsById):
    """Keys of call paths in which a routine has different names: each step is a timer's key."""

    def __init__(
        self,
        db: ProfileDB,
        sides: Sequence[tables.Table],
        timers: Sequence[Mapping[Hashable, Key]],
    ) -> None:
        super().__init__(db)
        self._steps: dict[Any, tuple[Any, Key]] = {}  # a path's parent and last timer
        number: dict[tuple[Any, Any], int] = {}
        self._number_of: list[dict[int, int]] = []
        for side, keys in zip(sides, timers, strict=True):
            paths, parents = side.row_labels("callpath"), side.row_labels("parent")
            step_of = dict(
                zip(paths, zip(parents, side.row_labels("timer"), strict=True), strict=True)
            )
            numbers: dict[int, int] = {}
            for id in step_of:
                waiting = [id]
                while waiting:
                    here = waiting[-1]
                    above, timer = step_of[here]
                    if above is not None and above in step_of and above not in numbers:
                        waiting.append(above)
                        continue
                    key, parent = keys[timer], None if above is None else numbers.get(above)
                    numbers[here] = number.setdefault((key.identity, parent), len(number))
                    self._steps[numbers[here]] = (parent, key)
                    waiting.pop()
            self._number_of.append(numbers)

    def keyed(self, side: int, paths: Sequence[int]) -> Sequence[Hashable]:
        return list(map(self._number_of[side].__getitem__, paths))

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
