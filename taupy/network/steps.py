"""Training steps: the options by which the engine recognises them."""

from __future__ import annotations

from taupy.network import KINDS, STEP, huggingface, jax, keras, lightning, loggers, torch

TYPE_CHECKING = False
if TYPE_CHECKING:  # the launcher imports this
    from collections.abc import Iterable

    from taupy.model.profile import Steps, Timer

WINDOW = "taupy.steps"
"""Metadata: the steps in which details were recorded, `100:120`, both included, or `100:`."""

TOKENS = "taupy.tokens"
"""Metadata field: which argument of which class of models has the tokens that were counted."""

UNSEEN = "taupy.health.steps_window"
"""Metadata field: the steps without details in a trial with such a window."""

BRIEF = "STEP"
"""Group of the timer of steps outside of the window."""

FRAMEWORKS = (torch, lightning, huggingface, keras, jax, loggers)

_ROLES = {
    "phase": 0,
    "fetch": 1,
    "backward": 2,
    "update": 3,
    "begin": 4,
    "begin_validation": 4,
    "end": 5,
    "end_validation": 5,
    "value": 6,
    "value_no_tensor": 6,
    "values": 7,
    "values_epoch": 7,
    "samples": 8,
    "worker": 9,
    "groups": 10,
    "fetch_ahead": 12,
    "jit": 11,
    "jit_again": 11,
    "rate": 13,
    "pair": 14,
}
"""As in `_native/known.h`."""

_PHASE_OF = {"fetch": "data", "fetch_ahead": "data", "backward": "backward", "update": "optimizer"}
"""Role -> kind of phase, for routines that are in no table of phases."""


def engine_options() -> dict[str, list[str]]:
    """Options of the engine by which steps and their phases are recognised."""
    kinds = {
        place: kind
        for framework in FRAMEWORKS
        for kind, places in getattr(framework, "ROUTINES", {}).items()
        for place in places
        if place not in getattr(framework, "LAYERS", ())
    }
    roles = {
        place: (role, variables)
        for framework in FRAMEWORKS
        for role, places in framework.STEPS.items()
        for place, variables in places.items()
    }
    return {
        "known": [
            _line(place, *roles.get(place, ("phase", ())), kinds.get(place))
            for place in {**kinds, **roles}
        ]
    }


def _line(place: str, role: str, variables: tuple[int, ...], phase: str | None) -> str:
    first, second = (*variables, -1, -1)[:2]
    kind = int(role.endswith(("_validation", "_again", "_epoch", "_no_tensor")))
    if role == "phase" or role in _PHASE_OF:
        kind = KINDS.index(phase or _PHASE_OF[role])
    return f"{_ROLES[role]} {kind} {first} {second} {place}"


def window_options(window: str) -> dict[str, int]:
    """Options of the engine by which details are recorded in the steps of `WINDOW` only."""
    first, _, last = window.partition(":")
    return {"steps_first": int(first), **({"steps_last": int(last)} if last else {})}


def unseen(window: str | None, trainings: Iterable[Steps]) -> str | None:
    """Which steps lack details, by the metadata `WINDOW`; None if all were recorded entirely.

    Args:
        trainings: its series of steps.
    """
    if window is None:
        return None
    first, _, last = window.partition(":")
    count = max((sum(steps.count) for steps in trainings if steps.kind == "training"), default=0)
    if count < int(first):
        return (
            f"no step of --steps {window} was reached, so no details were recorded: the longest "
            f"training had {count}"
        )
    which = f"{first} to {last}" if last else f"from {first} on"
    return f"details were recorded in the steps {which} only: of others, steps and phases alone"


def doubt(timers: Iterable[Timer]) -> str | None:
    """Why a trial has no steps although an optimizer has stepped; None if none has."""
    if not any(timer.name.startswith(STEP) and timer.file is None for timer in timers):
        return None
    return (
        "an optimizer of PyTorch stepped, but no steps were recorded: the engine may not know the "
        "routines of this version of PyTorch"
    )
