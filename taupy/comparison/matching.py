"""Match the timers of trials, and say where their names hardly match.

`analysis/match.py` has the rules. Files that have another name in another trial, which are the main
script and those that moved with it, are found here: the database knows where they were.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from taupy.analysis import kernel_order, match
from taupy.analysis.match import K, Key, Level, NameTable
from taupy.comparison.operators import operators_above
from taupy.model.answer import Answer
from taupy.model.kinds import Named
from taupy.model.names import CELL, is_library, one_name
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.profiledb import sources
from taupy.profiledb.activities import works
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels, steps_up
from taupy.profiledb.values import values


def matched(
    db: ProfileDB,
    trials: Sequence[Collection[int]],
    sides: Sequence[Mapping[K, Named]],
    level: Level = "auto",
    table: NameTable | None = None,
) -> list[dict[K, Key]]:
    """`match.matched` for timers of this database; `trials`: those of each side."""

    def places(files: Collection[str]) -> Sequence[Mapping[str, Sequence[Hashable]]]:
        return _places(db, trials, files)

    return match.matched(sides, level, table, places)


def matched_by_order(
    db: ProfileDB, trials: Sequence[int], keys: Sequence[Mapping[TimerRow, Key]]
) -> list[dict[TimerRow, Key]]:
    """The keys of two trials' kernels; those that only one of them has are matched by the order of
    their launches, if that is known and neither trial has operators, which say more."""
    identities = [{key.identity for key in side.values()} for side in keys]
    is_known = identities[0] - identities[1] and identities[1] - identities[0]
    orders = [_launched(db, trial) for trial in trials] if is_known else []
    if not all(orders):
        return [dict(side) for side in keys]
    joined = kernel_order.matched_by_order(orders, keys) if orders else {}
    return [{timer: joined.get(key.identity, key) for timer, key in side.items()} for side in keys]


def _launched(db: ProfileDB, trial: int) -> list[list[TimerRow]]:
    """The kernels and copies of each process in the order of their launches; nothing if the trial
    has operators, or no single launches."""
    of_nodes = works(db, trial)
    paths = {work.callpath for mine in of_nodes.values() for work in mine}
    if any(operators_above(db, paths).values()):
        return []
    steps = steps_up(db, paths)
    timers = labels(db, "timer", list({steps[path][1] for path in paths}))
    return [[timers[steps[work.callpath][1]][0] for work in mine] for mine in of_nodes.values()]


def timers_of_sides(
    answers: Iterable[Answer], sides: Sequence[Collection[int]]
) -> list[dict[TimerRow, TimerRow]]:
    """The timers of each side's trials, for `matched`.

    Args:
        answers: by trial and timer.
    """
    of_trials: dict[int, list[TimerRow]] = {}
    for answer in answers:
        table = answer.table
        pairs = dict.fromkeys(zip(table.codes["trial"], table.codes["timer"], strict=True))
        for trial, timer in pairs:
            of_trials.setdefault(table.labels["trial"][trial], []).append(
                table.labels["timer"][timer]
            )
    return [
        {timer: timer for trial in side for timer in of_trials.get(trial, ())} for side in sides
    ]


def names_apart(sides: Mapping[str, Mapping[Hashable, float]], metric: str) -> list[str]:
    """Warnings of sides whose names hardly match those of the first, if there are any.

    Args:
        sides: name -> values by key, those of the whole program left out.
    """
    first, *others = sides or ("",)
    texts = [_hardly_matching(sides[first], sides[name], (first, name), metric) for name in others]
    return list(dict.fromkeys(filter(None, texts)))


def _hardly_matching(
    first: Mapping[Hashable, float], other: Mapping[Hashable, float], names: Sequence[str], of: str
) -> str | None:
    """A warning if the names match in less than half of both sides' values; None if not."""
    shares = []
    for side in (first, other):
        whole = sum(side.values())
        both = sum(value for key, value in side.items() if key in first and key in other)
        if whole <= 0 or 2 * both >= whole:
            return None
        shares.append(f"{100 * both / whole:.0f} %")
    return (
        f"the names match in {shares[0]} of the {of} of {names[0]} and {shares[1]} of that of "
        f"{names[1]}: what ran on one side only may be the other's under another name "
        "(--match-table gives both one name)"
    )


class _File(NamedTuple):
    """A source file of a trial: as displayed, and where it was."""

    name: str
    path: str


def _places(
    db: ProfileDB, sides: Sequence[Collection[int]], wanted: Collection[str]
) -> list[dict[str, tuple[Hashable, ...]]]:
    """Each side's files -> (path, place relative to the main script).

    Files that are at different places in the trials of one side have no place.
    """
    trials = sorted({trial for side in sides for trial in side})
    path_of: dict[int, dict[str, str]] = {trial: {} for trial in trials}
    for trial, name, path in sources.files(db, trials):
        path_of[trial][one_name(name)] = one_name(path or name)
    main_of = _main_files(db, path_of)
    of_sides = []
    for side in sides:
        places_of: dict[str, set[tuple[Hashable, ...]]] = {}
        for trial in side:
            for name in path_of[trial].keys() & wanted:
                file, main = _File(name, path_of[trial][name]), main_of.get(trial)
                places_of.setdefault(name, set()).add((file.path, _relative(file, main)))
        of_sides.append(
            {name: places.pop() for name, places in places_of.items() if len(places) == 1}
        )
    return of_sides


def _relative(file: _File, main: _File | None) -> Hashable:
    """Where a file is relative to the main script: (), for the script itself."""
    if file.name.startswith(CELL) or file == main:
        return ()  # the cells of a notebook are one script
    if main is None or is_library(file.path) or file.path.startswith("<"):
        return file
    folder = posixpath.dirname(main.path)
    if posixpath.isabs(folder) is not posixpath.isabs(file.path):
        return file
    return posixpath.relpath(file.path, folder or ".")


def _main_files(db: ProfileDB, path_of: Mapping[int, Mapping[str, str]]) -> dict[int, _File]:
    """Trial -> its script: the program's module that took longest, since it imports the others; in
    the first process that has any, since a launcher may have none."""
    where = (Condition("timer", tuple(sources.modules(db))),)
    by = ("trial", "thread", "timer")
    table = values(db, Question((*path_of,), ("time",), by, where, values=("inclusive",)))
    longest: dict[int, tuple[int, float, _File]] = {}
    for trial, thread, timer, spent in zip(
        *map(table.row_labels, by),
        table.column("inclusive", "time"),
        strict=True,
    ):
        name = one_name(timer.file or "")
        file = _File(name, path_of[trial].get(name, name))
        is_main = (thread.context, thread.thread) == (0, 0)
        if is_main and name and not is_library(file.path) and spent is not None:
            here = (-thread.node, spent, file)
            longest[trial] = max(longest.get(trial, here), here)
    return {trial: file for trial, (_, _, file) in longest.items()}
