"""What a page about two sides of a comparison holds: differences, and both call trees as one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from taupy.comparison import comparison, comparison_views, sides, verdicts
from taupy.comparison.comparison import Answer, Question
from taupy.comparison.comparison_views import Shown
from taupy.comparison.sides import Side
from taupy.comparison.verdicts import Rule, Verdict
from taupy.profiledb.database import ProfileDB
from taupy.report.contents import Contents, Part, Section, add_trees

_NOISE = ("same", "unclear")
"""Verdicts that leave a routine grey."""


def of_sides(db: ProfileDB, first: str, second: str) -> Contents:
    """The page of two sides; each is a selector that may match repeated runs.

    Raises:
        taupy.errors.NoSuchTrial, UsageError: as for `taupy compare`.
    """
    compared = sides.sides(db, [first, second])
    contents = Contents(f"{_name(compared[0])} and {_name(compared[1])}", _subtitle(compared))
    answers = comparison.answers(db, compared, Question(by="routine"))
    words = [verdicts.verdicts(answer, 1, Rule()) for answer in answers]
    for number, side in enumerate(compared):
        add_trees(db, side.trials[-1], contents.forest, number)
    _mark_noise(contents, words)
    contents.sections = [
        Section("overview", "Overview", _overview(db, compared, answers, contents)),
        Section("routines", "All routines", _routines(compared, answers, words)),
        Section("facts", "Facts that differ", _facts(db, compared)),
    ]
    return contents


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


def _overview(
    db: ProfileDB, compared: Sequence[Side], answers: Sequence[Answer], contents: Contents
) -> list[Part]:
    apart, _ = sides.obstacles(compared, sides.facts_of(db, compared))
    parts = [Part("Trials", views=[comparison_views.sides_view(compared, answers)])]
    if apart:
        view = comparison_views.obstacles_view(compared, apart)
        parts.insert(0, Part("Not comparable", views=[view]))
    if not any("noise" in name for name in contents.forest.names):
        line = (
            "unknown: a change can only be told from noise with at least four runs on each side, "
            "so no routine is grey in the flame graph"
        )
        parts.append(Part("Noise", [line]))
    return parts


def _routines(
    compared: Sequence[Side],
    answers: Sequence[Answer],
    words: Sequence[Mapping[Hashable, Verdict]],
) -> list[Part]:
    return [
        Part(views=[comparison_views.rows_view(answer, compared, [mine], Shown())])
        for answer, mine in zip(answers, words, strict=True)
    ]


def _facts(db: ProfileDB, compared: Sequence[Side]) -> list[Part]:
    facts = sides.facts_of(db, compared)
    return [Part(views=[comparison_views.metadata_view(compared, facts, False)])]


def _mark_noise(contents: Contents, words: Sequence[Mapping[Hashable, Verdict]]) -> None:
    """Note at each name with a verdict whether its change is within noise."""
    is_noise: dict[tuple[str, str], bool] = {}
    for verdicts_of_side in words:
        for key, verdict in verdicts_of_side.items():
            if verdict.word:
                name = (getattr(key, "short_name", ""), getattr(key, "file", None) or "")
                is_noise[name] = verdict.word in _NOISE
    for entry in contents.forest.names:
        file = str(entry["place"]).partition(":")[0]
        if (entry["name"], file) in is_noise:
            entry["noise"] = is_noise[entry["name"], file]
