"""The main thread's time by kind of work: what a strip is drawn from, on screens and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taupy.answers.own_code import kinds, words
from taupy.answers.places import GroupPlaces
from taupy.dataclass import NamedTuple
from taupy.model.thread_groups import MAIN
from taupy.network.phase_sums import NO_PHASE

NO_TRAINING = frozenset({"import", "exit", NO_PHASE})
"""Phases that programs without a training have, too."""

_OF_PHASES: Mapping[str, str] = {
    "import": "import", "data": "data", "forward": "forward", "loss": "forward",
    "backward": "backward", "recompute": "backward", "optimizer": "optimizer",
    "scaling": "optimizer", "communication": "wait", "checkpoint": "checkpoint",
    "validation": "layer", "compile": "lib", "exit": "exit",
}  # fmt: skip
_NAMES: Mapping[str, str] = {
    "import": "imports", "data": "data wait", NO_PHASE: "outside of phases",
}  # fmt: skip


class Band(NamedTuple):
    """Attributes:
    kind: its colour, by the names of `static/page.css`.
    """

    kind: str
    name: str
    ns: float


def kind_of_phase(phase: str) -> str:
    """The colour of a phase."""
    return _OF_PHASES.get(phase, "rest")


def strip(
    phases: Mapping[str, float], groups: Sequence[GroupPlaces], *, with_c: bool
) -> list[Band]:
    """A training's time by phase, another program's by kind; without what takes no time.

    Args:
        phases: their times [ns].
        with_c: whether C functions were recorded. Otherwise they are in the program's own time.
    """
    timed = {phase: ns for phase, ns in phases.items() if ns > 0}
    if not timed.keys() <= NO_TRAINING:
        return [Band(kind_of_phase(name), _NAMES.get(name, name), ns) for name, ns in timed.items()]
    asleep = any(group.places.asleep for group in groups if group.group == MAIN)
    names = words(asleep=asleep, with_c=with_c)
    return [Band(kind, names[kind], ns) for kind, ns in kinds(groups).items()]
