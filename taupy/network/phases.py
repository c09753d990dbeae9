"""Kinds of training phases: which timers are phases, from the tables of the frameworks.

A kind is stored with the timer, as the group `PHASE_KIND` (`PHASE_BACKWARD`). Frameworks are
recognised by a timer's name and file only, so timers of other programs do not match.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from taupy.network import KINDS as KINDS
from taupy.network import STEP as STEP
from taupy.network import layers

APART = ("exit", "taupy")
"""Those that steps do not tell: after the program's last line; work of taupy itself."""
_OF_GROUPS = {"IMPORT": "import", "EXIT": "exit", "OVERHEAD": "taupy"}
GROUP = "PHASE_"


@cache
def _routines() -> Mapping[tuple[str, str], str]:
    """The kind of each known routine, by file and name."""
    from taupy.network import huggingface, jax, keras, lightning, torch

    kinds = {}
    for framework in (torch, lightning, huggingface, keras, jax):
        for kind, places in framework.ROUTINES.items():
            for place in places:
                file, _, name = place.partition(":")
                kinds[file, name] = kind
    return kinds


@cache
def _names() -> frozenset[str]:
    return frozenset(name for _, name in _routines())


@cache
def _ranges() -> Mapping[str, str]:
    """The kind of named ranges, by prefix of the name."""
    from taupy.network import torch

    return torch.RANGES


def group_of(name: str, file: str | None, groups: Collection[str]) -> str | None:
    """The group for a timer's kind of phase; None if it is not a known phase.

    Args:
        name: the timer's name, without file and line.
    """
    kind = _kind(name, file, groups)
    return None if kind is None else GROUP + kind.upper()


def _kind(name: str, file: str | None, groups: Collection[str]) -> str | None:
    if "RECORD_FUNCTION" in groups:
        kinds = (kind for begin, kind in _ranges().items() if name.startswith(begin))
        return next(kinds, None)
    if not file or name not in _names():
        return None
    routines, parts = _routines(), file.split("/")
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((routines[end, name] for end in ends if (end, name) in routines), None)


@cache
def kind_of(groups: str) -> str | None:
    """The kind of phase in a timer's stored groups, joined by `|`."""
    named = groups.split("|")
    for group in named:
        if group.startswith(GROUP):
            return group.removeprefix(GROUP).lower()
        if group in _OF_GROUPS:
            return _OF_GROUPS[group]
    return "forward" if layers.GROUP in named and layers.ESTIMATOR not in named else None


def meant(kind: str | None, inside: Collection[str]) -> str | None:
    """The kind under which a phase inside others counts.

    A forward pass in a backward pass is a recomputation; during compilation or
    validation, a forward pass and its loss count as those.
    """
    if kind == "forward" and "backward" in inside:
        return "recompute"
    if kind not in ("forward", "loss"):
        return kind
    return next((outer for outer in ("compile", "validation") if outer in inside), kind)
