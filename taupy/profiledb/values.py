"""Answers to questions about values: `values(db, question)` returns a `Table` of sums.

    Question((7,), by=("thread", "timer"))                           a flat profile
    Question((7,), by=("thread", "callpath", "parent", "timer"))     a call tree
    Question(ids, by=("application", "gpu"))                         a fleet of trials

SQL filters and sums by id; the sums get the labels of their dimensions afterwards. Many
trials take one statement. Three things need whole call trees: inclusive values of groups of
timers, whose routines call each other (each moment counts once), and, in `coverage.py`, sums over
processes that were forked and sums of metrics that were measured on different call paths. Steps
are not call paths and have a table of their own (`step_values.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, product
from typing import Any

from taupy.dataclass import replace
from taupy.model import callpaths
from taupy.model.question import Question
from taupy.model.table import Column, Table, combine, merged
from taupy.model.timer_columns import TimerColumns
from taupy.profiledb import coverage
from taupy.profiledb.database import ProfileDB, of_a_sound_file, refuse_infinite
from taupy.profiledb.dimensions import dimension, labels, timers
from taupy.profiledb.statements import Statement
from taupy.profiledb.translation import OF_PATH, Translation

Choices = list[tuple[int, ...]]
"""For each id, the codes of its labels."""

_NUMBERS = {int, float, type(None)}


@of_a_sound_file
def values(db: ProfileDB, question: Question) -> Table:
    """The sums that answer a question.

    Dimensions are in the order of `question.by`; columns are counts, then the values of each
    metric. What a trial did not measure has no rows, or None if other metrics have values.

    Raises:
        UsageError: there is no such dimension, or a metric has different units in the trials.
    """
    if question.largest is not None:
        return _most(_all_of(db, question), question)
    return _all_of(db, question)


def _all_of(db: ProfileDB, question: Question) -> Table:
    """The rows of the answer, at least the largest ones that the question asks for."""
    if question.over == "max":
        apart = dict.fromkeys((*question.by, "trial", "thread"))
        of_threads = replace(question, by=tuple(apart), over="sum", largest=None)
        return _largest(_all_of(db, of_threads), question.by)
    if "step" in question.dimensions:
        from taupy.profiledb.step_values import step_values

        return step_values(db, question)
    if "line" in question.dimensions:
        from taupy.profiledb.line_values import line_values

        return line_values(db, question)
    translation = Translation.of(db, question)
    nested = "timer" not in question.by and not translation.by_path
    if nested and "inclusive" in question.values:
        return _of_trees(db, translation)
    alone: set[int] = set()
    if question.together:
        alone = coverage.uneven_threads(db, translation.trials, translation.metric_ids)
    if _over_threads(translation):
        alone |= coverage.forked_threads(db, translation.trials)
    parts = translation.divided(db, alone) if alone else (translation, None)
    tables = [_labelled(db, _summed(db, parts[0], parts[0].statement()), question)]
    if parts[1] is not None:
        tables.append(_of_trees(db, parts[1]))
    return combine(tables) if len(tables) > 1 else tables[0]


def _over_threads(translation: Translation) -> bool:
    """Whether inclusive values of threads are added, so that no moment may be in two of them."""
    question = translation.question
    return (
        "inclusive" in question.values
        and translation.source == "call"
        and not translation.by_path
        and "thread" not in question.by
    )


def _summed(db: ProfileDB, translation: Translation, statement: Statement) -> Table:
    """The statement's answer, with ids as labels."""
    names = [*statement.keys, *statement.attributes]
    columns = translation.columns(statement.values)
    cells: Sequence[Sequence[Any]] = (
        db.columns(statement.reading()) if translation.leaves_any else []
    )
    cells = cells or [()] * (len(names) + len(columns))
    size = len(cells[0])
    for numbers in cells[len(names) :]:
        if isinstance(numbers, array):  # of integers
            continue
        if not {*map(type, numbers)} <= _NUMBERS:
            raise TypeError("a value is not numeric")
        if translation.source != "event":  # whose numbers may add up to infinity
            refuse_infinite(numbers)
    codes: dict[str, Sequence[int]] = {}
    ids: dict[str, Sequence[Any]] = {}
    # Of one thread, each row is a call path of its own; equal parents need no number to be found.
    single: set[str] = {*statement.keys} if len(statement.keys) == 1 else set()
    if single == {"callpath"}:
        single.add("parent")
    for name, column in zip(names, cells, strict=False):
        codes[name], ids[name] = _coded(column, unique=name in single)
    for name, only in (("trial", translation.trials), ("thread", (translation.lone,))):
        if name not in codes:
            codes[name], ids[name] = [0] * size, only[:1]
    return Table(codes, ids, dict(zip(columns, cells[len(names) :], strict=True)), size)


def _coded(column: Sequence[Any], unique: bool) -> tuple[Sequence[int], Sequence[Any]]:
    """Positions among the distinct ids, and these ids; of a single row each, those of the rows."""
    if unique:
        return range(len(column)), column
    distinct = list(dict.fromkeys(column))
    numbers = {id: number for number, id in enumerate(distinct)}
    return array("q", map(numbers.__getitem__, column)), distinct


def _labelled(db: ProfileDB, summed: Table, question: Question) -> Table:
    """The table by the requested dimensions; rows with equal labels are merged."""
    names, choices = _choices(db, summed, question)
    if all({*map(len, choice or ())} <= {1} for choice in choices.values()):
        table = Table(
            {
                name: _codes(summed.codes[_source(summed, name)], choice)
                for name, choice in choices.items()
            },
            names,
            summed.columns,
            summed.size,
        )
        return table if _stays_apart(summed, names) else merged(table)
    rows, codes = [], []
    for row, mine in enumerate(_groups(summed, choices)):
        rows += [row] * len(mine)
        codes += mine
    by = question.by
    columns = zip(*codes, strict=True) if codes else [()] * len(by)
    expanded = summed.taken(rows)
    return merged(replace(expanded, codes=dict(zip(by, columns, strict=True)), labels=names))


def _choices(
    db: ProfileDB, summed: Table, question: Question
) -> tuple[dict[str, Sequence[Any]], dict[str, Choices | None]]:
    """The labels of each dimension; and, for each id that it depends on, their codes.

    The codes are None if the ids themselves are the labels, or each has one of its own.
    """
    names: dict[str, Sequence[Any]] = {}
    choices: dict[str, Choices | None] = {}
    for name in question.by:
        ids = summed.labels[_source(summed, name)]
        if dimension(name).is_id or name in question.ids:  # there may be a million
            names[name], choices[name] = ids, None
            continue
        if name == "timer":
            rows = timers(db, ids, question.trials)
            if isinstance(rows, TimerColumns) and len({*rows.names}) == len(ids):
                names[name], choices[name] = rows, None
                continue
            of_ids = [(timer,) for timer in rows]
        else:
            of_id = labels(db, name, ids, question.trials)
            of_ids = list(map(of_id.__getitem__, ids))
        numbers: dict[Any, int] = dict.fromkeys(chain.from_iterable(of_ids), 0)
        names[name], choices[name] = list(numbers), None
        if len(numbers) < len(ids) or not {*map(len, of_ids)} <= {1}:
            numbers = {label: number for number, label in enumerate(numbers)}
            choices[name] = [tuple(map(numbers.__getitem__, mine)) for mine in of_ids]
    return names, choices


def _codes(codes: Sequence[int], choices: Choices | None) -> Sequence[int]:
    if choices is None:
        return codes
    only = [code for (code,) in choices]
    return list(map(only.__getitem__, codes))


def _source(summed: Table, name: str) -> str:
    """The ids that a dimension depends on."""
    return name if name in summed.codes else dimension(name).of


def _groups(summed: Table, choices: dict[str, Choices | None]) -> list[list[tuple[int, ...]]]:
    """For each row, the codes it counts under: several if an id has several labels."""
    of_row = [
        [
            (code,) if choice is None else choice[code]
            for code in summed.codes[_source(summed, name)]
        ]
        for name, choice in choices.items()
    ]
    return [list(product(*row)) for row in zip(*of_row, strict=True)] or [[()]] * summed.size


def _stays_apart(summed: Table, names: dict[str, Sequence[Any]]) -> bool:
    """Whether different ids have different labels, so that no rows need merging."""
    kept = {
        _source(summed, name)
        for name, choice in names.items()
        if len(choice) == len(summed.labels[_source(summed, name)])
    }
    follows = {"thread": ("trial",), "callpath": OF_PATH, "launch": ("trial", "thread", "callpath")}
    for id in ("launch", "thread", "callpath"):
        kept |= {*follows[id]} if id in kept else set()
    return all(name in kept for name, ids in summed.labels.items() if len(ids) > 1)


# --- questions that need whole call trees ----------------------------------------


def _of_trees(db: ProfileDB, translation: Translation) -> Table:
    whole = _summed(db, translation, translation.trees())
    parent: Sequence[int] = callpaths.parents(whole)
    of_thread = labels(db, "kind", whole.labels["thread"])
    kinds = [of_thread[id][0] for id in whole.labels["thread"]]
    streams = [kinds[code] == "gpu" for code in whole.codes["thread"]]
    if translation.question.together:
        whole = replace(whole, columns=coverage.together(whole, parent, streams))
    if _over_threads(translation):
        whole, parent = coverage.called(whole, parent, streams)
    meeting = _meeting(translation, whole, streams)
    names, choices = _choices(db, whole, translation.question)
    wanted = translation.columns(translation.question.values)
    if translation.by_path:
        taken = whole.taken([row for row, is_met in enumerate(meeting) if is_met])
        own: dict[Column, Sequence[Any]] = {name: taken.columns[name] for name in wanted}
        return _labelled(db, replace(taken, columns=own), translation.question)
    numbers: dict[tuple[int, ...], int] = {}
    groups = [
        [numbers.setdefault(codes, len(numbers)) for codes in of_row] if is_met else []
        for is_met, of_row in zip(meeting, _groups(whole, choices), strict=True)
    ]
    columns = callpaths.grouped(whole, parent, groups, len(numbers))
    codes = list(zip(*numbers, strict=True)) or [()] * len(names)
    return Table(
        dict(zip(names, codes, strict=True)),
        names,
        {name: columns[name] for name in wanted},
        len(numbers),
    )


def _meeting(translation: Translation, whole: Table, streams: Sequence[bool]) -> list[bool]:
    """Which rows meet the question's conditions; the others are only their ancestors."""
    kept = [True] * whole.size
    if translation.timers is not None:
        timers = set(translation.timers)
        allowed = [id in timers for id in whole.labels["timer"]]
        kept = [allowed[code] for code in whole.codes["timer"]]
    if translation.callpaths is not None:
        chosen = set(translation.callpaths)
        kept = [
            is_kept and id in chosen
            for is_kept, id in zip(kept, whole.row_labels("callpath"), strict=True)
        ]
    if (depth := translation.between("depth")) is not None:
        levels = whole.row_labels("depth")
        kept = [
            is_kept and depth[0] <= level <= depth[1]
            for is_kept, level in zip(kept, levels, strict=True)
        ]
    if translation.by_path:
        return kept
    measured = coverage.measured(whole)
    kept = [is_kept and is_measured for is_kept, is_measured in zip(kept, measured, strict=True)]
    if "timer" in translation.question.by:
        # On a stream, host routines are only the launch sites of kernels.
        calls = whole.column("calls")
        kept = [
            is_kept and not (stream and not count)
            for is_kept, stream, count in zip(kept, streams, calls, strict=True)
        ]
    return kept


def _most(table: Table, question: Question) -> Table:
    """The rows with the largest values; among equal ones, the first."""
    values = table.column("exclusive", question.metrics[0])
    rows = sorted(range(table.size), key=lambda row: -(values[row] or 0))
    return table.taken(rows[: question.largest])


def _largest(table: Table, by: Sequence[str]) -> Table:
    """The largest value of each metric among the threads; calls are still summed."""
    columns = {
        name if not name.metric else name._replace(how="max"): numbers
        for name, numbers in table.columns.items()
    }
    return replace(table, columns=columns).by(*by)
