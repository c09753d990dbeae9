"""The sides of a comparison, and whether they are comparable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taupy.analysis import comparable
from taupy.errors import UsageError
from taupy.model.rows import TrialRow
from taupy.profiledb import selector, trial_facts
from taupy.profiledb.database import ProfileDB

_TELLING = re.compile("Clock|Version|Power Limit|Mode")
"""Facts of a GPU that make the same model perform differently."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a trial, or a set of repeated runs."""

    letter: str
    argument: str
    trials: tuple[TrialRow, ...]


def sides(db: ProfileDB, texts: Sequence[str], baseline: str | None = None) -> list[Side]:
    """The sides that the arguments select.

    One side per argument; a single argument that matches several trials gives one side per
    trial. `latest` selects all runs of the last `taupy run --repeat`. A baseline comes first. If
    it matches trials of several applications, those of the other sides' application count.

    Raises:
        NoSuchTrial: an argument matches no trial.
        UsageError: there is only one side, or there are too many.
    """
    selected = [(text, _trials(db, text)) for text in texts]
    if baseline is None and len(selected) == 1 and len(selected[0][1]) > 1:
        selected = [(str(trial.id), (trial,)) for trial in selected[0][1]]
    if baseline is not None:
        selected.insert(0, (baseline, _of_their_applications(db, baseline, selected)))
    if len(selected) < 2:
        raise UsageError(
            "a comparison needs at least two trials: taupy compare A B, or "
            "taupy compare --baseline tag:NAME B"
        )
    if len(selected) > len(LETTERS):
        raise UsageError(
            f"{len(selected)} sides are too many for a comparison (maximum {len(LETTERS)}); use "
            "`taupy pivot` for many trials"
        )
    return [
        Side(letter, text, trials)
        for letter, (text, trials) in zip(LETTERS, selected, strict=False)
    ]


def _trials(db: ProfileDB, text: str) -> tuple[TrialRow, ...]:
    trials = selector.many(db, [text])
    if text in (selector.LATEST, ""):
        trials = selector.runs_of(db, trials[-1])
    return tuple(trials)


def _of_their_applications(
    db: ProfileDB, baseline: str, others: Sequence[tuple[str, tuple[TrialRow, ...]]]
) -> tuple[TrialRow, ...]:
    trials = tuple(selector.many(db, [baseline]))
    wanted = {trial.application for _, side in others for trial in side}
    same = tuple(trial for trial in trials if trial.application in wanted)
    return same or trials


def both_sided(sides: Sequence[Side]) -> list[int]:
    """Trials that are on more than one side."""
    seen: set[int] = set()
    twice = []
    for side in sides:
        ids = {trial.id for trial in side.trials}
        twice += sorted(ids & seen)
        seen |= ids
    return twice


# --- conditions of measurement ---------------------------------------------------


def facts_of(db: ProfileDB, sides: Sequence[Side]) -> list[list[dict[str, str]]]:
    """How each side's trials were measured: their metadata and attributes."""
    trials = {trial.id: trial for side in sides for trial in side.trials}
    facts = {
        id: _conditions(trials[id], of_trial)
        for id, of_trial in trial_facts.facts_of(db, [*trials]).items()
    }
    if any(map(_is_named_after_its_file, trials.values())):
        for conditions in facts.values():
            del conditions["Application"]
    return [[facts[trial.id] for trial in side.trials] for side in sides]


def _is_named_after_its_file(trial: TrialRow) -> bool:
    """Whether the application is the beginning of an imported file's name: the file did not say
    what ran, and one recorded before a change is named differently from one after it."""
    of_import, _, path = trial.source.partition(": ")
    name = os.path.basename(path)
    return of_import.startswith("import ") and f"{name}.".startswith(f"{trial.application}.")


def _conditions(trial: TrialRow, facts: trial_facts.Facts) -> dict[str, str]:
    hosts = [thread for thread in facts.threads if thread.kind != "stream"]
    return {
        **facts.metadata,
        "Application": trial.application,
        "State": trial.state,
        "Exit Code": trial.ending or "unknown",
        "Nodes": str(len({thread.node for thread in facts.threads})),
        "Threads": str(len(hosts)),
        "GPUs": ", ".join(facts.gpus),
        **{
            name: f"{value} {unit}".strip()
            for name, value, unit in facts.gpu_facts
            if _TELLING.search(name)
        },
        **{
            name: f"{event.mean:.6g} {unit}"
            for (name, unit), event in facts.events.items()
            if comparable.kind_of(name) == "clocks"
        },
    }


def obstacles(
    sides: Sequence[Side], facts: Sequence[Sequence[Mapping[str, str]]]
) -> tuple[list[comparable.Difference], list[tuple[str, comparable.Difference]]]:
    """Differences between the sides, and differences within one side (its letter first).

    Args:
        facts: as returned by `facts_of`.
    """
    inside = [
        (side.letter, difference)
        for side, trials in zip(sides, facts, strict=True)
        for difference in comparable.within(trials)
    ]
    return comparable.differences(facts), inside


def in_turns(first: Side, other: Side) -> bool:
    """Do the runs of the two sides overlap in time, that is, alternate?"""
    mine = [trial.started_at for trial in first.trials]
    others = [trial.started_at for trial in other.trials]
    return max(mine) >= min(others) and max(others) >= min(mine)


def order_notes(sides: Sequence[Side]) -> list[str]:
    """Notes on sides whose runs did not alternate with the first side's."""
    first = sides[0]
    return [
        f"the runs of {first.letter} and {side.letter} did not alternate: changes on the "
        "machine between them look like differences of the program"
        for side in sides[1:]
        if not in_turns(first, side) and len(first.trials) > 1 and len(side.trials) > 1
    ]
