"""Plan what is sampled on the GPUs of this machine, before a run.

`prepare` translates the requested names and rejects those that do not fit into one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from taupy import units
from taupy.catalog import timeline
from taupy.collectors.cupti_counters import gpus_here
from taupy.collectors.cupti_host import PM_SAMPLING, CuptiError, CuptiHost, CuptiUnavailable
from taupy.collectors.cupti_sampling import availability, problem_of
from taupy.errors import TaupyError
from taupy.state import values


@dataclass(frozen=True, slots=True)
class Prepared:
    """The sampler's instructions.

    Attributes:
        settings: content of the file SETTINGS; empty if nothing can be sampled.
        notes: what was left out, one line each.
        announced: what is sampled, one line for each chip.
    """

    settings: bytes
    notes: list[str]
    announced: list[str] = field(default_factory=list)


def prepare(
    names: Sequence[str],
    interval_ns: int,
    optional: Collection[str] = (),
    open_host: Callable[[], CuptiHost] = CuptiHost.open,
) -> Prepared:
    """Choose the metrics for channels on the GPUs of this machine.

    Args:
        names: as returned by `timeline.names_of`.
        optional: names that a chip may lack without a note.
        open_host: set by tests.

    Raises:
        TaupyError: they need more than one pass; the message says which fit.
    """
    try:
        host = open_host()
        if not host.can_sample:
            raise CuptiUnavailable(
                f"CUPTI {host.version_text} ({host.path}) cannot sample; that of CUDA 12.6 and "
                "later can"
            )
        gpus = gpus_here(host)
    except (CuptiUnavailable, CuptiError) as problem:
        return Prepared(b"", [f"GPUs are not sampled: {problem}"])
    plans: dict[str, Any] = {}
    notes: list[str] = []
    announced: list[str] = []
    for chip, ordinals in gpus.items():
        try:
            plan = planned(host, chip, names, [availability(host, gpu) for gpu in ordinals])
        except CuptiError as problem:
            notes.append(f"{chip} is not sampled: {_refused(chip, problem)}")
            continue
        if missing := [missed for missed in plan.missing if missed[0] not in optional]:
            notes.append(f"{chip}: not sampled: " + _listed(missing))
        if plan.channels:
            plans[chip] = (list(plan.metrics), [tuple(channel) for channel in plan.channels])
            number, every = len(plan.channels), units.duration(interval_ns)
            what = "1 value is" if number == 1 else f"{number} values are"
            announced.append(
                f"{chip}: {what} sampled every {every}, on the whole GPU; its clocks may be "
                "locked in the meantime"
            )
    if not plans:
        return Prepared(b"", [*notes, "no GPU here can sample any of this"])
    content = {"interval_ns": interval_ns, "chips": _plain(plans)}
    return Prepared(values.dumps(content), notes, announced)


def planned(
    host: CuptiHost, chip: str, names: Iterable[str], available: Sequence[Any] = (None,)
) -> timeline.Plan:
    """What is sampled on a chip, in one pass.

    Args:
        available: CUPTI's images of what each GPU with this chip can count now. A GPU without
            NVLink cannot count its bytes: to ask for them gives no samples at all.

    Raises:
        TaupyError: more passes are needed; the message says which names fit into one.
        CuptiError: the chip cannot sample, or is unknown.
    """
    with ExitStack() as gpus:
        of_gpus = [gpus.enter_context(host.chip(chip, PM_SAMPLING, image)) for image in available]
        chip_metrics = of_gpus[0]
        alone: dict[str, bool] = {}

        def can_sample(metric: str) -> bool:
            if metric not in alone:
                alone[metric] = all(gpu.passes([metric]) == 1 for gpu in of_gpus)
            return alone[metric]

        plan = timeline.plan(names, chip, can_sample)
        passes = chip_metrics.passes(plan.metrics) if plan.metrics else 1
        if passes == 1:
            return plan
        fit = set(timeline.fitting(plan.metrics, chip_metrics.passes))
    fitting = [
        channel.name for channel in plan.channels if {t.metric for t in channel.terms} <= fit
    ]
    others = [channel.name for channel in plan.channels if channel.name not in fitting]
    raise TaupyError(
        f"{chip} samples in one pass only, and these take {passes or 'more'}: together fit "
        f"{', '.join(fitting)}; leave out {', '.join(others)}"
    )


def _refused(chip: str, problem: CuptiError) -> str:
    if problem.code == 27:
        return "Turing and later can be (compute capability 7.5)"
    return problem_of(chip, problem)


def _listed(missing: Iterable[tuple[str, str]]) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in missing:
        reasons.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def _plain(plans: dict[str, Any]) -> dict[str, Any]:
    """The plans as plain tuples, for a record."""
    return {
        chip: (
            metrics,
            [(name, unit, [tuple(term) for term in terms], rate)
             for name, unit, terms, rate in channels],
        )
        for chip, (metrics, channels) in plans.items()
    }  # fmt: skip
