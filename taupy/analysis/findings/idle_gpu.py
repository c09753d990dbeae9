"""Rule: a GPU does not compute, for a reason that its trace tells and that no other rule judges.

Needs a trace: of sums, nobody can say why a GPU was idle. The rules on the host, its waits for the
GPU and its data come first: they judge the loop that launches, and say where the fault is.
"""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings import data_wait, host_bound, synchronisation, tiny_kernels
from taupy.analysis.findings.limits import least
from taupy.analysis.findings.trial import Trial
from taupy.analysis.gpu_conclusion import LEAST, WITHOUT_WORK, Loss, lost
from taupy.model.finding import Abstention, Finding
from taupy.model.gpu_time import OUTSIDE
from taupy.units import duration, percent

KIND = "idle GPU"
NEEDS = ("gpu", "clock")

_SAID = {
    "the host": "is idle because the host launches too slowly",
    "synchronisation": "is idle after the host has waited for it",
    "data loading": "is idle while the host loads data",
    "communication": "only communicates",
    "copies": "only copies",
    "memory allocation": "is idle while memory is allocated or freed",
    "loading code": "is idle while code is loaded, or while a launch takes more than 1 ms",
    "gaps between queued kernels": "is idle between kernels that are queued already",
    "queued work that started late": "is idle although work is queued, and no event explains it",
    "waits for another GPU": "waits for work of another GPU",
    WITHOUT_WORK: "has no work before its first and after its last",
}

_FIRST = {
    "the host": (host_bound, tiny_kernels),
    "synchronisation": (synchronisation,),
    "data loading": (data_wait,),
    WITHOUT_WORK: (data_wait, host_bound),
}


def _is_judged(trial: Trial, name: str) -> bool:
    """Whether another rule finds this fault."""
    return any(
        isinstance(finding, Finding) and finding.saved_ns >= least(trial)
        for rule in _FIRST.get(name, ())
        for finding in rule.find(trial)
    )


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    largest: dict[str, tuple[float, tuple[int, int], Loss]] = {}
    for gpu, time in trial.gpu_times().items():
        if time.unproven_ns >= LEAST * time.span_ns:
            yield Abstention(
                KIND,
                "it may have worked for another process: trace all of them, or a longer time",
                fact=f"{trial.gpu_name(gpu)} waited {duration(time.unproven_ns)} for {OUTSIDE}",
            )
        for loss in lost(time):
            if loss.name in _SAID and loss.share(time) >= LEAST:
                others = largest.get(loss.name, (0.0, gpu, loss))
                largest[loss.name] = max(others, (loss.ns, gpu, loss))
    for name, (ns, gpu, loss) in largest.items():
        if _is_judged(trial, name):
            continue
        whole = loss.step or "the time from its first work to its last"
        place = f", most of it in {loss.place}" if loss.place else ""
        yield Finding(
            KIND,
            f"{trial.gpu_name(gpu)} {_SAID[name]} for {duration(ns)}, "
            f"{percent(100 * loss.share(trial.gpu_times()[gpu]))} % of {whole}{place}",
            saved_ns=ns,
            wall_ns=trial.wall_ns,
            evidence=(
                trial.evidence(("device", "timer"), (), ("launch.time", "launch.count"), ()),
            ),
            confidence="high",
            attempt="",
            refuted_by="a longer trace, in which this time is a smaller share",
        )
