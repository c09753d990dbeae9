"""How the metrics of `--metrics` are counted: by the CPU, on GPUs, or from shapes."""

from __future__ import annotations

from taupy.collectors import requested
from taupy.commands import run_gpu
from taupy.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.commands.run_plan import Plan


def count(plan: Plan) -> None:
    """Decide how to count the metrics of `--metrics`, and add that to the plan."""
    names, source = requested.listed(plan.args.metrics, plan.project)
    if not names:
        return
    wanted = requested.metrics(names, source, plan.project, requested.has_gpu())
    plan.notes += wanted.notes
    plan.metadata["taupy.option.metrics"] = ", ".join(names)
    plan.options["metrics"] = [*dict.fromkeys([*plan.options["metrics"], *wanted.calls])]
    if wanted.gpu:
        run_gpu.count(plan, wanted.gpu)
    if wanted.cpu and not plan.is_native:
        plan.notes.append(f"{', '.join(wanted.cpu)}: counters need the compiled engine")
    elif wanted.cpu:
        prepared = _prepared(plan, wanted.cpu)
        if wanted.analytic == "fallback" and "flop" in dict(prepared.metrics):
            return
    if wanted.analytic and plan.args.target[:2] != ["-m", "taupy.count"]:  # it counts by itself
        _tell_operations(plan)


def _prepared(plan: Plan, names: list[str]) -> Any:
    """The counters of the CPU that are read in this run."""
    from taupy.collectors import perf_events

    room = perf_events.METRICS_AT_MOST - len(plan.options["metrics"])
    at: Any = plan.args.counters_at or plan.project.get("counters_at") or "auto"
    if at not in ("auto", "calls", "regions"):
        raise UsageError(
            f"`counters_at` of [tool.taupy] in pyproject.toml is auto, calls or regions, not {at!r}"
        )
    prepared = perf_events.prepare(names, at, room=room)
    plan.notes += prepared.notes
    plan.metadata.update(prepared.facts)
    plan.options.update(prepared.engine_options())
    return prepared


def _tell_operations(plan: Plan) -> None:
    """Settings for operations and bytes of BLAS calls, derived from their shapes."""
    library = requested.blas_library() if plan.is_native else None
    if library is None:
        plan.notes.append(
            "analytic: counting BLAS calls needs taupy's compiled library, which is missing"
        )
        return
    plan.options["blas"] = library
    plan.metadata["taupy.option.analytic"] = "BLAS"
    plan.notes.append(
        "analytic: flop and bytes are derived from the shapes of BLAS calls (matrix products, "
        "dot products); element-wise operations and convolutions are not counted"
    )
