"""Rule: a routine keeps more and more, until the end of the run.

What it keeps and where is measured; what holds it is read from the source (`memory_holders.py`). A
list that is a result, a cache that is full, and memory that is loaded once are none; growth of
which nothing shows what holds it is told as a fact, without a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from taupy.analysis.findings.calls import phase, place
from taupy.analysis.findings.hot_lines import at_line
from taupy.analysis.findings.memory_holders import LEAST_CALLS, Holder, holder
from taupy.analysis.findings.trial import Moment, Trial
from taupy.analysis.known_routines import Grouped, Matches, OneOf
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import BETWEEN, GROWTH, RELEASED
from taupy.units import count, size

KIND = "memory growth"
NEEDS = ("host",)

LEAST_BYTES = 128 * 1024 * 1024
"""Minimum growth: the data and libraries of any larger program take as much; less does no harm."""

PARTS, LEAST_PARTS = 5, 3
"""Number of equal parts into which the run after its imports is divided; fewer if it is so short
that the watch, which looks every 100 ms, has not seen the end of each. Memory must grow in all
but the first, in which programs load their data, by at least half of the mean growth."""

LATEST = 0.85
"""Earliest share of the run before its exit at which memory may reach its peak, give or take
`AT_PEAK`: what ends before is a cache that is full, or a list that is complete."""

AT_PEAK = 0.98

LEAST_OF_NETWORK = 1 / 3
"""Minimum share of it that layers of PyTorch allocated, if graphs shall hold it."""

_is_layer = Grouped(lambda groups: "LAYER" in groups.split("|"))
_KIB = 1024
_GROWN = (GROWTH, BETWEEN)


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if not trial.memory:
        yield Abstention(KIND, "the trial has no memory over time: it was run without a watch")
        return
    if not _grows_to_the_end(trial):
        return
    kept = sorted(_kept(trial, trial.is_own).items(), key=lambda pair: pair[1])
    large = [(timer, grown) for timer, grown in kept if grown >= LEAST_BYTES]
    by_network = max(_kept(trial, _is_layer).values(), default=0.0)
    for timer, grown in large:  # callees before their callers, which keep it as well
        what = holder(trial, timer, by_network >= LEAST_OF_NETWORK * grown)
        if what is not None:
            yield _finding(trial, timer, grown, what)
            return
    if large:
        timer, grown = large[0]
        where = place(timer)
        lacks = "does not show what holds it" if trial.source(timer) else "is missing or changed"
        yield Abstention(KIND, f"the source of {where} {lacks}", _fact(trial, timer, where, grown))


def _fact(trial: Trial, timer: TimerRow, where: str, grown: float) -> str:
    """How much a routine keeps, as a sentence."""
    calls = int(trial.calls.entries(timer))
    if calls < LEAST_CALLS:
        seconds = trial.calls.longest(OneOf((timer,))).ns / 1e9
        return (
            f"memory grows by {size(grown)} in {where}, {size(grown / seconds)} a second, "
            "and still at the end"
        )
    return (
        f"memory grows by {size(grown / calls)} with each call of {where}, by "
        f"{size(grown)} in {count(calls)} calls, and still at the end"
    )


def _finding(trial: Trial, timer: TimerRow, grown: float, what: Holder) -> Finding:
    events = (Condition("event", (*_GROWN, RELEASED)),)
    where = at_line(timer, what.line)
    return Finding(
        KIND,
        f"{_fact(trial, timer, where, grown)}: {what.name} holds it, and {what.why}",
        saved_ns=0,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("timer", "event"), events, ("event.total", "event.count"), ()),),
        confidence="medium",
        attempt=what.attempt,
        refuted_by="the program needs all of it",
        saved_bytes=int(grown),
    )


# --- over time -------------------------------------------------------------------


def _grows_to_the_end(trial: Trial) -> bool:
    """Whether memory grows in each part of the run after its imports except the first, in which
    programs load their data, and until shortly before the process ends."""
    imported_ns = trial.calls.longest(phase("import")).ns
    looks = [look for look in trial.memory if look.end_ns >= imported_ns]
    largest = max((look.mean for look in looks), default=0.0)
    last = next((at for at, look in enumerate(looks) if look.mean >= AT_PEAK * largest), 0)
    looks = looks[: last + 1]
    worked_ns = trial.wall_ns - trial.calls.longest(phase("exit")).ns  # which gives memory back
    parts = min(PARTS, len(looks) - 1)  # a look for the end of each, and the first
    if parts < LEAST_PARTS or looks[-1].end_ns < LATEST * worked_ns:
        return False
    ends = [_at(looks, part / parts) for part in range(1, parts + 1)]
    share = (ends[-1] - ends[0]) / (parts - 1)
    return ends[-1] - looks[0].mean >= LEAST_BYTES and all(
        after - before >= share / 2 for before, after in pairwise(ends)
    )


def _at(looks: Sequence[Moment], share: float) -> float:
    """Memory after this share of the time [byte]."""
    first, last = looks[0].end_ns, looks[-1].end_ns
    until = first + share * (last - first)
    return next(look.mean for look in reversed(looks) if look.end_ns <= until)


# --- what keeps it ---------------------------------------------------------------


def _kept(trial: Trial, matches: Matches) -> dict[TimerRow, float]:
    """Memory allocated minus memory freed [bytes] by each of these routines and all that they call.
    Allocators reuse memory, so growth in a single routine of a library says little about what is
    kept."""
    calls = trial.calls
    rows = {
        key: row
        for row, key in enumerate(
            zip(calls.thread, calls.table.row_labels("callpath"), strict=True)
        )
    }
    where = (Condition("event", (*_GROWN, RELEASED)),)
    by = ("thread", "callpath", "event")
    table = trial.ask(Question((trial.id,), (), by, where, values=("event.total",)))
    kept: dict[TimerRow, float] = {}
    for thread, callpath, event, total in zip(
        *(table.row_labels(name) for name in by), table.column("event.total"), strict=True
    ):
        row = rows.get((thread, callpath), -1)
        sign = -1 if event.name == RELEASED else 1
        seen = set()
        while row >= 0:
            timer = calls.timer[row]
            if timer not in seen and matches(timer):
                seen.add(timer)
                kept[timer] = kept.get(timer, 0.0) + sign * (total or 0) * _KIB
            row = calls.parent[row]
    return kept
