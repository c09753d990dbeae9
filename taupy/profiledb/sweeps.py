"""Which trials belong to a sweep, and which value of the parameter each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from taupy.errors import NoSuchTrial, UsageError
from taupy.escaping import visible
from taupy.model.rows import TrialRow
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.trial_facts import gpu_models
from taupy.units import several

COUNTED = ("threads", "nodes", "gpus")
"""Parameters that are counted in the trial itself if no metadata has that name."""

_COUNTS = {
    "threads": "SELECT trial_id, sum(count) FROM thread WHERE kind = 'host' GROUP BY trial_id",
    "nodes": "SELECT trial_id, count(DISTINCT node) FROM thread GROUP BY trial_id",
    # Devices with streams; in trials without any known stream, the listed devices.
    "gpus": """
        SELECT trial_id, max(active, listed) FROM (
            SELECT trial.id AS trial_id,
                   (SELECT count(*) FROM (SELECT DISTINCT node, context FROM thread
                     WHERE thread.trial_id = trial.id AND kind = 'stream')) AS active,
                   (SELECT count(*) FROM device WHERE device.trial_id = trial.id
                      AND NOT EXISTS (SELECT 1 FROM thread WHERE thread.trial_id = trial.id
                                         AND kind = 'stream')) AS listed
              FROM trial)
         WHERE active + listed > 0""",
}

SWEEP = "sweep"
SWEPT = "sweep.over"
"""Metadata written by `taupy run --sweep`: which sweep, and its parameters."""

SNAPSHOT = "taupy.snapshot"
"""Metadata of a snapshot taken while the program was running."""

OWN = frozenset({SWEEP, SWEPT, "repeat", "repeat.run"})
"""Metadata that describe where a trial belongs, not how it ran."""


class SweptTrial(NamedTuple):
    """A trial with its value of the parameter.

    Attributes:
        place: application and experiment if the trials differ in them; else empty.
        others: the GPU if the trials differ in it, and the values of the sweep's other
            parameters, `lr=0.1`; empty for none.
    """

    trial: TrialRow
    value: str
    place: str
    others: str

    @property
    def series(self) -> str:
        """The series it belongs to; only trials of one series are comparable."""
        return ", ".join(filter(None, (self.place, self.others)))


@dataclass(slots=True)
class SweptTrials:
    """The trials of a sweep.

    Attributes:
        counted: whether the parameter is not metadata, but was counted in the trials.
        facts: each trial's own metadata, by trial id.
        notes: what was omitted, and why.
    """

    over: str
    counted: bool
    trials: list[SweptTrial]
    facts: dict[int, dict[str, str]]
    notes: list[str] = field(default_factory=list)


@of_a_sound_file
def swept_trials(
    db: ProfileDB, over: str, selectors: Sequence[str] = (), *, failed: bool = False
) -> SweptTrials:
    """The trials that have the parameter.

    Without selectors: the trials in the experiment of the last trial that has it; if
    that trial belongs to a `taupy run --sweep`, those of that sweep.

    Args:
        over: name of metadata, or one of `COUNTED`.
        failed: include failed and incomplete trials, and snapshots.

    Raises:
        NoSuchTrial: a selector matches nothing, or no trial has the parameter.
        UsageError: fewer than two values of the parameter.
    """
    chosen = selector.many(db, selectors) if selectors else db.trials()
    facts = _facts(db, [trial.id for trial in chosen], over)
    values, counted = _values(db, over, chosen, facts)
    if not values:
        raise NoSuchTrial(_no_such_parameter(db, over, chosen, facts))
    notes: list[str] = []
    if not selectors:
        chosen = _of_the_last(chosen, values, facts, notes)
    else:
        lacking = [trial for trial in chosen if trial.id not in values]
        if lacking:
            notes.append(f"{several(len(lacking), 'trial')} without {visible(over)} left out")
    chosen = [trial for trial in chosen if trial.id in values]
    if not failed:
        snapshots = [trial for trial in chosen if SNAPSHOT in facts[trial.id]]
        if snapshots:
            notes.append(
                f"{several(len(snapshots), 'trial')} taken while a program ran left out (snapshots)"
            )
            chosen = [trial for trial in chosen if trial not in snapshots]
        bad = [t for t in chosen if t.exit_code not in (0, None) or t.state != "complete"]
        if bad:
            numbers = ", ".join(str(trial.id) for trial in bad[:10])
            notes.append(
                f"{several(len(bad), 'trial')} that failed or are incomplete left out ({numbers})"
            )
            chosen = [trial for trial in chosen if trial not in bad]
    places = _places(chosen)
    gpus = _gpus(db, chosen)
    trials_swept = [
        SweptTrial(t, values[t.id], places[t.id], _others(over, facts[t.id], gpus[t.id]))
        for t in chosen
    ]
    if len({swept.value for swept in trials_swept}) < 2:
        raise UsageError(_one_value(over, trials_swept, facts))
    trials_swept = _joined(over, trials_swept)
    return SweptTrials(over, counted, trials_swept, {t.id: facts[t.id] for t in chosen}, notes)


def last_parameter(db: ProfileDB) -> str | None:
    """The first parameter of the last `taupy run --sweep`; None if there was none."""
    rows = db.rows(
        "SELECT value FROM metadata WHERE name = ? ORDER BY trial_id DESC LIMIT 1", (SWEPT,)
    )
    return rows[0][0].split(",")[0].strip() if rows else None


def _facts(db: ProfileDB, trials: Sequence[int], over: str) -> dict[int, dict[str, str]]:
    """The trials' own metadata; the parameter may also be one on which all nodes agree."""
    facts: dict[int, dict[str, str]] = {trial: {} for trial in trials}
    for trial, name, value in db.rows(
        "SELECT trial_id, name, min(value) FROM metadata WHERE node IS NULL OR name = :over"
        " GROUP BY trial_id, name HAVING min(value) = max(value)",
        {"over": over},
    ):
        if trial in facts:
            facts[trial][name] = value
    return facts


def _values(
    db: ProfileDB, over: str, trials: Sequence[TrialRow], facts: dict[int, dict[str, str]]
) -> tuple[dict[int, str], bool]:
    """The value of each trial, and whether values were counted."""
    declared = {trial.id: facts[trial.id][over] for trial in trials if over in facts[trial.id]}
    if declared or over not in COUNTED:
        return declared, False
    counts = dict(db.rows(_COUNTS[over]))
    return {trial.id: str(counts[trial.id]) for trial in trials if trial.id in counts}, True


def _of_the_last(
    trials: Sequence[TrialRow],
    values: dict[int, str],
    facts: dict[int, dict[str, str]],
    notes: list[str],
) -> list[TrialRow]:
    last = next(trial for trial in reversed(trials) if trial.id in values)
    place = (last.application, last.experiment)
    candidates = [t for t in trials if (t.application, t.experiment) == place and t.id in values]
    sweep = facts[last.id].get(SWEEP)
    if sweep is not None:
        same = [trial for trial in candidates if facts[trial.id].get(SWEEP) == sweep]
        if len(same) < len(candidates):
            notes.append(
                f"the last sweep of {visible('/'.join(place))}; "
                f"{len(candidates) - len(same)} trials of others left out: "
                f"`taupy sweep ... {visible('/'.join(place))}` takes all"
            )
        candidates = same
    return candidates


def _places(trials: Sequence[TrialRow]) -> dict[int, str]:
    """Application and experiment of each trial, as far as they differ between trials."""
    applications = len({trial.application for trial in trials}) > 1
    experiments = len({(trial.application, trial.experiment) for trial in trials}) > (
        len({trial.application for trial in trials})
    )
    return {
        trial.id: "/".join(
            ([trial.application] if applications else [])
            + ([trial.experiment] if experiments else [])
        )
        for trial in trials
    }


def _gpus(db: ProfileDB, trials: Sequence[TrialRow]) -> dict[int, str]:
    """The GPU models that each trial ran on; empty if all ran on the same."""
    models = gpu_models(db, [trial.id for trial in trials])
    if len(set(models.values())) < 2:
        return dict.fromkeys(models, "")
    return {trial: model or "no GPU" for trial, model in models.items()}


def _others(over: str, facts: dict[str, str], gpu: str) -> str:
    names = [name.strip() for name in facts.get(SWEPT, "").split(",")]
    others = [name for name in names if name and name != over and name in facts]
    return ", ".join([*filter(None, [gpu]), *(f"{name}={facts[name]}" for name in others)])


def _joined(over: str, trials_swept: list[SweptTrial]) -> list[SweptTrial]:
    """Join series that have only one value each: their other parameters just rename it.

    Raises:
        UsageError: even then no application or experiment has two values.
    """
    for _ in range(2):
        values: dict[str, set[str]] = {}
        for swept in trials_swept:
            values.setdefault(swept.series, set()).add(swept.value)
        if any(len(those) > 1 for those in values.values()):
            return trials_swept
        trials_swept = [swept._replace(others="") for swept in trials_swept]
    places = ", ".join(visible(f"{place}: {min(those)}") for place, those in values.items())
    raise UsageError(
        f"no application and experiment has two values of {over} ({places}); a sweep "
        "is over trials of one program"
    )


def _varying(trials: Sequence[int], facts: dict[int, dict[str, str]]) -> list[str]:
    """Names whose values differ, fewest values first, so that parameters precede timestamps."""
    seen: dict[str, set[str]] = {}
    for trial in trials:
        for name, value in facts[trial].items():
            if not name.startswith("taupy.") and name not in OWN:
                seen.setdefault(name, set()).add(value)
    varying = [(len(values), name) for name, values in seen.items() if len(values) > 1]
    return [name for _, name in sorted(varying)]


def _no_such_parameter(
    db: ProfileDB, over: str, trials: Sequence[TrialRow], facts: dict[int, dict[str, str]]
) -> str:
    if not trials:
        return f"{db.path} has no trials; `taupy run --sweep` adds some"
    names = _varying([trial.id for trial in trials], facts)
    listed_names = ", ".join(names[:12]) or "none"
    return (
        f"no trial has metadata '{over}' (what differs between them: {listed_names}; "
        f"or count {', '.join(COUNTED)}); give it with: taupy run --meta {over}=VALUE SCRIPT"
    )


def _one_value(
    over: str, trials_swept: Sequence[SweptTrial], facts: dict[int, dict[str, str]]
) -> str:
    if not trials_swept:
        return f"no trial with {over} is left; --failed takes failed and incomplete ones, too"
    names = _varying([swept.trial.id for swept in trials_swept], facts)
    differing = ", ".join(names[:12]) or "nothing"
    return (
        f"all {len(trials_swept)} trials have {over} = {trials_swept[0].value}: a sweep needs at "
        f"least two values (what differs between them: {differing})"
    )
