"""What answers have in common: how they are found, and what is said without data."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from taupy.dataclass import replace
from taupy.doors import Entrance, door
from taupy.errors import UsageError
from taupy.pprof.view import Column, View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import heading

_DOORS: dict[str, Entrance] = {"ranks": "ranks.answer", "candidates": "study.candidates"}


def module(name: str) -> Any:
    """The module of an answer in `ANSWERS`."""
    behind = _DOORS.get(name)
    return import_module(f"taupy.answers.{name}") if behind is None else door(behind)


class Nothing(UsageError):
    """The trial has nothing of what was asked, and why. A notebook shows an empty table instead."""


def column_of(by: str) -> Column:
    """The column with the labels of a dimension."""
    return Column(by, heading=heading(by))


def with_remarks(db: ProfileDB, trial: int, views: list[View]) -> list[View]:
    """The same views; the last one notes what the trial lacks: details of steps outside a window,
    and what no library was built for."""
    from taupy.network.layers import LACKING
    from taupy.network.steps import UNSEEN
    from taupy.profiledb.trial_facts import metadata_values

    stored = (metadata_values(db, name).get(trial) for name in (UNSEEN, LACKING))
    remarks = [line for text in stored if text is not None for line in text.splitlines()]
    if not remarks or not views:
        return views
    return [*views[:-1], replace(views[-1], notes=[*views[-1].notes, *remarks])]
