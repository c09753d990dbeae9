"""What is known of trials beside their values: GPUs, metadata, user events, names of call paths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taupy.model.question import EVENTS, Question
from taupy.model.rows import TimerRow
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import labels
from taupy.profiledb.selector import loosely
from taupy.profiledb.values import values

_METADATA = "SELECT trial_id, name, value FROM metadata ORDER BY node IS NOT NULL, node"

_GPU_FACTS = """
    SELECT device.id, device_fact.name, device_fact.value, device_fact.unit
      FROM device JOIN device_fact ON device_fact.device_id = device.id
     WHERE device.trial_id = ? ORDER BY device.node, device.ordinal, device_fact.position
"""

_GPUS = "SELECT name FROM device WHERE trial_id = ? ORDER BY node, ordinal"


class EventSums(NamedTuple):
    """A user event in one trial, over threads and call paths."""

    samples: int
    minimum: float
    maximum: float
    mean: float


def with_room(db: ProfileDB) -> None:
    """Let SQLite keep the pages of several trials at hand: 2 MB, its default, hold one."""
    db.rows("PRAGMA cache_size = -65536")


@of_a_sound_file
def gpu_names(db: ProfileDB, trial_id: int) -> list[str]:
    """The names of the trial's GPUs, by node and ordinal; one for each."""
    return [name for (name,) in db.rows(_GPUS, (trial_id,))]


@of_a_sound_file
def gpu_models(db: ProfileDB, trials: Sequence[int]) -> dict[int, str]:
    """The models that each trial ran on, joined by " + "; empty where none is known."""
    names = labels(db, "gpu", trials)
    return {trial: str(name) if name else "" for trial, (name,) in names.items()}


@of_a_sound_file
def gpu_facts(db: ProfileDB, trial_id: int) -> list[tuple[str, str, str]]:
    """What is known of each GPU: `GPU 0 Core Clock`, value, unit; numbered over nodes."""
    rows = db.rows(_GPU_FACTS, (trial_id,))
    order = list(dict.fromkeys(device for device, *_ in rows))
    return [
        (f"GPU {order.index(device)} {name}", str(value), unit)
        for device, name, value, unit in rows
    ]


@of_a_sound_file
def metadata_values(db: ProfileDB, name: str) -> dict[int, str]:
    """A fact of every trial that has it, by trial id; the trial's before its nodes'.

    A name that is nowhere is looked for with letters, blanks, `_` and `-` alike.
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
    """The names of all facts of all trials."""
    return [name for (name,) in db.rows("SELECT DISTINCT name FROM metadata ORDER BY name")]


@of_a_sound_file
def callpath_names(
    db: ProfileDB, callpaths: Iterable[int]
) -> dict[int, tuple[TimerRow, list[str]]]:
    """Call paths' timers, and the names on the way from the root to each."""
    wanted = list(callpaths)
    above = Ancestry.of(db, wanted)
    return {id: (above.timers[next(above.up(id))], above.names(id)) for id in wanted}


@of_a_sound_file
def event_sums(db: ProfileDB, trial_id: int) -> dict[tuple[str, str], EventSums]:
    """The trial's user events over threads and call paths, by name and unit."""
    db.trial(trial_id)
    table = values(db, Question((trial_id,), (), ("event",), values=EVENTS))
    columns = zip(*(table.column(value) for value in EVENTS), strict=True)
    return {
        (name, unit): EventSums(
            samples,
            math.nan if least is None else least,
            math.nan if most is None else most,
            math.nan if total is None or not samples else total / samples,
        )
        for (name, unit), (samples, total, least, most) in zip(
            table.row_labels("event"), columns, strict=True
        )
    }
