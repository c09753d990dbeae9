"""Counters of GPU kernels: the collector's settings, prepared before a run.

Counting is a separate mode (`_native/gpu_counters.c`), in which kernels run one at a time and some
are replayed. Before the program starts, the requested names are translated into metrics of this
machine's chips, which gives the number of passes. `record/gpu_counts.py` reads the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taupy.catalog import spelling
from taupy.collectors.cupti_host import CuptiError, CuptiHost, CuptiUnavailable
from taupy.cuda import driver

SETTINGS = "gpu.counters"
"""The file in the run folder with the collector's settings."""

TIME = "counted_time"


@dataclass(frozen=True, slots=True)
class PreparedGpu:
    """The collector's settings.

    Attributes:
        text: content of the file SETTINGS; "" if nothing can be counted.
        notes: what was left out, and how many passes it takes, one line each.
    """

    text: str
    notes: list[str]


def prepare(
    names: Sequence[str],
    launches: int,
    open_host: Callable[[], CuptiHost] = CuptiHost.open,
    *,
    regions: bool = False,
) -> PreparedGpu:
    """Choose the metrics for counters on the GPUs of this machine.

    Args:
        names: counters: our names or PerfWorks metrics.
        launches: how many launches of each kernel, grid and call path are counted.
        regions: count whole regions instead, if one pass is enough for all counters.
        open_host: set by tests.
    """
    try:
        host = open_host()
        chips = [*gpus_here(host)]
    except (CuptiUnavailable, CuptiError) as problem:
        return PreparedGpu("", [f"{', '.join(names)}: not counted: {problem}"])
    lines: list[str] = []
    notes: list[str] = []
    for chip in chips:
        wanted = spelling.plan([*names, TIME], chip)
        notes += [f"{name}: not counted on {chip}: {why}" for name, why in wanted.missing]
        try:
            with host.chip(chip) as metrics_here:
                metrics = [metric for metric in wanted.metrics if metrics_here.has(metric)]
                passes = metrics_here.passes(metrics)
        except CuptiError as problem:
            notes.append(f"nothing is counted on {chip}: {problem}")
            continue
        absent = [metric for metric in wanted.metrics if metric not in metrics]
        if absent:
            notes.append(f"{chip} does not know {', '.join(absent)} here: left out")
        if not metrics or passes is None:
            continue
        if regions and passes > 1:
            notes.append(
                f"{chip}: {len(metrics)} metrics need {passes} passes, and a region runs once: not "
                "counted; ask for fewer, or count kernels (without --counters-at regions)"
            )
            continue
        lines.append(" ".join(["chip", chip, *metrics]))
        if regions:
            notes.append(f"{chip}: {len(metrics)} metrics in one pass, over whole regions")
            continue
        notes.append(
            f"{chip}: {len(metrics)} metrics in {passes} pass{'es' if passes != 1 else ''}: the "
            f"first {launches} launches of each kernel, grid and call path run "
            f"{'that often' if passes > 1 else 'once'}, one at a time; only these are timed"
        )
    if not lines:
        return PreparedGpu("", [*notes, f"{', '.join(names)}: no GPU here can count them"])
    how = "regions" if regions else f"launches {launches}"
    return PreparedGpu("\n".join([how, *lines]) + "\n", notes)


def gpus_here(host: CuptiHost) -> dict[str, list[int]]:
    """The different chips of this machine -> the ordinals of the GPUs that have each.

    CUPTI answers for GPUs that are not there, too: their chip is "Unknown".

    Raises:
        CuptiError: it has no GPU.
    """
    gpus: dict[str, list[int]] = {}
    for ordinal in range(max(1, driver.device_count())):
        gpus.setdefault(host.device_chip(ordinal), []).append(ordinal)
    return gpus
