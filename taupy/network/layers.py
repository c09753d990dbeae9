"""Network layers: the engine's options for them, and how their timers are named."""

from __future__ import annotations

from taupy.network import keras, sklearn, torch

TYPE_CHECKING = False
if TYPE_CHECKING:  # the launcher imports this
    from collections.abc import Iterable, Mapping

    from taupy.model.profile import Timer

GROUP = "LAYER"
"""Groups of the timers of layers, and of their backward passes."""

ESTIMATOR = "ESTIMATOR"
"""Methods of layers that are fitted and then predict, instead of a forward pass."""

BACKWARD = "backward of "
"""Prefix of the names of a backward pass's timers."""

_BACKWARD_GROUP = "PHASE_BACKWARD"
_NODES = "AUTOGRAD"

OF_PROFILER = "nn.Module: "
"""Prefix of the names of torch.profiler for calls of modules: a class, and a number for each."""

AUTOGRAD = "taupy.autograd"
"""Metadata field: how backward passes are divided, `by layer: ...` or `one phase: WHY`."""

BY_LAYER, ONE_PHASE = "by layer: ", "one phase: "

OPERATORS = "taupy.operators"
"""Metadata field: whether shapes and operations of layers are known (`counted: ...`)."""

COUNTED = "counted: "

NOT_KNOWN = "not known: "

OPERATOR_CALLS = "taupy.operator_calls"
"""Metadata field: whether single operators were `recorded: ...`, if that was asked for."""

COLLECTIVES = "taupy.collectives"
"""Metadata field: whether collectives were `recorded: ...`, of a job of several ranks."""

RECORDED, NOT_RECORDED = "recorded: ", "not recorded: "

LACKING = "taupy.health.torch"
"""Metadata field: what a trial lacks for want of a library that is built for PyTorch."""

_FRAMEWORKS = (torch, keras, sklearn)
_FILES = tuple(code.partition(":")[0] for code in torch.LAYERS)


def engine_options() -> dict[str, list[str]]:
    """The engine's options that turn calls of modules into layers."""
    return {
        "layers": [
            f"{framework.LAYER_KIND} {code}"
            for framework in _FRAMEWORKS
            for code in framework.LAYERS
        ]
        + [f"older {code}" for code in torch.OLDER],
        "plumbing": [code for framework in _FRAMEWORKS for code in framework.PLUMBING],
    }


def qualified_name(timer: str) -> str:
    """`encoder.layers.3` of `encoder.layers.3 [Linear]`, a layer's timer."""
    return timer.rpartition(" [")[0]


def layer_of(name: str) -> str:
    """`encoder.layers.3` of `backward of encoder.layers.3`: the layer that the time belongs to."""
    return name.removeprefix(BACKWARD)


def layer_type(timer: str) -> str:
    """`Linear` of `encoder.layers.3 [Linear]`, a layer's timer, or of `nn.Module: Linear_3`."""
    if OF_PROFILER in timer:
        name, _, number = timer.rpartition(OF_PROFILER)[2].rpartition("_")
        return name if number.isdecimal() else f"{name}_{number}"
    return timer.rpartition(" [")[2].removesuffix("]")


def is_layer(groups: str) -> bool:
    """Whether a timer's stored groups, joined by `|`, mark a call or backward pass of a layer."""
    return GROUP in groups.split("|")


def is_call(groups: str) -> bool:
    """Whether they mark a call of a layer."""
    return is_layer(groups) and not is_backward(groups)


def is_backward(groups: str) -> bool:
    """Whether they mark a layer's backward pass."""
    return {GROUP, _BACKWARD_GROUP} <= {*groups.split("|")}


def not_built(version: str) -> str:
    """Why there is no library for a PyTorch, and the remedy."""
    return f"`taupy setup torch` has not been run for PyTorch {version}"


def lacking(timers: Iterable[Timer], facts: Mapping[str, str]) -> str | None:
    """What is not recorded of a program that used PyTorch, and why; None if nothing is missing."""
    groups, has_modules, has_groups = set[str](), False, False
    for timer in timers:
        groups.update(timer.groups if ESTIMATOR not in timer.groups else ())
        has_modules |= timer.name == "import torch" or "torch/nn/" in (timer.file or "")
        has_groups |= timer.name == "init_process_group" and "torch/" in (timer.file or "")
    has_layers = has_modules and GROUP in groups
    has_backward = has_layers and _BACKWARD_GROUP in groups
    causes: dict[str, list[str]] = {}
    for what, field, undone, is_wanted in (
        ("backward passes by layer", AUTOGRAD, ONE_PHASE, has_backward),
        ("shapes, parameters and flop of layers", OPERATORS, NOT_KNOWN, has_layers),
        ("collectives", COLLECTIVES, NOT_RECORDED, has_groups),
    ):
        fact = facts.get(field, "")
        if is_wanted and fact.startswith(undone):
            causes.setdefault(fact.removeprefix(undone), []).append(what)
        elif field == AUTOGRAD and is_wanted and fact and _NODES not in groups:
            causes["the library for it has seen no node of a graph"] = [what]
    lines = [f"{', '.join(what)}: not recorded, since {cause}" for cause, what in causes.items()]
    return "; ".join(lines) or None


def lacks_collectives(remark: str) -> bool:
    """Whether a remark of `lacking` says that `taupy setup torch` would have recorded them."""
    return any(
        "collectives" in line.partition(": not recorded")[0] and not_built("") in line
        for line in remark.split("; ")
    )


def unknown_because(operators: str) -> str:
    """Why shapes and operations are unknown, from the metadata `OPERATORS`; "" if known."""
    if not operators.startswith(NOT_KNOWN):
        return ""
    return f"shapes, parameters and flop are not known: {operators.removeprefix(NOT_KNOWN)}"


def doubt(timers: Iterable[Timer]) -> str | None:
    """Why some or all layers are not distinguished; None if they are, or there are none."""
    layers, calls = [], []
    for timer in timers:
        if is_call("|".join(timer.groups)):
            layers.append(timer.name)
        elif (timer.file or "").endswith(_FILES) and "_call" in timer.name:
            calls.append(timer.name)
    if not layers and calls:
        return (
            f"modules were called by {calls[0]}, which was recorded as a routine: the plain engine"
            " knows no layers, and the compiled one does not know those of this PyTorch"
        )
    if any(name.startswith("(other ") for name in layers):
        return "there are more than 10,000 modules: the others are named for their class"
    others = sorted(name.partition(" (others)")[0] for name in layers if " (others) [" in name)
    if others:
        return f"there are more than 8 models of one class ({', '.join(others)}): the rest are one"
    return None
