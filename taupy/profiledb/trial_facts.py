"""Facts about trials other than values: GPUs, metadata, user events, names of call paths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from taupy.dataclass import NamedTuple
from taupy.model.absent import nan_if_none
from taupy.model.question import EVENTS, Question
from taupy.model.rows import ThreadRow
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import labels, rows_of_ids
from taupy.profiledb.selector import loosely
from taupy.profiledb.values import values

_METADATA = "SELECT trial_id, name, value FROM metadata ORDER BY node IS NOT NULL, node"

_OWN_METADATA = """
    SELECT trial_id, name, value FROM metadata WHERE node IS NULL AND trial_id IN ({ids})
"""

_THREADS = """
    SELECT trial_id, node, context, thread, kind, name, count, ifnull(least_ns, 0),
           ifnull(most_ns, 0)
      FROM thread WHERE trial_id IN ({ids})
"""

_GPUS = """
    SELECT device.trial_id, device.id, device.name, device_fact.name, device_fact.value,
           device_fact.unit
      FROM device LEFT JOIN device_fact ON device_fact.device_id = device.id
     WHERE device.trial_id IN ({ids})
     ORDER BY device.trial_id, device.node, device.ordinal, device_fact.position
"""


_EVENTS_BEGINNING = """
    SELECT DISTINCT user_event.name
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ? AND substr(user_event.name, 1, length(?)) = ?
     ORDER BY user_event.name
"""


class EventSums(NamedTuple):
    """A user event in one trial, summed over threads and call paths."""

    samples: int
    minimum: float
    maximum: float
    mean: float


class Facts(NamedTuple):
    """Facts about one trial other than values.

    Attributes:
        metadata: the trial's own, not its nodes'.
        gpus: the name of each GPU, by node and ordinal.
        gpu_facts: such as `GPU 0 Core Clock`, with value and unit; numbered across nodes.
        events: user events summed over threads and call paths, by name and unit.
    """

    metadata: dict[str, str]
    threads: list[ThreadRow]
    gpus: list[str]
    gpu_facts: list[tuple[str, str, str]]
    events: dict[tuple[str, str], EventSums]


def with_room(db: ProfileDB) -> None:
    """Let SQLite cache the pages of several trials: its default of 2 MB suffices for one."""
    db.rows("PRAGMA cache_size = -65536")


@of_a_sound_file
def facts_of(db: ProfileDB, trials: Sequence[int]) -> dict[int, Facts]:
    """The facts of each of these trials; one statement per kind of fact."""
    events = event_sums(db, trials)
    facts = {trial: Facts({}, [], [], [], events[trial]) for trial in trials}
    for trial, name, value in rows_of_ids(db, _OWN_METADATA, trials):
        facts[trial].metadata[name] = value
    for trial, *thread in rows_of_ids(db, _THREADS, trials):
        facts[trial].threads.append(ThreadRow(*thread))
    for (trial, _), of_gpu in groupby(rows_of_ids(db, _GPUS, trials), lambda row: row[:2]):
        _add_gpu(facts[trial], [*of_gpu])
    return facts


def _add_gpu(facts: Facts, rows: Sequence[Any]) -> None:
    number = len(facts.gpus)
    facts.gpus.append(rows[0][2])
    facts.gpu_facts.extend(
        (f"GPU {number} {name}", str(value), unit)
        for *_, name, value, unit in rows
        if name is not None
    )


@of_a_sound_file
def gpu_models(db: ProfileDB, trials: Sequence[int]) -> dict[int, str]:
    """The GPU models that each trial ran on, joined by " + "; empty if unknown."""
    names = labels(db, "gpu", trials)
    return {trial: str(name) if name else "" for trial, (name,) in names.items()}


@of_a_sound_file
def metadata_values(db: ProfileDB, name: str) -> dict[int, str]:
    """One metadata value per trial that has it, by trial id; the trial's own before its nodes'.

    A name that no trial has is searched again ignoring case and treating blanks, `_` and `-` as
    equal.
    """
    rows = db.rows(_METADATA)
    for wanted, written in ((name, str), (loosely(name), loosely)):
        values: dict[int, str] = {}
        for trial, stored, value in rows:
            if written(stored) == wanted:
                values.setdefault(trial, value)
        if values:
            return values
    return {}


@of_a_sound_file
def metadata_names(db: ProfileDB) -> list[str]:
    """The names of all metadata of all trials."""
    return [name for (name,) in db.rows("SELECT DISTINCT name FROM metadata ORDER BY name")]


@of_a_sound_file
def event_sums(db: ProfileDB, trials: Sequence[int]) -> dict[int, dict[tuple[str, str], EventSums]]:
    """The user events of each trial, summed over threads and call paths, by name and unit."""
    sums: dict[int, dict[tuple[str, str], EventSums]] = {trial: {} for trial in trials}
    table = values(db, Question(tuple(trials), (), ("trial", "event"), values=EVENTS))
    rows = zip(table.row_labels("trial"), table.row_labels("event"), strict=True)
    columns = zip(*(table.column(value) for value in EVENTS), strict=True)
    for (trial, (name, unit)), (samples, total, least, most) in zip(rows, columns, strict=True):
        sums[trial][name, unit] = EventSums(
            samples,
            nan_if_none(least),
            nan_if_none(most),
            math.nan if total is None or not samples else total / samples,
        )
    return sums


def events_beginning(db: ProfileDB, trial: int, beginning: str) -> tuple[str, ...]:
    """The names of a trial's user events that begin so."""
    return tuple(name for (name,) in db.rows(_EVENTS_BEGINNING, (trial, beginning, beginning)))
