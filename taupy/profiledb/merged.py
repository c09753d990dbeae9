"""The result of a merge: what was copied from one source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from taupy.units import several


class MovedTrial(NamedTuple):
    """A copied trial: its number and name in the source and in the target."""

    old_id: int
    new_id: int
    old_name: str
    new_name: str


@dataclass(slots=True)
class Merged:
    """What was copied from one source.

    Attributes:
        added: new trials.
        joined: existing trials (numbers in the target) that were completed with nodes, threads,
            metrics, tags or metadata.
        present: existing trials (numbers in the target) that were already complete.
        differing: trials (numbers in the target) with other values in the source; the target's
            values are kept.
        others: trials (numbers in the target) and nodes for which the source has another process,
            which is not copied.
        ceilings, derived, kernels: number of copied ceilings, derived metrics, and kernels with
            their code.
        kept: names of derived metrics with another expression in the target, which is kept.
    """

    source: str
    added: list[MovedTrial] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    others: list[tuple[int, int]] = field(default_factory=list)
    ceilings: int = 0
    derived: int = 0
    kernels: int = 0
    kept: list[str] = field(default_factory=list)


def rest(ceilings: int, derived: int, kernels: int) -> list[str]:
    """What was copied besides trials."""
    numbers = ((ceilings, "ceiling"), (derived, "derived metric"), (kernels, "kernel"))
    return [several(number, what) for number, what in numbers if number]
