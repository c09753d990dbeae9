"""What the runs of a gate measure because a condition asks for it."""

from __future__ import annotations

from collections.abc import Iterable

from taupy.collectors import perf_events, requested
from taupy.errors import UsageError
from taupy.model import expression
from taupy.model.metric import CPU_TIME
from taupy.model.project import project_settings
from taupy.profiledb import derived
from taupy.study import conditions as gate
from taupy.study.conditions import Condition


def options(conditions: Iterable[Condition]) -> list[str]:
    """Options of `taupy run` that measure the metrics of these conditions."""
    names: dict[str, None] = {}
    for condition in conditions:
        if condition.of_event or condition.metric in (*gate.COUNTS, gate.DURATION):
            continue
        if condition.metric == CPU_TIME.name and condition.scope == "total":
            continue  # known without reading a clock at every call
        names |= dict.fromkeys(_measured(condition.metric, set()))
    return [word for name in names for word in ("--metrics", name)]


def _measured(name: str, inside: set[str]) -> list[str]:
    """The metrics to measure for this one; none if `taupy run` has no such metric."""
    if name in inside:
        return []
    legacy = derived.of_legacy_name(name) or name
    definition = derived.project_definitions().get(legacy) or derived.predefined(legacy)
    if definition is not None:
        node = expression.parse(definition.expression)
        inside = {*inside, name}
        return [part for other in expression.names(node) for part in _measured(other, inside)]
    project, gpu = project_settings(), requested.has_gpu()
    try:
        wanted = requested.metrics([name], "--fail-on", project, gpu)
    except UsageError:
        return []  # it may be one that the program states
    if not wanted.cpu or wanted.gpu:
        return [name] if wanted.calls or wanted.gpu else []
    counted = perf_events.prepare(wanted.cpu).metrics
    if not counted and name in ("flop", "bytes"):
        return [requested.ANALYTIC]
    return [name] if counted else []
