"""Common keys for call paths of different trials, with names built on demand."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from taupy.analysis.match import Key, Level, NameTable
from taupy.comparison.matching import matched
from taupy.comparison.sides import Side
from taupy.errors import DatabaseError
from taupy.model.forest import callers_first, places_of
from taupy.model.question import Question
from taupy.model.rows import TimerRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import ids_of, labels, steps_up
from taupy.profiledb.files import DAMAGED
from taupy.profiledb.identity import callpath_id
from taupy.profiledb.values import values

_NAMED_AT_ONCE = 1000
"""Rows whose names one statement reads at first; each further one reads twice as many."""


class Paths(Mapping[Hashable, Key]):
    """Keys of the sides' call paths: paths whose routines match step by step have the same one.

    The key of a call path is its id, unless a routine at or above it is called otherwise elsewhere.
    As a mapping it returns the name of a path, built on access, since few rows are shown. Only the
    call trees of sides with such a routine are read.
    """

    def __init__(
        self, db: ProfileDB, sides: Sequence[Side], level: Level, table: NameTable | None
    ) -> None:
        self._db = db
        self._trials = [tuple(trial.id for trial in side.trials) for side in sides]
        of_sides = [labels(db, "timer", ids_of(db, "timer", ids)) for ids in self._trials]
        timers = [{timer: timer for (timer,) in of_ids.values()} for of_ids in of_sides]
        self._names = matched(db, self._trials, timers, level, table)
        # Routines that are called alike everywhere have one name.
        self._name_of = {
            id: names[timer]
            for of_ids, names in zip(reversed(of_sides), reversed(self._names), strict=True)
            for id, (timer,) in of_ids.items()
        }
        # Of keys that are no ids, from -1 down: parent, routine, and the nearest path with an id.
        self._steps: list[tuple[int | None, Key, int | None]] = []
        self._above: dict[int, tuple[int | None, int]] = {}
        self._order: Iterator[int] = iter(())
        self._at_once = _NAMED_AT_ONCE
        self._renamed = self._keys_of_renamed(_renamed(self._names))

    def _keys_of_renamed(self, renamed: set[TimerRow]) -> list[dict[int | None, int]]:
        """Each side's call paths with one of these routines at or above them, and their keys."""
        number_of: dict[Hashable, int] = {}  # of a routine's identity
        key_of: dict[tuple[int | None, int], int] = {}
        of_sides: list[dict[int | None, int]] = []
        for trials, names in zip(self._trials, self._names, strict=True):
            keys: dict[int | None, int] = {}
            of_sides.append(keys)
            if renamed.isdisjoint(names):
                continue
            by = ("callpath", "parent", "timer")
            side = values(self._db, Question(trials, (), by, values=("calls",)))
            is_renamed = [timer in renamed for timer in side.labels["timer"]]
            of_codes = [names[timer] for timer in side.labels["timer"]]
            numbers = [number_of.setdefault(key.identity, len(number_of)) for key in of_codes]
            paths, above = map(side.row_labels, ("callpath", "parent"))
            timers = side.codes["timer"]
            for row in callers_first(places_of(above, paths)):
                parent, timer = keys.get(above[row], above[row]), timers[row]
                if is_renamed[timer] or (parent is not None and parent < 0):
                    step = parent, numbers[timer]
                    if step not in key_of:
                        self._steps.append((parent, of_codes[timer], self._nearest(parent)))
                        key_of[step] = -len(self._steps)
                    keys[paths[row]] = key_of[step]
        return of_sides

    def of_side(self, side: int, callpaths: Sequence[int]) -> Sequence[int]:
        """The keys of a side's call paths."""
        keys = self._renamed[side]
        return [keys.get(path, path) for path in callpaths] if keys else callpaths

    def read_in_order(self, keys: Iterable[int]) -> None:
        """Names will be asked for in this order, for the most part: many are read at once."""
        self._order = iter(keys)

    def roots(self, names: Collection[str]) -> set[int]:
        """The keys of roots with one of these names."""
        with_id = {callpath_id(0, id) for id, key in self._name_of.items() if key.timer in names}
        return with_id.union(
            ~at for at, (parent, last, _) in enumerate(self._steps)
            if parent is None and last.timer in names
        )  # fmt: skip

    def _nearest(self, key: int | None) -> int | None:
        """The nearest path with an id, at or above a path with this key."""
        return key if key is None or key >= 0 else self._steps[~key][2]

    def _step(self, key: int) -> tuple[int | None, Key]:
        """The key of a path's parent, None for a root, and its last routine."""
        if key < 0:
            return self._steps[~key][:2]
        if key not in self._above:
            paths = {key, *map(self._nearest, islice(self._order, self._at_once))}
            self._at_once *= 2
            self._above |= steps_up(self._db, paths.difference(self._above))
        parent, timer = self._above[key]
        return parent, self._name_of[timer]

    def __getitem__(self, key: Hashable) -> Key:
        assert isinstance(key, int)
        here, last = self._step(key)
        names, rule = [last.timer], last.rule
        while here is not None:
            if len(names) > len(self._above) + len(self._steps):
                raise DatabaseError(f"{self._db.path} {DAMAGED} (a call path is its own ancestor)")
            here, step = self._step(here)
            names.append(step.timer)
            rule = rule if step.rule == "same" else step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)

    def __iter__(self) -> Iterator[Hashable]:
        sides = (self.of_side(at, ids_of(self._db, "callpath", ids))
                 for at, ids in enumerate(self._trials))  # fmt: skip
        return iter(dict.fromkeys(key for side in sides for key in side))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _renamed(names_of: Sequence[Mapping[TimerRow, Key]]) -> set[TimerRow]:
    """The routines that share their identity with another, or have several: call paths of one id
    have the same routines, so those without such a one are alike on all sides."""
    pairs = {(timer, key.identity) for names in names_of for timer, key in names.items()}
    of_identity: dict[Hashable, list[TimerRow]] = {}
    of_timer: dict[TimerRow, int] = {}
    for timer, identity in pairs:
        of_identity.setdefault(identity, []).append(timer)
        of_timer[timer] = of_timer.get(timer, 0) + 1
    renamed = {timer for timer, number in of_timer.items() if number > 1}
    return renamed.union(*(alike for alike in of_identity.values() if len(alike) > 1))
