"""The contents of a page comparing two sides: differences, and both call trees merged."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from taupy.analysis.findings.calls import trees
from taupy.analysis.match import Key
from taupy.answers import compare
from taupy.answers.compare import Compared, Options
from taupy.comparison import comparison, comparison_views
from taupy.comparison.comparison import By, ComparedTable, ComparisonOptions
from taupy.comparison.path_names import Paths
from taupy.comparison.sides import Side
from taupy.errors import MissingMetric, UsageError
from taupy.model.progress import SILENT, Progress
from taupy.model.rows import TimerRow
from taupy.network.operators import NOT_OPERATORS
from taupy.network.phase_sums import NO_PHASE
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import ids_of
from taupy.profiledb.values import values
from taupy.report.contents import Bar, Contents, Part, Section, add_trees, names_first
from taupy.report.forest import VERDICTS, Aligned, Forest
from taupy.study import conditions, gate, gate_view
from taupy.study.conditions import Condition
from taupy.units import duration

_MOST_BARS = 24
"""Operators that are drawn, those that differ most."""

_THINNEST = 200
"""A bar takes at least this part of the longest one."""

_MOST_CHANGES = 8
"""Routines that the overview draws, those that differ most."""


def of_sides(
    db: ProfileDB,
    first: str,
    second: str,
    fail_on: Sequence[Condition] = (),
    progress: Progress = SILENT,
) -> tuple[Contents, int]:
    """The page of two sides, and the gate's exit code.

    Args:
        first, second: each is a selector that may match repeated runs.
        fail_on: conditions of the gate, which is not on the page if there are none.

    Raises:
        taupy.errors.NoSuchTrial, UsageError: as for `taupy compare`.
    """
    progress.begin("building the page", 4, "parts")
    compared = compare.compared(db, [first, second], Options())
    both = compared.sides
    progress.advance()
    sampled = any(trial.is_sampled for side in both for trial in side.trials)
    title = f"{_name(both[0])} and {_name(both[1])}"
    contents = Contents(title, _subtitle(both), is_sampled=sampled)
    _add_trees(compared, contents.forest)
    progress.advance()
    judged, code = _gate(compared, fail_on) if fail_on else ([], 0)
    progress.advance()
    contents.sections = [
        Section("overview", "Overview", [*judged, *_overview(compared)]),
        *_by(compared, "phases", "Phases", "phase"),
        *_by(compared, "layers", "Layers", "layer"),
        *_operators(compared),
        Section("routines", "All routines", _parts(compared, compared.answers)),
        Section("facts", "Facts that differ", _facts(compared)),
    ]
    progress.advance()
    return contents, code


# --- the flame graph -----------------------------------------------------------


def _add_trees(compared: Compared, forest: Forest) -> None:
    """Add both trees, merging what the comparison matches."""
    paths = None if compared.few else _of_paths(compared)
    for at, side in enumerate(compared.sides):
        trial = side.trials[-1]
        verdict_of = {} if paths is None else _verdicts_of_paths(compared, paths, at, trial.id)
        aligned = Aligned(at, _keys(compared.answers, at), verdict_of)
        add_trees(compared.db, trial, values(compared.db, trees(trial.id)), forest, aligned)
    if paths is not None:
        forest.judged = True
        for answer in compared.answers:
            forest.judge(_words(compared, answer))


def _keys(answers: Sequence[ComparedTable], side: int) -> dict[TimerRow, Key]:
    return {timer: key for answer in answers for timer, key in answer.of_timers[side].items()}


def _of_paths(compared: Compared) -> ComparedTable:
    """The answer by call path and inclusive time, shown as boxes of the flame graph."""
    question = ComparisonOptions(by="callpath", value="inclusive")
    return comparison.answers(compared.db, compared.sides, question)[0]


def _verdicts_of_paths(
    compared: Compared, answer: ComparedTable, side: int, trial_id: int
) -> dict[int, int]:
    words, keys = _words(compared, answer), answer.keys
    assert isinstance(keys, Paths)
    ids = ids_of(compared.db, "callpath", [trial_id])
    return {id: words.get(key, 0) for id, key in zip(ids, keys.of_side(side, ids), strict=True)}


def _words(compared: Compared, answer: ComparedTable) -> dict[Hashable, int]:
    (judged,) = compared.verdicts(answer)
    return {identity: VERDICTS[verdict.word] for identity, verdict in judged.items()}


# --- sections ------------------------------------------------------------------


def _name(side: Side) -> str:
    trial = side.trials[-1]
    return (
        f"{side.letter}: trial {trial.id}, {trial.application} > {trial.experiment} > {trial.name}"
    )


def _subtitle(compared: Sequence[Side]) -> str:
    runs = [
        f"{len(side.trials)} run{'s' * (len(side.trials) > 1)} of {side.letter}"
        for side in compared
    ]
    return f"{' and '.join(runs)}; call trees are those of the last run of each"


def _gate(compared: Compared, fail_on: Sequence[Condition]) -> tuple[list[Part], int]:
    try:
        judgement = gate.judge(compared, fail_on)
    except MissingMetric as problem:
        return [Part("Gate", [str(problem)], is_warning=True)], conditions.UNDECIDED
    concluded = gate.concluded(compared, judgement)
    view = gate_view.conclusion_view(fail_on, judgement, concluded, machines=False)
    return [Part(views=[view])], concluded.code


def _overview(compared: Compared) -> list[Part]:
    trials, *obstacles = compared.about()
    parts = [
        *([Part(lines=trials.warnings, is_warning=True)] if trials.warnings else []),
        *(Part(views=[view], is_warning=True) for view in obstacles),
        Part(views=[replace(trials, warnings=())]),
        *_changes(compared),
    ]
    lines = compared.notes()
    if compared.few:
        lines.append("nothing is grey in the flame graph, because noise is unknown")
    return [*parts, Part("Remarks", lines)] if lines else parts


def _by(compared: Compared, name: str, title: str, by: By) -> list[Section]:
    """Side by side, if any of the trials has such rows."""
    try:
        answers = comparison.answers(compared.db, compared.sides, ComparisonOptions(by=by))
    except (MissingMetric, UsageError):
        return []
    names = {answer.keys[row.key].timer for answer in answers for row in answer.comparison.rows}
    if by == "phase" and names <= {"import", "exit", NO_PHASE}:
        return []  # no program's own
    return [Section(name, title, _parts(compared, answers))] if _several(answers) else []


def _operators(compared: Compared) -> list[Section]:
    """GPU work by operator, as bars of both sides."""
    sections = _by(compared, "operators", "Operators", "operator")
    if not sections:
        return []
    question = ComparisonOptions(by="operator")
    (answer,) = comparison.answers(compared.db, compared.sides, question)
    pairs = [pair for pair in _pairs(answer) if pair[0] not in NOT_OPERATORS]
    bars = _bars(pairs, _MOST_BARS, "gpu")
    picture = Part("Operators whose time changed most (bars: A, then B)", bars=bars)
    return [replace(sections[0], parts=[picture, *sections[0].parts])] if bars else sections


def _changes(compared: Compared) -> list[Part]:
    """The routines that differ most; where noise is known, beyond it."""
    answer = next((answer for answer in compared.answers if answer.metric.unit == "ns"), None)
    if answer is None:
        return []
    words = None if compared.few else _words(compared, answer)
    pairs = [pair for pair in _pairs(answer, words) if pair[1] != pair[2]]
    if not pairs:
        return [] if words is None else [Part("No routine changed beyond noise")]
    beyond = "" if words is None else " beyond noise"
    title = f"Routines whose own time changed most{beyond} (bars: A, then B)"
    return [Part(title, bars=_bars(pairs, _MOST_CHANGES, "lib"))]


def _pairs(
    answer: ComparedTable, words: Mapping[Hashable, int] | None = None
) -> list[tuple[str, float, float]]:
    """Names with the values of both sides, 0 where one lacks it; with verdicts, only changes."""
    return [
        (answer.keys[row.key].timer, row.values[0] or 0.0, row.values[1] or 0.0)
        for row in answer.comparison.rows
        if words is None
        or None in row.values[:2]
        or words.get(answer.keys[row.key].identity) == VERDICTS["more"]
    ]


def _bars(pairs: Sequence[tuple[str, float, float]], most: int, kind: str) -> list[Bar]:
    """A pair of bars for each of those that differ most; none that nobody would see beside the
    longest."""
    longest = max((max(pair[1:]) for pair in pairs), default=0)
    pairs = [pair for pair in pairs if max(pair[1:]) * _THINNEST >= longest]
    bars = []
    for name, first, second in sorted(pairs, key=lambda pair: -abs(pair[2] - pair[1]))[:most]:
        more = second - first
        sign = "-" if more < 0 else "+"
        ratio = (
            f"{second / first:.3g} times A" if first and second else "only in A" if first else ""
        )
        note = f"{sign}{duration(abs(more))}, {ratio or 'only in B'}"
        bars.append(Bar(name, [(kind, "A", round(first))], note, is_named=False))
        bars.append(Bar("", [("more" if more > 0 else "less", "B", round(second))], is_named=False))
    return bars


def _several(answers: Sequence[ComparedTable]) -> bool:
    """Whether there are several rows; a single row means no phases or layers."""
    return any(len(answer.comparison.rows) > 1 for answer in answers)


def _parts(compared: Compared, answers: Sequence[ComparedTable]) -> list[Part]:
    return [Part(views=[names_first(view)]) for view in compared.tables(answers)]


def _facts(compared: Compared) -> list[Part]:
    return [Part(views=[comparison_views.metadata_view(compared.sides, compared.facts, False)])]
