"""A report as the lines of one screen."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from taupy.analysis.findings.limits import MOST_FINDINGS
from taupy.analysis.places import Place
from taupy.answers import places
from taupy.answers.places import GroupPlaces
from taupy.escaping import visible
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.model.thread_groups import MAIN
from taupy.network.phase_sums import NO_PHASE
from taupy.report.report import Report
from taupy.units import count, duration, percent, several, size

WIDTH, HEIGHT = 80, 24
"""The size of a standard terminal."""

_BAR = 34
_REMARKS = 3
_LEAST = 0.01
"""Share of its threads' time below which a place is not shown."""
_MUCH = 0.25
"""Share of a place's time from which on a callee is shown."""
_WAITING = 2
_RANKS = 3
"""Notes on ranks that are shown; `taupy ranks` has them all."""
_INDENT = 19 * " "


class _Detail(NamedTuple):
    """What is shown besides the places and findings, if there is room.

    Attributes:
        others: places of each further group of threads.
    """

    callees: bool = True
    advice: bool = True
    sources: bool = True
    bars: bool = True
    others: int = 3


_DETAILS = (
    _Detail(),
    _Detail(others=1),
    _Detail(bars=False, others=1),
    _Detail(callees=False, bars=False, others=1),
    _Detail(callees=False, advice=False, bars=False, others=1),
    _Detail(callees=False, advice=False, bars=False, others=0),
    _Detail(callees=False, advice=False, sources=False, bars=False, others=0),
)
"""From the most to the least."""


def text(report: Report, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The report as text: places, all findings, and as many details as the height allows.

    Args:
        width: 0 for no limit.
    """
    width = width or WIDTH
    of_gpus = [*_gpu_times(report, width)]
    for detail in _DETAILS:
        lines = [
            *_what_ran(report), *_health(report, width), "",
            *of_gpus,
            *_phases(report, width, detail.bars),
            *_places(report, width, detail),
            *_ranks(report, width, detail.advice),
            *_findings(report, width, detail.advice),
        ]  # fmt: skip
        end = [*_end(report)]
        # What GPUs did comes on top of a screen: findings keep their numbers and their advice.
        if len(lines) + len(end) - len(of_gpus) <= height:
            break
    # Commands that are named at the end are to be copied, so they are not cut.
    shown = [*(_cut(line, width) for line in lines), *map(visible, end)]
    return "".join(f"{line}\n" for line in shown)


def _what_ran(report: Report) -> Iterator[str]:
    trial = report.trial
    name = f"{trial.application}/{trial.experiment}/{trial.name}"
    yield f"TRIAL {report.selector}  {name}: {report.command or trial.source}"
    parts = [duration(trial.duration_ns)]
    parts += [f"exit {trial.ending}"] if trial.ending and "running" not in report.remarks else []
    parts.append(several(report.threads, "thread"))
    parts += [f"{report.processes} processes"] if report.processes > 1 else []
    parts += [", ".join(dict.fromkeys(report.gpus))] if report.gpus else []
    yield f"  {trial.started_at[:19].replace('T', ' ')} UTC, {', '.join(parts)}"
    if report.runnable_ns:
        used = "" if report.cpu_ns is None else f"{duration(report.cpu_ns)} of CPU time; "
        waited = duration(report.runnable_ns)
        yield f"  busy machine: {used}a thread waited {waited} for a processor"


def _health(report: Report, width: int) -> Iterator[str]:
    state = "complete" if report.trial.state == "complete" else report.trial.state.upper()
    measured = f"measured: {state}"
    if report.unmeasured:
        measured += f"; without {', '.join(report.unmeasured)}"
    yield from textwrap.wrap(
        visible(measured), width, initial_indent="  ", subsequent_indent="    ",
        break_on_hyphens=False,
    )  # fmt: skip
    remarks = list(report.remarks.items())
    for name, remark in remarks[:_REMARKS]:
        what = "" if name.rstrip("0123456789") == "note" else f"{name}: "
        yield f"  note: {what}{remark.replace(chr(10), '; ')}"
    if len(remarks) > _REMARKS:
        yield f"  note: {several(len(remarks) - _REMARKS, 'more note')}: taupy trials show"


def _gpu_times(report: Report, width: int) -> Iterator[str]:
    """Why the GPU that computes least did not compute all the time, and what to do."""
    for why, what in report.gpu_times[:1]:
        yield from _wrapped(why, width, "", "  ")
        yield from _wrapped(what, width, "  so: ", "    ")
    if len(report.gpu_times) > 1:
        more = several(len(report.gpu_times) - 1, "more GPU")
        yield f"  {more}: taupy kernels --activity, or --json"
    if report.gpu_times:
        yield ""


def _phases(report: Report, width: int, bars: bool) -> Iterator[str]:
    """The phases of a training; imports and the exit alone are among the places."""
    if {phase.kind for phase in report.phases} <= {"import", "exit", NO_PHASE} and report.places:
        return
    largest = max((phase.share for phase in report.phases), default=0.0) or 1.0
    if bars:
        for phase in report.phases:
            bar = "#" * round(_BAR * phase.share / largest)
            share = f"{percent(100 * phase.share)} %"
            yield f"  {phase.kind:13} {share:>7} {duration(phase.ns):>12}  {bar}"
        if report.steps:
            yield f"  {several(report.steps, 'step')}"
    elif report.phases:
        shares = [f"{phase.kind} {100 * phase.share:.0f} %" for phase in report.phases]
        shares += [several(report.steps, "step")] if report.steps else []
        yield from _wrapped(", ".join(shares), width, "  ", "    ")
    if report.phases:
        yield ""


def _places(report: Report, width: int, detail: _Detail) -> Iterator[str]:
    """The first places of the main thread, and those of other threads below."""
    groups = [group for group in report.places if _is_shown(group)]
    for group in groups:
        is_main = group.group == MAIN
        most = places.FIRST if is_main else detail.others
        if not most:
            continue
        yield f"your code, {group.title}:"
        own = [place for place in group.places if place.kind == "own"]
        for place in [place for place in own if place.share >= _LEAST][:most] or own[:1]:
            yield _place(place)
            if detail.sources and place.source:
                yield f"{_INDENT}{_source(place)}"
            if detail.callees and (more := _within(place)):
                yield f"{_INDENT}{more}"
        apart = [place for place in group.places if place.kind != "own" and place.share >= _LEAST]
        if is_main:
            waiting = [place for place in apart if place.kind == "waiting"][:_WAITING]
            for place in waiting:
                yield _place(place)
                if detail.sources and place.hottest and place.source:
                    yield f"{_INDENT}{_source(place)}"
                if detail.callees and (more := _within(place)):
                    yield f"{_INDENT}{more}"
            rest = [place for place in apart if place.kind != "waiting"]
            if rest:
                yield "  " + "; ".join(
                    f"{places.described(place)} {duration(place.ns)}, {_share(place)}"
                    for place in rest
                )
    if groups:
        yield ""


def _is_shown(group: GroupPlaces) -> bool:
    """Not helpers of libraries that run none of the program's code."""
    return group.group == MAIN or any(place.kind == "own" for place in group.places)


def _place(place: Place) -> str:
    calls = "" if not place.calls else f", {_calls(place.calls)}"
    return f"{duration(place.ns):>10} {_share(place):>6}  {places.described(place)}{calls}"


def _source(place: Place) -> str:
    """The text of a place's line, with its time if that is estimated."""
    time = "" if place.hottest is None else f"~{duration(place.hottest.time_ns)}  "
    return f"{time}{visible(place.source or '')}"


def _caller(place: Place, caller: TimerRow) -> str:
    if place.timer is None or caller.file != place.timer.file or caller.line is None:
        return places.where(caller)
    name = places.short(caller)
    return name if name == "<module>" else f"{name} (line {caller.line})"


def _calls(number: int) -> str:
    return f"{count(number)} call{'s' * (number != 1)}"


def _share(place: Place) -> str:
    return f"{100 * place.share:.0f} %" if place.share >= 0.01 else "<1 %"


def _within(place: Place) -> str:
    """What a place mostly does, as far as it is known."""
    parts = []
    callee, caller = place.callee, place.caller
    if callee is not None and callee.ns >= _MUCH * place.ns:
        calls = f", {_calls(callee.calls)}" if callee.calls else ""
        parts.append(f"{duration(callee.ns)} in {places.short(callee.timer)}{calls}")
    if caller is not None:
        calls = "called" if caller.calls == place.calls else _calls(caller.calls)
        parts.append(f"{calls} by {_caller(place, caller.timer)}")
    if place.asleep_ns:
        parts.append(f"asleep for about {duration(place.asleep_ns)} (sampled)")
    return "; ".join(parts)


def _ranks(report: Report, width: int, whole: bool) -> Iterator[str]:
    """What the ranks say; which rank was waited for, and why, if there is little room."""
    for at, note in enumerate(report.ranks[: _RANKS if whole else _RANKS - 1]):
        yield from _wrapped(note, width, "  " if at else "ranks: ", "    ")
    if report.ranks:
        yield ""


def _findings(report: Report, width: int, advice: bool) -> Iterator[str]:
    findings = report.judgement.findings
    if not findings:
        yield "no findings of the kinds that docs/report.md lists"
    for number, finding in enumerate(findings[:MOST_FINDINGS], 1):
        yield from _finding(number, finding, width, advice)
    if len(findings) > MOST_FINDINGS:
        more = several(len(findings) - MOST_FINDINGS, "smaller finding")
        yield f"   and {more}: --json lists them"


def _finding(number: int, finding: Finding, width: int, advice: bool) -> Iterator[str]:
    headline = f"{number}. {finding.kind}, {_saved(finding)}: {finding.sentence}"
    if not advice:
        yield headline
        return
    advised = [(f"try: {finding.attempt}", "   ")] if finding.attempt else []
    for lines, indent in ((headline, "   "), *advised):
        first = "" if lines is headline else indent
        yield from textwrap.wrap(
            visible(lines), width, initial_indent=first, subsequent_indent=indent,
            break_on_hyphens=False,
        )  # fmt: skip


def _saved(finding: Finding) -> str:
    if not finding.saved_ns:
        return size(finding.saved_bytes)
    return f"at most {duration(finding.saved_ns)} ({percent(100 * finding.saved_share)} %)"


def _end(report: Report) -> Iterator[str]:
    abstained = len({abstention.kind for abstention in report.judgement.abstentions})
    if abstained:
        yield f"{several(abstained, 'rule')} gave no verdict: --json says why"
    if report.places:
        name = shlex.quote(report.selector) + report.database
        yield f"next: taupy report {name} -o report.html, taupy places {name} --all"


def _wrapped(text: str, width: int, first: str, then: str) -> Iterator[str]:
    yield from textwrap.wrap(
        visible(text), width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )


def _cut(line: str, width: int) -> str:
    line = visible(line)
    return line if len(line) <= width else line[: width - 3] + "..."
