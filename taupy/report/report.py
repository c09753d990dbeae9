"""The answer of `taupy report`: what ran, the health of the measurement, places, findings.

Terminals (`screen.py`), programs (`document.py`) and pages show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taupy.analysis.division import Division, division
from taupy.analysis.findings import Judgement, judged
from taupy.analysis.findings.health import remarks
from taupy.analysis.findings.trial import Trial
from taupy.analysis.gpu_conclusion import sentences
from taupy.analysis.trees import Tree
from taupy.answers import places
from taupy.answers.answer import module
from taupy.answers.lines import Lines
from taupy.answers.places import GroupPlaces
from taupy.dataclass import dataclass, field, replace
from taupy.model import command_line
from taupy.model.finding import Finding
from taupy.model.job import is_rank
from taupy.model.question import Question
from taupy.model.rows import ThreadRow, TrialRow
from taupy.model.sampled import STATES
from taupy.model.table import Table
from taupy.model.thread_groups import MAIN
from taupy.network import phase_sums
from taupy.pprof.view import View
from taupy.profiledb import gpu_query, query
from taupy.profiledb.database import ProfileDB
from taupy.record.compiled_modules import COMPILED
from taupy.report.evidence import trial_of
from taupy.report.lanes import Lanes, lanes
from taupy.report.strip import Band, strip
from taupy.units import duration, several


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of phase on the thread shown; times add up to the thread's."""

    kind: str
    ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one trial.

    Attributes:
        command: without the interpreter's path; "" if unknown.
        remarks: the trial's remarks on its own measurement, by name.
        unmeasured: what was not measured, with the option that measures it.
        compiled: imported packages some of whose modules were compiled from Python to C.
        thread: whose phases are shown: the main thread of the first process.
        steps: number of training steps; 0 if none are known.
        places: where the time went in the program's own code.
        ranks: of a job of several, which one the others waited for and why; as `taupy ranks` says.
        lanes: what each rank, worker process and further thread did.
        selector: how commands name the trial.
        database: what commands need to find it, such as ` --db FILE`; "" for the default one.
        cpu_ns: CPU time of each of the host's threads for which it was measured.
        runnable_ns: how long that thread waited for a processor that waited longest, if for more
            than a tenth of its time; sampled.
        gpu_times: for each GPU with a trace, why it did not compute all the time, and what to do.
        autotuning: what the kernels took that XLA tried while it compiled; "" for nothing.
        gpu_ns: time of all GPUs' kernels and copies, added up.
        gpu_busy_ns: how long each GPU worked, added up over GPUs: what overlaps counts once. Where
            that is not known, the kernels and copies of a GPU, added up.
        strip: the main thread's time by phase of a training, or else by kind.
        with_c: whether C functions were recorded.
        rest_ns: elapsed time without the main thread's imports and exit.
        step_ns: the median and the longest time of a training's steps; None if unknown.
        division: the calls that the main thread consists of, such as its phases or tests; None if
            it is all in one place.
    """

    trial: TrialRow
    command: str
    gpus: tuple[str, ...]
    threads: int
    processes: int
    remarks: Mapping[str, str]
    unmeasured: tuple[str, ...]
    thread: ThreadRow | None
    phases: tuple[Phase, ...]
    steps: int
    judgement: Judgement
    places: Sequence[GroupPlaces] = ()
    ranks: Sequence[str] = ()
    lanes: Sequence[Lanes] = ()
    selector: str = ""
    database: str = ""
    cpu_ns: Mapping[ThreadRow, float] = field(default_factory=dict)
    runnable_ns: float = 0.0
    gpu_times: Sequence[tuple[str, str]] = ()
    autotuning: str = ""
    gpu_ns: float = 0.0
    gpu_busy_ns: float = 0.0
    strip: Sequence[Band] = ()
    with_c: bool = False
    rest_ns: float = 0.0
    step_ns: tuple[float, float] | None = None
    division: Division | None = None
    compiled: Sequence[str] = ()

    @property
    def typed(self) -> str:
        """The command as one types it, or where the trial comes from."""
        if self.is_capture:
            format_, _, path = self.trial.source.partition(": ")
            return f"{path.rpartition('/')[2]} ({format_})"
        if not self.command:
            return self.trial.source
        is_whole = self.command == NOTEBOOK or self.command.startswith("taupy")
        return self.command if is_whole else f"python {self.command}"

    @property
    def steps_in_words(self) -> str:
        words = several(self.steps, "step")
        if self.step_ns is None:
            return words
        median, slowest = self.step_ns
        return f"{words}, median {duration(median)}, slowest {duration(slowest)}"

    @property
    def is_capture(self) -> bool:
        """Whether it is no exact run: calls may be unknown."""
        return self.trial.is_capture

    def share_of_rest(self, finding: Finding) -> float | None:
        """What a finding could save of the time without imports and exit; None if these take so
        little that it would say nothing new."""
        if not self.trial.duration_ns * _MUCH >= self.rest_ns > 0:
            return None
        return min(1.0, finding.saved_ns / self.rest_ns)


NOTEBOOK = "notebook"
"""The command of a trial of a notebook, which nobody has typed."""
LATE = "taupy.late"
"""Metadata of a trial of a piece of a program, whose engine was started for it."""

_MUCH = 0.95
"""Share of the run without imports and exit from which on a second share says nothing new."""
_BUSY = 0.1
"""Share of a thread's time that it waits for a processor, beyond which the machine is busy."""


def report(
    db: ProfileDB,
    trial: TrialRow,
    selector: str = "",
    database: str = "",
    of_threads: Table | None = None,
) -> Report:
    """The report on one trial.

    Args:
        selector: how commands name it; its id if that is empty.
        database: what commands need to find it, such as ` --db FILE`.
        of_threads: the answer to `trees`, if it is known already.
    """
    selector = selector or str(trial.id)
    of_findings = replace(trial_of(db, trial, of_threads), selector=f"{selector}{database}")
    threads = of_findings.calls.threads
    first = min(threads, default=None)
    kinds, steps = _phases(of_findings, first)
    calls = of_findings.calls
    tree, facts = Tree.of(calls.table, calls.parent), query.node_facts(db, trial.id)
    lines = Lines.of_trial(db, trial.id, facts, of_findings.paths)
    seen = places.seen_in(db, trial.id, calls.table, tree, lines)
    groups = places.of_tree(tree, facts, of_findings.paths, lines, seen)
    with_c = of_findings.metadata.get("taupy.option.c_calls") == "True"
    gpu_ns, gpu_busy_ns = _gpu_ns(of_findings)
    of_ranks = _ranks(db, trial.id, of_findings.nodes)
    return Report(
        trial,
        command=command_line.program(of_findings.metadata.get("Command Line", "")),
        gpus=_gpus(of_findings),
        threads=sum(thread.threads for thread in threads),
        processes=len({thread.node for thread in threads}),
        remarks=remarks(of_findings.metadata),
        unmeasured=() if of_findings.is_capture else tuple(_unmeasured(of_findings, with_c)),
        thread=first,
        phases=kinds,
        steps=steps,
        judgement=judged(of_findings),
        places=groups,
        ranks=() if of_ranks is None else of_ranks.notes,
        lanes=lanes(tree, facts, of_findings.paths, of_ranks, seen, with_c=with_c),
        selector=selector,
        database=database,
        cpu_ns=of_findings.cpu_ns,
        runnable_ns=_runnable_ns(of_findings),
        gpu_times=_gpu_times(of_findings),
        autotuning=gpu_query.autotuning(db, trial.id),
        gpu_ns=gpu_ns,
        gpu_busy_ns=gpu_busy_ns,
        strip=strip({phase.kind: phase.ns for phase in kinds}, groups, with_c=with_c),
        with_c=with_c,
        rest_ns=_rest_ns(trial, groups),
        step_ns=_step_ns(of_findings),
        division=None if first is None else division(calls, first),
        compiled=of_findings.metadata.get(COMPILED, "").split(),
    )


def _gpu_ns(trial: Trial) -> tuple[float, float]:
    """The time of all GPUs' kernels and copies, and how long the GPUs were busy."""
    question = Question((trial.id,), by=("kind", "device"), values=("exclusive",))
    table = trial.ask(question)
    rows = zip(*map(table.row_labels, ("kind", "device")), table.column("exclusive", "time"),
               strict=True)  # fmt: skip
    whole: dict[Any, float] = {}
    for kind, device, ns in rows:
        if kind != "host":
            whole[device] = whole.get(device, 0.0) + float(ns or 0)
    union = trial.union_ns() if whole else {}
    busy = (min(ns, union.get(device, ns)) for device, ns in whole.items())
    return sum(whole.values()), sum(busy)


def _step_ns(trial: Trial) -> tuple[float, float] | None:
    """Of the first training's steps."""
    for _, of in trial.steps:
        if of.kind == "training" and len(of):
            times = sorted(ns / n for ns, n in zip(of.time_ns, of.count, strict=True) if n)
            return times[len(times) // 2], max(of.longest_ns)
    return None


def _rest_ns(trial: TrialRow, groups: Sequence[GroupPlaces]) -> float:
    apart = (
        place.ns
        for group in groups
        if group.group == MAIN
        for place in group.places.apart
        if place.kind in ("imports", "exit")
    )
    return max(0.0, trial.duration_ns - sum(apart))


def _runnable_ns(trial: Trial) -> float:
    """How long the thread waited for a processor that waited longest; 0 if none waited for more
    than a tenth of its time."""
    waits = (trial.seen_ns(thread) for thread in trial.states)
    return max(
        (seen[STATES[1]] for seen in waits
         if seen.get(STATES[1], 0) > _BUSY * sum(seen.values())),
        default=0.0,
    )  # fmt: skip


def _gpu_times(trial: Trial) -> list[tuple[str, str]]:
    """Two sentences on each GPU, on the one that computes the smallest share of its time first."""
    times = sorted(
        trial.gpu_times().items(), key=lambda pair: pair[1].compute_ns / max(1, pair[1].span_ns)
    )
    return [sentences(trial.gpu_name(gpu), time) for gpu, time in times]


def _ranks(db: ProfileDB, trial: int, facts: Mapping[int, Mapping[str, str]]) -> View | None:
    """What `taupy ranks` says about a job of several ranks."""
    if sum(is_rank(node, mine) for node, mine in facts.items()) < 2:
        return None
    of_job: View | None = module("ranks").of_job(db, trial)
    return of_job


def _phases(trial: Trial, thread: ThreadRow | None) -> tuple[tuple[Phase, ...], int]:
    if thread is None:
        return (), 0
    calls = trial.calls
    table = calls.table
    if len(calls.threads) > 1:
        table = table.taken([row for row, other in enumerate(calls.thread) if other == thread])
    sums, steps = phase_sums.by_kind(table)
    whole = sum(kind_sum.time for kind_sum in sums.values())
    shown = (
        Phase(kind, of_kind.time, of_kind.time / whole if whole else 0.0)
        for kind, of_kind in sums.items()
    )
    return tuple(shown), steps


def _gpus(trial: Trial) -> tuple[str, ...]:
    """The models of the trial's GPUs; also those known by their work only."""
    names = tuple(device.name for device in trial.devices)
    if any(names):
        return names
    kinds = trial.ask(Question((trial.id,), by=("kind",))).row_labels("kind")
    return ("GPU of unknown model",) if {*kinds} - {"host"} else ()


def _unmeasured(trial: Trial, with_c: bool) -> list[str]:
    """What was not measured, each with the option that measures it."""
    if trial.metadata.get("taupy.engine") == "python":
        return ["what the plain-Python engine leaves out (taupy trials show)"]
    if LATE in trial.metadata:
        return ["threads that ran before it, GPU, lines, counters (taupy run FILE has them)"]
    unmeasured = []
    if not _gpus(trial):
        unmeasured.append("GPU (none was used, or see taupy doctor)")
    if set(trial.metrics) <= {"time"}:
        unmeasured.append("counters (--metrics)")
    if not with_c:
        unmeasured.append("C functions (--c-calls)")
    if packages := trial.metadata.get(COMPILED, "").split():
        names = " and ".join(packages)
        unmeasured.append(f"compiled modules of {names} (their time is their callers')")
    return unmeasured
