"""Resident memory grows through the whole run: something is kept and never given back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from taupy.analysis.findings.calls import place
from taupy.analysis.findings.trial import Moment, Trial
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import GROWTH, RELEASED
from taupy.units import count, duration, size

KIND = "memory growth"
NEEDS = ("host",)

LEAST_BYTES = 128 * 1024 * 1024
"""Data and libraries of a program of any size take as much; less does no harm."""

PARTS = 5
"""Of the run. Memory has to grow in all but the first, in which programs load their data, by half
of its growth's even share: growth that ends is a working set, and no leak."""

LEAST_LOOKS = PARTS + 1
"""Of the watch, one in 100 ms: one for each part's end, and the first."""

LATEST = 0.75
"""Of the run, at which memory is largest: what is given back before the end is no leak."""

LEAST_CALLS = 10
"""Of the routine in which memory grew: one that is called less often builds a result."""

_KIB = 1024


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    looks = _up_to_largest(trial)
    if not trial.memory:
        yield Abstention(KIND, "the trial has no memory over time: it was run without a watch")
        return
    if len(looks) < LEAST_LOOKS or not _is_steady(looks):
        return
    kept = _kept(trial)
    timer = max(kept, key=kept.__getitem__, default=None)
    if timer is None or kept[timer] < LEAST_BYTES:
        return
    calls = sum(trial.calls.calls[row] for row in trial.calls.rows_of(timer))
    if calls < LEAST_CALLS:
        return
    where = (Condition("event", (GROWTH, RELEASED)),)
    yield Finding(
        KIND,
        f"{place(timer)} keeps {size(kept[timer])} in {count(int(calls))} calls; resident memory "
        f"grows through the whole run, from {size(looks[0].mean)} to {size(looks[-1].mean)} in "
        f"{duration(looks[-1].end_ns - looks[0].end_ns)}",
        0,
        trial.wall_ns,
        (trial.evidence(("timer", "event"), where, ("event.total", "event.count"), ()),),
        "low",
        "look for what it keeps: caches without a limit (functools.lru_cache(maxsize=...)), lists "
        "of tensors with their graphs (.detach(), .item()), callbacks",
        "all of it is the program's result, and the run is as long as it gets",
        saved_bytes=int(kept[timer]),
    )


def _up_to_largest(trial: Trial) -> Sequence[Moment]:
    """Without the looks at a process that ends; none if it has given back before."""
    memory = trial.memory
    largest = max(range(len(memory)), key=lambda at: memory[at].mean, default=0)
    late = memory and memory[largest].end_ns >= LATEST * trial.wall_ns
    return memory[: largest + 1] if late else ()


def _is_steady(looks: Sequence[Moment]) -> bool:
    """Does memory grow in each part of the run but the first?"""
    ends = [looks[(len(looks) - 1) * part // PARTS].mean for part in range(1, PARTS + 1)]
    growth = ends[-1] - ends[0]
    share = growth / (PARTS - 1)
    return growth >= LEAST_BYTES and all(
        after - before >= share / 2 for before, after in pairwise(ends)
    )


def _kept(trial: Trial) -> dict[TimerRow, float]:
    """Each routine's own growth less what it gave back [bytes]."""
    where = (Condition("event", (GROWTH, RELEASED)),)
    question = Question(
        (trial.id,), (), ("timer", "event"), where, values=("event.total",)
    )  # fmt: skip
    table = trial.ask(question)
    kept: dict[TimerRow, float] = {}
    for timer, event, total in zip(
        table.row_labels("timer"), table.row_labels("event"), table.column("event.total"),
        strict=True,
    ):  # fmt: skip
        if timer is not None:
            sign = 1 if event.name == GROWTH else -1
            kept[timer] = kept.get(timer, 0.0) + sign * (total or 0) * _KIB
    return kept
