"""Selectors: how users name trials.

    latest                   the run stored last (the default); latest~2: two before it; snapshots
                             that a run took do not count
    12                       the trial with this id
    app/experiment/trial     by name; parts from the left, `*` and `?` as in a shell
    name                     an application or a trial of this name; if no trial is called a,
                             all of a#1 ... a#6, created by `taupy run --trial a --repeat 6`
    app=mnist                the application; so are experiment=, trial= and state=
    tag:baseline             trials with that tag
    gpu=H200                 trials on a GPU whose name contains this
    meta.NAME=VALUE          trials whose metadata NAME is VALUE (`*` and `?` work)
    runs:12                  the trials created by the same `taupy run --repeat` as trial 12
    0190a2b3-4c              the beginning of a uuid, at least 8 characters
    mnist,gpu=H200           trials that meet all these conditions; `latest` among them is the
                             last trial that meets the others

Selectors are case-sensitive, except after `gpu=`. A metadata name that no trial has is searched
again ignoring case and treating blanks, `_` and `-` as equal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from taupy.dataclass import NamedTuple
from taupy.errors import NoSuchTrial, UsageError
from taupy.escaping import visible
from taupy.model.rows import TrialRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import storable
from taupy.units import listing, nearest, several

LATEST = "latest"
RUNS = "runs:"

_LATEST = re.compile(r"(?:latest)?(?:~(\d{1,9}))?")
_UUID_BEGINNING = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]*")
_RUN = re.compile(r"#\d+\Z")
"""The suffix that `--repeat` adds to a trial's name."""

_MOST_LISTED = 5
_MOST_VALUES = 8

_FIELDS: dict[str, Callable[[TrialRow], str]] = {
    "app": lambda trial: trial.application,
    "application": lambda trial: trial.application,
    "experiment": lambda trial: trial.experiment,
    "trial": lambda trial: trial.name,
    "state": lambda trial: trial.state,
}

_REPEATED = """
    SELECT other.trial_id FROM metadata AS mine
      JOIN metadata AS other ON other.name = mine.name AND other.value = mine.value
     WHERE mine.trial_id = ? AND mine.name = 'repeat'
"""

_TOGETHER = """
    SELECT trial_id, name, value FROM metadata WHERE node IS NULL AND name IN ('gate', 'sweep')
"""

_GPU_NAMES = """
    SELECT trial_id, value FROM metadata WHERE name LIKE 'GPU%Name'
    UNION
    SELECT trial_id, name FROM device
"""


def trial(db: ProfileDB, text: str = LATEST) -> TrialRow:
    """The trial that the text selects; if several, the one stored last.

    Raises:
        NoSuchTrial: no trial matches; the message lists the available ones.
    """
    return many(db, [text])[-1]


def many(db: ProfileDB, texts: Iterable[str]) -> list[TrialRow]:
    """All trials that any of the texts selects, each once, in the order of their ids.

    Raises:
        NoSuchTrial: one of the texts matches nothing; the message lists the available trials.
        UsageError: one is empty, as from an unset shell variable.
    """
    by_id: dict[int, TrialRow] = {}
    for text in texts:
        if not text:
            raise UsageError("an empty text names no trial; `latest` is the last one")
        matches = _matches(db, text)
        if not matches and "," in text:
            # Names may contain commas, so the whole text is tried first.
            matches = together(db, [part.strip() for part in text.split(",")])
        if not matches:
            raise NoSuchTrial(_miss(db, text))
        by_id.update((trial.id, trial) for trial in matches)
    return [by_id[id] for id in sorted(by_id)]


def together(db: ProfileDB, conditions: Sequence[str]) -> list[TrialRow]:
    """The trials that meet all conditions; `latest` is the last that meets the others.

    Raises:
        NoSuchTrial: no trial matches; the message says which condition excludes the last ones.
    """
    others = [text for text in conditions if not _LATEST.fullmatch(text)]
    if not others:
        return many(db, conditions[:1] or [LATEST])
    met = {text: _matches(db, text) for text in others}
    for text, trials in met.items():
        if not trials:
            raise NoSuchTrial(_miss(db, text))
    ids = set.intersection(*({trial.id for trial in trials} for trials in met.values()))
    trials_together = [trial for trial in met[others[0]] if trial.id in ids]
    if not trials_together:
        counts = ", ".join(
            f"'{visible(text)}' {several(len(trials), 'trial')}" for text, trials in met.items()
        )
        raise NoSuchTrial(
            f"no trial in {db.path} meets all conditions ({counts}); `taupy trials` lists them all"
        )
    for text in conditions:
        if _LATEST.fullmatch(text):
            return _last(_runs(db, trials_together), text)
    return trials_together


def runs_of(db: ProfileDB, trial: TrialRow) -> list[TrialRow]:
    """The trials of the same `taupy run --repeat` as this one; otherwise this one only."""
    ids = {id for (id,) in db.rows(_REPEATED, (trial.id,))} | {trial.id}
    return [other for other in db.trials() if other.id in ids]


class Together(NamedTuple):
    """Trials that one command made: `gate`, `sweep`, or empty for a trial of its own."""

    kind: str
    trials: list[TrialRow]


def made_together(db: ProfileDB, trials: Sequence[TrialRow]) -> list[Together]:
    """The trials with the runs of one gate or sweep together, in the order of their last runs."""
    group_of = {trial: (name, value) for trial, name, value in db.rows(_TOGETHER)}
    groups: dict[tuple[str, str], Together] = {}
    for trial in reversed(trials):
        key = group_of.get(trial.id, ("", str(trial.id)))
        groups.setdefault(key, Together(key[0], [])).trials.insert(0, trial)
    return [*groups.values()][::-1]


def _runs(db: ProfileDB, trials: Sequence[TrialRow]) -> Sequence[TrialRow]:
    """The trials without snapshots; all of them if they are snapshots."""
    snapshots = db.snapshots()
    return [trial for trial in trials if trial.id not in snapshots] or trials


def _last(trials: Sequence[TrialRow], text: str) -> list[TrialRow]:
    back = _LATEST.fullmatch(text)
    assert back is not None
    at = len(trials) - 1 - int(back[1] or 0)
    return [trials[at]] if at >= 0 else []


def _matches(db: ProfileDB, text: str) -> list[TrialRow]:
    if text == LATEST:
        latest = db.latest()
        return [] if latest is None else [latest]
    if _LATEST.fullmatch(text):
        return _last(_runs(db, db.trials()), text)
    if text.isascii() and text.isdigit():
        try:
            return [db.trial(int(text[:20]))]
        except NoSuchTrial:
            return []
    if text.startswith(RUNS):
        return runs_of(db, many(db, [text[len(RUNS) :]])[-1])
    wanted, trials = _condition(db, storable(text)), db.trials()
    matches = [trial for trial in trials if wanted(trial)]
    if matches:
        return matches
    repeated = [trial for trial in trials if _RUN.search(trial.name)]
    matches = [trial for trial in repeated if wanted(trial._replace(name=_RUN.sub("", trial.name)))]
    if matches or not text.endswith(".py"):
        return matches
    application = os.path.basename(text).removesuffix(".py")  # as `taupy run` names a script
    return [trial for trial in trials if trial.application == application]


def _condition(db: ProfileDB, text: str) -> Callable[[TrialRow], bool]:
    if text.startswith("tag:"):
        tag = text[len("tag:") :]
        return lambda trial: any(_alike(name, tag) for name in trial.tags)
    if text.startswith("gpu="):
        ids = _with_gpu(db, text[len("gpu=") :])
        return lambda trial: trial.id in ids
    if text.startswith("meta.") and "=" in text:
        ids = _with_metadata(db, text[len("meta.") :])
        return lambda trial: trial.id in ids
    key, equals, value = text.partition("=")
    if equals and key in _FIELDS:
        named = _FIELDS[key]
        return lambda trial: _alike(named(trial), value) or text in (trial.application, trial.name)
    if "/" in text:
        return lambda trial: _path_alike(trial, text)
    if _UUID_BEGINNING.fullmatch(text):
        return lambda trial: (
            trial.uuid.lower().startswith(text.lower()) or text in (trial.application, trial.name)
        )
    return lambda trial: _alike(trial.application, text) or _alike(trial.name, text)


def _alike(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _path_alike(trial: TrialRow, pattern: str) -> bool:
    """Whether the pattern matches application/experiment/trial, or application/experiment.

    Names may contain slashes, so the whole is compared first, then part by part.
    """
    names = (trial.application, trial.experiment, trial.name)
    if pattern in ("/".join(names), "/".join(names[:2])):
        return True
    parts = pattern.split("/")
    return len(parts) <= 3 and all(map(_alike, names, parts))


def _with_gpu(db: ProfileDB, model: str) -> set[int]:
    wanted = model.lower()
    return {id for id, name in db.rows(_GPU_NAMES) if _alike(name.lower(), f"*{wanted}*")}


def _with_metadata(db: ProfileDB, condition: str) -> set[int]:
    """Names may contain `=`: the first split that yields an existing name counts."""
    for loose in (False, True):
        for place in (match.start() for match in re.finditer("=", condition)):
            name, value = condition[:place], condition[place + 1 :]
            rows = _metadata_values(db, name, loose)
            if rows:
                return {id for id, stored in rows if _alike(stored, value)}
    return set()


def _metadata_values(db: ProfileDB, name: str, loose: bool) -> list[tuple[int, str]]:
    if not loose:
        return db.rows("SELECT trial_id, value FROM metadata WHERE name = ?", (name,))
    wanted = loosely(name)
    rows = db.rows("SELECT trial_id, name, value FROM metadata")
    return [(id, value) for id, stored, value in rows if loosely(stored) == wanted]


def loosely(name: str) -> str:
    """A metadata name with case folded and blanks, `_` and `-` unified."""
    return re.sub(r"[\s_-]+", " ", name).strip().lower()


# --- messages about missing trials -----------------------------------------------


def _miss(db: ProfileDB, text: str) -> str:
    trials = db.trials()
    place = db.path
    if not trials:
        return f"{place} has no trials; `taupy run SCRIPT` adds one"
    if text.endswith(".py"):
        return f"'{text}' is a script, and {place} has no trial of it; `taupy run {text}` adds one"
    if text.endswith((".html", ".htm")):
        return f"'{text}' is a page, not a trial: open it in a browser; `taupy trials` lists trials"
    count = several(len(trials), "trial")
    choices = _available(db, text, trials)
    return f"no trial matches '{text}' in {place} ({count}: {choices}); `taupy trials` lists them"


def _available(db: ProfileDB, text: str, trials: Sequence[TrialRow]) -> str:
    """The available GPUs, tags or metadata values, otherwise the last trials."""
    if text.startswith("gpu="):
        names = [name for _, name in db.rows(_GPU_NAMES)]
        return "GPUs " + _values(names) if names else "none of them has a GPU"
    if text.startswith("tag:"):
        tags = [tag for trial in trials for tag in trial.tags]
        return "tags " + _values(tags) if tags else "none of them has a tag"
    if text.startswith("meta.") and "=" in text:
        name = text[len("meta.") :].partition("=")[0]
        values = _metadata_values(db, name, False) or _metadata_values(db, name, True)
        if values:
            return f"{visible(name)} is {_values(value for _, value in values)}"
        stored = sorted({row[0] for row in db.rows("SELECT DISTINCT name FROM metadata")})
        near = nearest(name, stored) or [fact for fact in stored if not fact.startswith("taupy.")]
        return "their metadata: " + _values(near) if near else "they have no metadata"
    listed = [
        f"{trial.id} {trial.application}/{trial.experiment}/{trial.name}"
        for trial in trials[-_MOST_LISTED:]
    ]
    dots = "..., " if len(trials) > _MOST_LISTED else ""
    return dots + visible(", ".join(listed))


def _values(values: Iterable[str]) -> str:
    return visible(listing(dict.fromkeys(values), _MOST_VALUES))
