"""Common keys for call paths of different trials, with names built on demand."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from taupy.analysis.match import Key, Level, NameTable
from taupy.comparison.matching import matched
from taupy.comparison.sides import Side
from taupy.errors import DatabaseError
from taupy.model.forest import callers_first, places_of
from taupy.model.question import Question
from taupy.model.rows import TimerRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.files import DAMAGED
from taupy.profiledb.values import values


class Paths(Mapping[Hashable, Key]):
    """Keys of the sides' call paths: paths whose routines match step by step have the same one.

    The key of a call path is its id, unless a routine at or above it is called otherwise elsewhere.
    As a mapping it returns the name of a path, built on access, since few rows are shown.
    """

    def __init__(
        self, db: ProfileDB, sides: Sequence[Side], level: Level, table: NameTable | None
    ) -> None:
        trials = [[trial.id for trial in side.trials] for side in sides]
        by = ("callpath", "parent", "timer")
        self._tables = [
            values(db, Question(tuple(ids), (), by, values=("calls",))) for ids in trials
        ]
        timers = [{timer: timer for timer in side.labels["timer"]} for side in self._tables]
        self._path = db.path
        self._names = matched(db, trials, timers, level, table)
        self._steps: list[tuple[int | None, Key]] = []  # of keys that are no ids, from -1 down
        self._rows: list[dict[int, int]] = []
        self._renamed = self._keys_of_renamed(_renamed(self._names))

    def _keys_of_renamed(self, renamed: Collection[TimerRow]) -> list[dict[int | None, int]]:
        """Each side's call paths with one of these routines at or above them, and their keys."""
        number_of: dict[Hashable, int] = {}  # of a routine's identity
        key_of: dict[tuple[int | None, int], int] = {}
        of_sides: list[dict[int | None, int]] = []
        for side, names in zip(self._tables, self._names, strict=True):
            keys: dict[int | None, int] = {}
            of_sides.append(keys)
            is_renamed = [timer in renamed for timer in side.labels["timer"]]
            if not any(is_renamed):
                continue
            of_codes = [names[timer] for timer in side.labels["timer"]]
            numbers = [number_of.setdefault(key.identity, len(number_of)) for key in of_codes]
            paths, above = map(side.row_labels, ("callpath", "parent"))
            timers = side.codes["timer"]
            for row in callers_first(places_of(above, paths)):
                parent, timer = keys.get(above[row], above[row]), timers[row]
                if is_renamed[timer] or (parent is not None and parent < 0):
                    step = parent, numbers[timer]
                    if step not in key_of:
                        self._steps.append((parent, of_codes[timer]))
                        key_of[step] = -len(self._steps)
                    keys[paths[row]] = key_of[step]
        return of_sides

    def of_side(self, side: int, callpaths: Sequence[int]) -> Sequence[int]:
        """The keys of a side's call paths."""
        keys = self._renamed[side]
        return [keys.get(path, path) for path in callpaths] if keys else callpaths

    def is_root(self, key: Hashable, names: Collection[str]) -> bool:
        """Whether it is a root with one of these names."""
        parent, last = self._step(key)
        return parent is None and last.timer in names

    def _place(self, path: int) -> tuple[int, Mapping[int, int]]:
        """The first side with this call path, and the rows of that side's call paths."""
        for at, side in enumerate(self._tables):
            if at == len(self._rows):
                paths = side.row_labels("callpath")
                self._rows.append(dict(zip(paths, range(len(paths)), strict=True)))
            if path in self._rows[at]:
                return at, self._rows[at]
        raise KeyError(path)

    def _step(self, key: Hashable) -> tuple[int | None, Key]:
        """The key of a path's parent, None for a root, and its last routine."""
        assert isinstance(key, int)
        if key < 0:
            return self._steps[~key]
        at, rows = self._place(key)
        codes, labels = self._tables[at].codes, self._tables[at].labels
        row = rows[key]
        above = labels["parent"][codes["parent"][row]]
        name = self._names[at][labels["timer"][codes["timer"][row]]]
        return (above if above in rows else None), name

    def __getitem__(self, key: Hashable) -> Key:
        here, last = self._step(key)
        names, rule = [last.timer], last.rule
        most = sum(map(len, self._tables))
        while here is not None:
            if len(names) > most:
                raise DatabaseError(f"{self._path} {DAMAGED} (a call path is its own ancestor)")
            here, step = self._step(here)
            names.append(step.timer)
            rule = rule if step.rule == "same" else step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)

    def __iter__(self) -> Iterator[Hashable]:
        sides = (self.of_side(at, side.row_labels("callpath"))
                 for at, side in enumerate(self._tables))  # fmt: skip
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
