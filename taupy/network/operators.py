"""Operators: what a framework calls `aten::mm`, between the program's routines and its kernels.

They are timers of a group of their own. GPU work belongs to the nearest one above it. Kernels have
other names on each GPU, operators have not.
"""

from __future__ import annotations

import re

from taupy.model.gpu import NO_OWNER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.model.rows import TimerRow

GROUP = "OPERATOR"
"""Group of the timers of operators."""

GRAPH = "(CUDA graph)"
"""In place of the operator, of work of a graph whose capture was not recorded."""

NONE = "(no operator)"

NOT_OPERATORS = (NONE, GRAPH, NO_OWNER)
"""The labels of what has no operator."""

_NODE = re.compile(r"(autograd::engine::evaluate_function: )?(torch::autograd::)?")

_GRAPH_LAUNCH = re.compile(r"(cuda|cu|hip)GraphLaunch")


def nearest(above: str | None, timer: TimerRow) -> str | None:
    """The operator of a call path.

    Args:
        above: that of its caller.
    """
    groups = timer.groups.split("|")
    if GROUP in groups:
        return timer.short_name
    return _without(timer, groups) if above is None else above


def outermost(above: str | None, timer: TimerRow) -> str | None:
    """The first operator on the way from the root to a call path; as `nearest`."""
    if above is not None and above not in NOT_OPERATORS:
        return above
    return nearest(above, timer)


def plain_name(operator: str) -> str:
    """A node of a backward pass as taupy records it, also if torch.profiler did:
    `AccumulateGrad` for `autograd::engine::evaluate_function: torch::autograd::AccumulateGrad`."""
    return _NODE.sub("", operator, count=1)


def is_graph_launch(call: str) -> bool:
    """Whether a call of CUDA or HIP launches a graph."""
    return _GRAPH_LAUNCH.match(call) is not None


def _without(timer: TimerRow, groups: list[str]) -> str | None:
    if "GPU_NO_OWNER" in groups:
        return NO_OWNER
    if "GPU_GRAPH" in groups or ("CUDA_API" in groups and is_graph_launch(timer.short_name)):
        return GRAPH
    return None
