"""Common keys for call paths of different trials, with names built on demand."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from taupy.analysis.match import Key, Level, NameTable
from taupy.comparison.matching import matched
from taupy.comparison.sides import Side
from taupy.model.forest import callers_first, places_of
from taupy.model.question import Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values


class Paths(Mapping[Hashable, Key]):
    """Keys of the sides' call paths: paths whose routines match step by step have the same one.

    As a mapping it returns the name of a path, built on access, since few rows are shown.
    """

    def __init__(
        self, db: ProfileDB, sides: Sequence[Side], level: Level, table: NameTable | None
    ) -> None:
        trials = [[trial.id for trial in side.trials] for side in sides]
        by = ("callpath", "parent", "timer")
        tables = [values(db, Question(tuple(ids), (), by, values=("calls",))) for ids in trials]
        timers = [{timer: timer for timer in side.labels["timer"]} for side in tables]
        self._steps: list[tuple[int, Key]] = []  # a path's parent, -1 for none, and last timer
        self._sides: list[tuple[Sequence[int], Sequence[int]]] = []  # call paths, and their keys
        key_of: dict[int, int] = {}
        number_of: dict[Hashable, int] = {}  # of a routine's identity
        names_of = matched(db, trials, timers, level, table)
        # Call paths of one id have the same timers: where these mean the same on all sides, so do
        # the call paths that were seen before.
        identities = {(timer, key.identity) for names in names_of for timer, key in names.items()}
        is_alike = len(identities) == len({timer for timer, _ in identities})
        seen, keys_of_seen = list[int](), list[int]()
        for side, names in zip(tables, names_of, strict=True):
            paths, above = map(side.row_labels, ("callpath", "parent"))
            keys = [names[timer] for timer in side.labels["timer"]]
            numbers = [number_of.setdefault(key.identity, len(number_of)) for key in keys]
            timers_of_rows = side.codes["timer"]
            places = places_of(paths, seen) if is_alike else [-1] * len(paths)
            own: list[Any] = list(map([*keys_of_seen, None].__getitem__, places))
            own.append(-1)  # what is above a root
            parents = places_of(above, paths) if None in own else []
            for row in callers_first(parents):
                if own[row] is not None:
                    continue
                parent, timer = own[parents[row]], timers_of_rows[row]
                step = (parent + 1) << 32 | numbers[timer]
                if step not in key_of:
                    key_of[step] = len(key_of)
                    self._steps.append((parent, keys[timer]))
                own[row] = key_of[step]
            self._sides.append((paths, own[:-1]))
            new = [row for row, place in enumerate(places) if place < 0]
            seen += map(paths.__getitem__, new)
            keys_of_seen += map(own.__getitem__, new)

    def of_side(self, side: int, callpaths: Sequence[int]) -> list[int | None]:
        """The keys of a side's call paths; None of others."""
        paths, keys = self._sides[side]
        with_none = [*keys, None]
        return list(map(with_none.__getitem__, places_of(callpaths, paths)))

    def is_root(self, key: Hashable, names: Collection[str]) -> bool:
        """Whether it is a root with one of these names."""
        parent, last = self._steps[key]  # type: ignore[call-overload]
        return parent < 0 and last.timer in names

    def __getitem__(self, key: Hashable) -> Key:
        here: int
        last: Key
        here, last = self._steps[key]  # type: ignore[call-overload]
        names, rule = [last.timer], last.rule
        while here >= 0:
            here, step = self._steps[here]
            names.append(step.timer)
            rule = rule if step.rule == "same" else step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(range(len(self._steps)))

    def __len__(self) -> int:
        return len(self._steps)
