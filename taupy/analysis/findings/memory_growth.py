"""Rule: resident memory grows through the whole run, so something is never freed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from taupy.analysis.findings.calls import phase, place
from taupy.analysis.findings.trial import Moment, Trial
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import GROWTH, RELEASED
from taupy.units import count, duration, size

KIND = "memory growth"
NEEDS = ("host",)

LEAST_BYTES = 128 * 1024 * 1024
"""Minimum growth: the data and libraries of any larger program take as much; less does no harm."""

PARTS = 5
"""Number of equal parts into which the run after its imports is divided. Memory must grow in all
but the first, in which programs load their data, by at least half of the mean growth: growth that
ends is a working set, not a leak."""

LEAST_LOOKS = PARTS + 1
"""Minimum samples of the watch, taken every 100 ms: one for the end of each part, and the first."""

LATEST = 0.75
"""Earliest share of the run at which memory may peak: memory freed before the end is not a leak."""

LEAST_CALLS = 10
"""Minimum calls of the routine in which memory grew: one that is called less often builds a
result."""

_KIB = 1024


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    looks = _up_to_largest(trial)
    if not trial.memory:
        yield Abstention(KIND, "the trial has no memory over time: it was run without a watch")
        return
    if len(looks) < LEAST_LOOKS or not _is_steady(looks):
        return
    kept = {
        timer: grown
        for timer, grown in _kept(trial).items()
        if grown >= LEAST_BYTES and trial.calls.entries(timer) >= LEAST_CALLS
    }
    timer = max(kept, key=kept.__getitem__, default=None)
    if timer is None:
        return
    calls = trial.calls.entries(timer)
    where = (Condition("event", (GROWTH, RELEASED)),)
    yield Finding(
        KIND,
        f"{place(timer)} keeps {size(kept[timer])} in {count(int(calls))} calls; resident "
        f"memory grows through the whole run, from {size(looks[0].mean)} to "
        f"{size(looks[-1].mean)} in {duration(looks[-1].end_ns - looks[0].end_ns)}",
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
    """Samples after imports (taken to be at the beginning) and up to the peak, after which the
    process ends; empty if memory peaks early in the run."""
    imported_ns = trial.calls.longest(phase("import")).ns
    memory = [look for look in trial.memory if look.end_ns >= imported_ns]
    largest = max(range(len(memory)), key=lambda at: memory[at].mean, default=0)
    late = memory and memory[largest].end_ns >= LATEST * trial.wall_ns
    return memory[: largest + 1] if late else ()


def _is_steady(looks: Sequence[Moment]) -> bool:
    """Whether memory grows in each part of the run except the first."""
    ends = [_at(looks, part / PARTS) for part in range(1, PARTS + 1)]
    growth = ends[-1] - ends[0]
    share = growth / (PARTS - 1)
    return ends[-1] - looks[0].mean >= LEAST_BYTES and all(
        after - before >= share / 2 for before, after in pairwise(ends)
    )


def _at(looks: Sequence[Moment], share: float) -> float:
    """Memory after this share of the time [byte]."""
    first, last = looks[0].end_ns, looks[-1].end_ns
    until = first + share * (last - first)
    return next(look.mean for look in reversed(looks) if look.end_ns <= until)


def _kept(trial: Trial) -> dict[TimerRow, float]:
    """Memory allocated minus memory freed [bytes] by each of the program's routines, including
    library routines that it calls. Allocators reuse memory, so growth in a library's routine says
    little about what is kept."""
    calls = trial.calls
    rows = {
        key: row
        for row, key in enumerate(
            zip(calls.thread, calls.table.row_labels("callpath"), strict=True)
        )
    }
    where = (Condition("event", (GROWTH, RELEASED)),)
    by = ("thread", "callpath", "event")
    table = trial.ask(Question((trial.id,), (), by, where, values=("event.total",)))
    kept: dict[TimerRow, float] = {}
    for thread, callpath, event, total in zip(
        *(table.row_labels(name) for name in by), table.column("event.total"), strict=True
    ):
        row = rows.get((thread, callpath))
        if row is None:
            continue
        timer = calls.timer[row]
        if not trial.is_own(timer):
            timer = trial.caller(row) or timer
        sign = 1 if event.name == GROWTH else -1
        kept[timer] = kept.get(timer, 0.0) + sign * (total or 0) * _KIB
    return kept
