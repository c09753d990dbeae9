"""Counters of GPU kernels: what the collector is told before a run.

Counting is a mode of its own beside the timed run (`_native/gpu_counters.c`): kernels run one
at a time, some of them several times over. Before the program starts, the names asked for are
spelled for the chips of this machine, and the number of passes is known. `record/gpu_counts.py`
reads what the collector brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taupy.catalog import spelling
from taupy.collectors.cupti_host import CuptiError, CuptiHost, CuptiUnavailable

SETTINGS = "gpu.counters"
"""The file in the run folder that tells the collector what to count."""

TIME = "counted_time"
_DEVICES_AT_MOST = 64


@dataclass(frozen=True, slots=True)
class PreparedGpu:
    """What the collector is told.

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
    """Spell counters for the GPUs of this machine.

    Args:
        names: counters, ours or PerfWorks metrics.
        launches: how many of each kernel, grid and call path are counted.
        regions: count whole regions instead, where one pass is enough for all.
        open_host: given by tests.
    """
    try:
        host = open_host()
        chips = chips_here(host)
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
            f"{'that often' if passes > 1 else 'once'}, one at a time"
        )
    if not lines:
        return PreparedGpu("", [*notes, f"{', '.join(names)}: no GPU here can count them"])
    how = "regions" if regions else f"launches {launches}"
    return PreparedGpu("\n".join([how, *lines]) + "\n", notes)


def chips_here(host: CuptiHost) -> list[str]:
    """The chips of this machine, each once.

    Raises:
        CuptiError: there is none.
    """
    chips = [host.device_chip(0)]
    for ordinal in range(1, _DEVICES_AT_MOST):
        try:
            chips.append(host.device_chip(ordinal))
        except CuptiError:
            break
    return list(dict.fromkeys(chips))
