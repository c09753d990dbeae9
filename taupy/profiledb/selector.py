"""How people name trials.

    latest                   the trial stored last (the default)
    12                       the trial with that id
    app/experiment/trial     by name; parts from the left, `*` and `?` as in a shell
    name                     an application or a trial of that name
    tag:baseline             trials with that tag
    gpu=H200                 trials on a GPU whose name has that in it
    meta.NAME=VALUE          trials whose metadata NAME is VALUE (`*` and `?` work)
    0190a2b3-4c              the beginning of a uuid, 8 characters at least

Letters count as they are written, except after `gpu=`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from taupy.errors import NoSuchTrial
from taupy.model.rows import TrialRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import shown, storable

LATEST = "latest"

_UUID_BEGINNING = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]*")
_MOST_LISTED = 5


def one(db: ProfileDB, text: str = LATEST) -> TrialRow:
    """The trial that the text names; of several, the one stored last.

    Raises:
        NoSuchTrial: there is none; the message lists what there is.
    """
    return many(db, [text])[-1]


def many(db: ProfileDB, texts: Iterable[str]) -> list[TrialRow]:
    """All trials that any of the texts names, each once, in the order stored.

    Raises:
        NoSuchTrial: one of the texts names none; the message lists what there is.
    """
    found: dict[int, TrialRow] = {}
    for text in texts:
        matches = _matches(db, text)
        if not matches:
            raise NoSuchTrial(_miss(db, text))
        found.update((trial.id, trial) for trial in matches)
    return [found[id] for id in sorted(found)]


def _matches(db: ProfileDB, text: str) -> list[TrialRow]:
    if text in (LATEST, ""):
        latest = db.latest()
        return [] if latest is None else [latest]
    if text.isascii() and text.isdigit():
        try:
            return [db.trial(int(text[:20]))]
        except NoSuchTrial:
            return []
    wanted = _condition(db, storable(text))
    return [trial for trial in db.trials() if wanted(trial)]


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
    """Does the pattern fit application/experiment/trial, or application/experiment?

    Names may hold slashes themselves, so the whole is compared, then part by part.
    """
    names = (trial.application, trial.experiment, trial.name)
    if pattern in ("/".join(names), "/".join(names[:2])):
        return True
    parts = pattern.split("/")
    return len(parts) <= 3 and all(map(_alike, names, parts))


def _with_gpu(db: ProfileDB, model: str) -> set[int]:
    rows = db.rows("SELECT trial_id, name, value FROM metadata WHERE name LIKE 'GPU%Name'")
    wanted = model.lower()
    return {id for id, _, value in rows if _alike(value.lower(), f"*{wanted}*")}


def _with_metadata(db: ProfileDB, condition: str) -> set[int]:
    """Names may hold `=`: the first that gives a name there is counts."""
    for place in (match.start() for match in re.finditer("=", condition)):
        name, value = condition[:place], condition[place + 1 :]
        rows = db.rows("SELECT trial_id, value FROM metadata WHERE name = ?", (name,))
        if rows:
            return {id for id, there in rows if _alike(there, value)}
    return set()


def _miss(db: ProfileDB, text: str) -> str:
    trials = db.trials()
    place = shown(db.path)
    if not trials:
        return f"{place} holds no trials; `taupy run SCRIPT` adds one"
    listed = [
        f"{trial.id} {trial.application}/{trial.experiment}/{trial.name}"
        for trial in trials[-_MOST_LISTED:]
    ]
    there = shown(", ".join(listed))
    dots = "..., " if len(trials) > _MOST_LISTED else ""
    count = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
    return (
        f"no trial matches '{shown(text)}' in {place} ({count}: {dots}{there}); "
        "`taupy trials` lists them"
    )
