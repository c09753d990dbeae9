"""Findings: problems that a trial's profile shows, with advice. One module per rule.

A rule is a module with `KIND`, `NEEDS` (the evidence that must be complete) and `find(trial)`,
which yields findings and abstentions. It knows neither databases nor screens. To add a rule, write
its module and add it to `RULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from taupy.analysis.findings import (
    apart_awaits,
    copies,
    data_wait,
    element_loops,
    empty_queues,
    event_loop,
    growing_history,
    held_locks,
    host_bound,
    idle_gpu,
    imbalance,
    imports,
    kernel_code,
    memory_growth,
    one_busy,
    pickled,
    piecemeal,
    polling,
    recompilation,
    regression,
    same_work,
    stalls,
    step_time,
    synchronisation,
    tensor_cores,
    tiny_kernels,
    whole_searches,
    without_flop,
)
from taupy.analysis.findings.growing_history import UNEXPLAINED
from taupy.analysis.findings.health import partial
from taupy.analysis.findings.limits import least
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple, replace
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Label


class Rule(Protocol):
    """A module of this package."""

    @property
    def KIND(self) -> str: ...
    @property
    def NEEDS(self) -> Sequence[str]: ...
    def find(self, trial: Trial) -> Iterable[Finding | Abstention]: ...


RULES: tuple[Rule, ...] = (
    *(
        data_wait,
        host_bound,
        idle_gpu,
        synchronisation,
        copies,
        tiny_kernels,
        without_flop,
        tensor_cores,
    ),
    kernel_code,
    *(
        imbalance,
        one_busy,
        pickled,
        polling,
        empty_queues,
        event_loop,
        held_locks,
        apart_awaits,
        whole_searches,
        same_work,
        piecemeal,
        element_loops,
        growing_history,
        recompilation,
        stalls,
        imports,
        regression,
    ),
    *(memory_growth, step_time),
)


def _routine(finding: Finding) -> Label:
    """The routine that it is about; None if it is about several."""
    conditions = (part for evidence in finding.evidence for part in evidence.question.where)
    return next((part.labels[0] for part in conditions if part.dimension == "timer"), None)


class Judgement(NamedTuple):
    """All results of the rules for a trial; findings by time saved, then bytes, largest first."""

    findings: list[Finding]
    abstentions: list[Abstention]


def judged(trial: Trial) -> Judgement:
    """Apply every rule; findings that would save too little are omitted."""
    findings: list[Finding] = []
    abstentions: list[Abstention] = []
    for rule in RULES:
        reason = partial(trial, rule.NEEDS)
        if reason:
            abstentions.append(Abstention(rule.KIND, reason))
            continue
        for result in rule.find(trial):
            if isinstance(result, Abstention):
                abstentions.append(result)
                continue
            if result.saved_bytes or result.saved_ns >= least(trial):
                sentence = result.sentence.replace(".<locals>", "")  # as names stand elsewhere
                findings.append(replace(result, sentence=sentence))
    explained = {_routine(result) for result in findings if result.kind != UNEXPLAINED}
    findings = [
        result
        for result in findings
        if result.kind != UNEXPLAINED or _routine(result) not in explained
    ]
    findings.sort(
        key=lambda result: (-result.saved_ns, -result.saved_bytes, result.kind, result.sentence)
    )
    return Judgement(findings, abstentions)
