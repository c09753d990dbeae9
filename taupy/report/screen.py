"""A report as the lines of one screen."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from taupy.analysis.expressions import excerpt
from taupy.analysis.findings import RULES
from taupy.analysis.findings.limits import MOST_FINDINGS
from taupy.analysis.line_times import HotLine
from taupy.analysis.places import Await, Part, Place, calls_tests
from taupy.answers import places
from taupy.answers.places import GroupPlaces
from taupy.dataclass import replace
from taupy.escaping import visible
from taupy.model.finding import Finding, Severity
from taupy.model.metric import ROOT_TIMER
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.thread_groups import MAIN
from taupy.network import layers
from taupy.pprof.table import Painter
from taupy.report.lanes import RANKS, Lane, Lanes
from taupy.report.report import Report
from taupy.report.strip import NO_TRAINING, Band
from taupy.units import count, duration, several, size

WIDTH, HEIGHT = 80, 24
"""The size of a standard terminal."""

_GLYPHS: Mapping[str, str] = {
    "own": "█", "layer": "▙", "forward": "█", "backward": "▓", "data": "▚", "optimizer": "▞",
    "checkpoint": "▞", "lib": "▓", "c": "▚", "import": "▒", "wait": "░", "rest": "·", "exit": "·",
}  # fmt: skip
_SIGNS: Mapping[Severity, str] = {"large": "▲", "medium": "◆", "small": "●"}
_COLORS: Mapping[str, str] = {
    "█": "blue", "▓": "cyan", "▒": "yellow", "░": "bright_black", "▚": "bright_cyan",
    "▙": "green", "▲": "red", "◆": "yellow", "●": "cyan",
}  # fmt: skip
_OF_PHASES: Mapping[str, str] = {
    "█": "green", "▓": "magenta", "▚": "bright_yellow", "▞": "bright_red",
}  # fmt: skip
_TITLE = "Where the time goes"
_TESTS = "slowest tests"
_BAR = 8
_NARROW = 66
"""In fewer columns there are no bars."""
_WHERE = 22
"""Columns of `file:line`; of a longer one the end is shown."""
_LEAST = 0.01
"""Share of its threads' time below which a place is not shown."""
_SMALL = 0.05
"""Share below which a place says less than what to try."""
_MUCH = 0.1
"""Share of a place's time from which on a callee is shown, and of imports of the run's."""
_MOSTLY = 0.5
_LEAST_NAME, _LEAST_TEXT = 12, 24
"""Columns from which on a name, and source text, say something."""
_DOT = " · "
_NAMED = 0.7
"""Share of the rows shown from which on they say what the run consists of."""
_MOST_TITLE = 32
_LEAST_LEGEND = 0.0005
_LEAST_OVERLAP = 0.01
"""Share of the work of GPUs that overlaps, from which on their busy time is said."""
_BESIDE_BAR = 28
"""Columns of a bar's line besides the bar and the name: `1.33 s, waits 120 ms`."""
_HANDS_ON = ("concurrent/futures/process.py", "concurrent/futures/thread.py",
             "multiprocessing/pool.py")  # fmt: skip
"""Files of these whose routines call what was handed over."""
_WAITS = "waits in "
_WAITING = 2
_CALLEES = 3


class _Detail(NamedTuple):
    """What is shown besides the places and findings, if there is room.

    Attributes:
        callees: main places with a second line.
        others: places of each further group of threads.
        sentences: findings with their sentence.
        advice: whether these have their advice.
        notes: on the measurement, GPUs and ranks. Why a GPU was idle is one, and what to do.
        spaced: whether lines are empty between the parts.
        main: own places of the main thread.
        least: share of its threads' time from which on a main place is shown.
        lanes: bars of each group of ranks, worker processes and further threads; of none, their
            seconds are in one line.
        calls: lines of those into which the run divides.
        elsewhere: whether main places have a third line, for callees of other lines than the
            hottest.
    """

    callees: int = 5
    others: int = 3
    sentences: int = MOST_FINDINGS
    advice: bool = True
    notes: int = 3
    spaced: bool = True
    main: int = places.FIRST
    least: float = _LEAST
    lanes: int = 4
    calls: int = 3
    elsewhere: bool = False


_DETAILS = (
    _Detail(elsewhere=True),
    _Detail(),
    _Detail(others=1),
    _Detail(others=1, sentences=2),
    _Detail(3, 1, 2, notes=2, calls=1),
    _Detail(2, 1, 2, notes=2, calls=1),
    _Detail(2, 1, 1, notes=1, calls=1),
    _Detail(1, 1, 1, notes=1, calls=1),
    _Detail(1, 1, 1, notes=1, spaced=False, calls=1),
    _Detail(0, 3, 1, notes=1, spaced=False, lanes=2, calls=1),
    _Detail(0, 1, 1, notes=1, spaced=False, calls=1),
    _Detail(0, 1, 1, notes=1, spaced=False, lanes=2, calls=1),
    _Detail(0, 1, 1, notes=1, spaced=False, lanes=0, calls=1),
    _Detail(0, 0, 1, notes=1, spaced=False, lanes=0, calls=1),
    _Detail(0, 0, 1, notes=1, spaced=False, least=_SMALL, lanes=0, calls=1),
    _Detail(0, 0, 1, advice=False, notes=1, spaced=False, least=_SMALL, lanes=0, calls=1),
    _Detail(0, 0, 1, advice=False, notes=1, spaced=False, main=3, least=_SMALL, lanes=0, calls=1),
    _Detail(0, 0, 0, advice=False, notes=1, spaced=False, least=_SMALL, lanes=0, calls=1),
    _Detail(0, 0, 0, advice=False, notes=0, spaced=False, least=_SMALL, lanes=0, calls=1),
)
"""From the most to the least."""
_ALL = _Detail(1 << 30, 1 << 30, notes=1 << 30, lanes=1 << 30)


def text(report: Report, width: int = WIDTH, height: int = HEIGHT, *, verbose: bool = False) -> str:
    """The report as text: places, all findings, and as many details as the height allows.

    Args:
        width: 0 for no limit.
        verbose: everything, whatever its height.
    """
    width = width or WIDTH
    lines: list[str] = []
    for detail in (_ALL,) if verbose else _DETAILS:
        lines = [*_Screen(report, width, detail, verbose).lines()]
        if len(lines) <= height:
            break
    return "".join(f"{line}\n" for line in lines)


def painted(text: str, paint: Painter) -> str:
    """The text with colours, none of which says what glyphs and words do not."""
    strip, title, rest = text.partition(f"\n{_TITLE}")
    is_training = "▞" in strip or "█ forward" in strip
    first, space, others = strip.partition("  ")
    colors = {**_COLORS, **(_OF_PHASES if is_training else {})}
    return (
        f"{paint(first, 'bold')}{space}{_in_colors(others, colors, paint)}{title}"
        f"{_in_colors(rest, _COLORS, paint)}"
    )


def _in_colors(text: str, colors: Mapping[str, str], paint: Painter) -> str:
    runs = re.compile("|".join(f"{glyph}+" for glyph in colors))
    return runs.sub(lambda run: paint(run[0], colors[run[0][0]]), text)


class _Screen:
    """A report in so many columns, with so many details."""

    def __init__(self, report: Report, width: int, detail: _Detail, verbose: bool) -> None:
        self.report, self.width = report, width
        self.detail, self.verbose = detail, verbose
        self.bar = _BAR if width >= _NARROW else 0

    def lines(self) -> Iterator[str]:
        yield from self._head()
        yield from self._gpus()
        yield from self._strip()
        yield from self._places()
        yield from self._findings()
        yield from self._measured()
        yield from self._next()

    def _space(self) -> Iterator[str]:
        if self.detail.spaced:
            yield ""

    # --- what ran --------------------------------------------------------------

    def _head(self) -> Iterator[str]:
        report, trial = self.report, self.report.trial
        facts = [f"exit {trial.ending}"] if trial.ending and "running" not in report.remarks else []
        ranks = next((len(of.lanes) for of in report.lanes if of.title == RANKS), 0)
        if ranks:
            facts.append(several(ranks, "rank"))
        elif report.processes > 1:
            facts.append(f"{report.processes} processes")
        elif report.threads > 1:
            facts.append(f"{report.threads} threads")
        facts += [_shortened(report.gpus[0], 24)] if report.gpus else []
        facts.append(f"trial {report.selector or trial.id}")
        run, end = duration(trial.duration_ns), "  " + " · ".join(map(visible, facts))
        room = self.width - len(run) - 2 - len(end)
        if room >= 12:
            yield f"{run}  {_shortened(visible(report.typed), room):<{room}}{end}"
        else:
            yield from self._wrapped(f"{run}  {visible(report.typed)}", "", "  ")
            yield from self._wrapped(end.strip(), "  ", "  ")
        if self.verbose:
            name = f"{trial.application}/{trial.experiment}/{trial.name}"
            yield from self._wrapped(f"{name}, {trial.started_at[:19].replace('T', ' ')} UTC")
            if len(report.gpus) > 1:
                yield from self._wrapped(", ".join(report.gpus))
        if trial.state != "complete":
            yield from self._wrapped(f"{trial.state.upper()}: what follows is a part of the run")
        if report.runnable_ns:
            spent, among = cpu_time(report)
            used = f"{spent} of CPU time{among}; " if report.cpu_ns else ""
            yield from self._wrapped(f"busy machine: {used}{waited_for_processor(report)}")
        remarks = [] if report.is_capture and not self.verbose else [*report.remarks.items()]
        shown = remarks[: self.detail.notes]
        for name, remark in shown:
            words = remark.replace("\n", "; ")
            if self.verbose:
                what = "" if name.rstrip("0123456789") == "note" else f"{name}: "
                yield from self._wrapped(f"note: {what}{words}", "", "  ")
            else:  # its first part
                yield from self._wrapped(f"note: {words.partition('; ')[0]}", "", "  ")
        if len(remarks) > len(shown):
            more = several(len(remarks) - len(shown), "more note" if shown else "note")
            yield from self._wrapped(f"{more} on the measurement: {self._command('report')} -v")

    def _gpus(self) -> Iterator[str]:
        """What GPUs did; of that which computes least, why, and what to do."""
        report = self.report
        if report.gpu_ns:
            share = percent(report.gpu_busy_ns / (report.trial.duration_ns or 1))
            work = f"{duration(report.gpu_ns)} of kernels and copies"
            if report.gpu_busy_ns < report.gpu_ns * (1 - _LEAST_OVERLAP):
                busy = duration(report.gpu_busy_ns)
                yield from self._wrapped(f"GPU  busy for {busy}, {share} of the run, with {work}")
            else:
                yield from self._wrapped(f"GPU  {work}, {share} of the run")
        if report.autotuning and self.detail.notes:
            yield from self._wrapped(report.autotuning, "  ", "    ")
        for why, what in report.gpu_times[: 1 if not self.verbose else None]:
            if self.detail.notes:
                yield from self._wrapped(why, "  ", "    ")
                yield from self._wrapped(what, "  so: ", "    ")
        if len(report.gpu_times) > 1 and not self.verbose and self.detail.notes:
            more = several(len(report.gpu_times) - 1, "more GPU")
            yield from self._wrapped(f"{more}: taupy kernels --activity, or -v", "  ")

    def _strip(self) -> Iterator[str]:
        bands = [band for band in self.report.strip if band.ns > 0]
        whole = sum(band.ns for band in bands)
        if not whole:
            return
        cells = _cells([band.ns for band in bands], self.width)
        yield "".join(_GLYPHS[band.kind] * n for band, n in zip(bands, cells, strict=True))
        legend = [self._legend(band, whole) for band in bands if band.ns >= _LEAST_LEGEND * whole]
        if self.report.steps:
            legend.append(self.report.steps_in_words)
        yield from _joined(legend, "   ", self.width)

    def _legend(self, band: Band, whole: float) -> str:
        name = f"{_GLYPHS[band.kind]} {band.name} {self._time(band.ns)}"
        return f"{name} {mark_of(self.report)}{percent(band.ns / whole)}"

    def _time(self, ns: float) -> str:
        return f"{mark_of(self.report)}{duration(ns)}"

    # --- places ------------------------------------------------------------------

    def _places(self) -> Iterator[str]:
        lanes_of = {of.group: of for of in self.report.lanes}
        groups = [
            group
            for group in self.report.places
            if group.group in {MAIN, *lanes_of} or group.places.own
        ]
        for group in groups:
            if group.group == MAIN:
                yield from self._space()
                rows = main_places(group, 1 << 30 if self.verbose else self.detail.main)
                large = [place for place in rows if place.share >= self.detail.least]
                shown = large or rows[:1]
                lines = "; each one's hottest line" if any(map(shown_line, shown)) else ""
                about = f"  routines, with libraries and C{lines}" if self.width >= 75 else ""
                yield from self._wrapped(f"{_TITLE}{about}")
                yield from self._rows(shown, self.detail.callees)
                yield from self._division(sum(place.share for place in shown))
                yield from self._packages(group)
                continue
            if of := lanes_of.get(group.group):
                yield from self._lanes(of)
            if group.group == "other ranks":
                yield from self._ranks()
            own = group.at_work(self.detail.others, _LEAST)
            rows = own or of_libraries(group)[: None if self.verbose else self.detail.others]
            if self.detail.others and group.group != "other ranks":  # theirs are the main thread's
                rows = _merged(rows, _imports(group))
            if self.detail.others and rows:
                if of is None or group.group == "other ranks" or group.threads > 1:
                    yield from self._wrapped(f"in {group.title}{_base(group)}:", "", "  ")
                yield from self._rows(rows, self.detail.callees)
            if not own:
                yield from self._packages(group)

    def _rows(self, rows: Sequence[Place], with_details: int) -> Iterator[str]:
        """A line for each routine, with its own numbers, beside its hottest line with that one's;
        below, the text of that line, and what the routine calls."""
        largest = max((place.ns for place in rows), default=0) or 1
        times = max([8, *(len(self._time(place.ns)) for place in rows)])
        mark = mark_of(self.report)
        shares = 5 + len(mark)
        start_width = times + shares + 2 + (self.bar + 1 if self.bar else 0)
        room = self.width - start_width
        wheres = [visible(line_of(place, _WHERE)) for place in rows]
        wide_where = max(map(len, wheres), default=0)
        beside = [*map(_beside, rows)]
        wide = max((_length(*beside[at]) for at, where in enumerate(wheres) if where), default=0)
        is_narrow = room - wide_where - 2 < _LEAST_NAME
        wide = min(wide, room - wide_where - 2)
        indent = " " * (start_width if self.width >= _NARROW else 4)
        left = with_details
        for at, place in enumerate(rows):
            start = f"{self._time(place.ns):>{times}} {mark + percent(place.share):>{shares}} "
            if self.bar:
                glyph = _GLYPHS[_kind(place)]
                start += f"{glyph * (round(self.bar * place.ns / largest) or 1):<{self.bar}} "
            text, where = visible(text_of(place, room)), wheres[at]
            does = visible((place.hottest and place.hottest.calls) or "")
            more = [*map(visible, details_of(place, mark))]
            name = _with_calls(*beside[at], room if is_narrow or not where else wide)
            if not where:
                line, text = f"{name}  {excerpt(text, room - len(name) - 2, does)}", ""
            elif is_narrow:
                line, text, does = name, f"{where}  {text}".rstrip(), ""
            else:
                line = f"{name:<{wide}}  {where}"
                if not left and len(line) + 2 + _LEAST_TEXT <= room:
                    line += f"  {excerpt(text, room - len(line) - 2, does)}"
            yield f"{start}{line}".rstrip()
            if left and (text or more):
                left -= 1
                apart = visible(_elsewhere(place, mark, _MUCH)) if self.detail.elsewhere else ""
                yield from self._within(text, does, more, apart, indent)

    def _within(
        self, text: str, does: str, parts: Sequence[str], apart: str, indent: str
    ) -> Iterator[str]:
        """The source text, with what takes time in it, and as many of these as fit into the line
        with it; the one that is not to be left out in a line of its own."""
        room = self.width - len(indent) - 2
        if not self.verbose:
            taken = min(len(text), _LEAST_TEXT) + len(_DOT) if text else 0
            fitting = _fitting(parts, room - taken)
            if apart and apart in fitting:
                apart = ""
            elif apart:
                fitting = _fitting([part for part in parts if part != apart], room - taken)
            parts = fitting
        words = [*_joined(parts, ", ", room)]
        if text and words and len(words[0]) + len(_DOT) + min(len(text), _LEAST_TEXT) <= room:
            text = excerpt(text, room - len(_DOT) - len(words[0]), does)
            words[0] = f"{text}{_DOT}{words[0]}"
        elif text:
            words.insert(0, excerpt(text, room, does))
        if apart and not self.verbose:
            words += [*_joined([apart], ", ", room)]
        for at, line in enumerate(words):
            yield f"{indent}{' ' if at else '└'} {line}"

    def _division(self, named: float) -> Iterator[str]:
        """What the run consists of: of tests, the slowest; of another, if the rows above say little
        of it.

        Args:
            named: their share.
        """
        if (in_words := division(self.report, named)) is None:
            return
        title, parts = in_words
        are_tests = title == _TESTS
        title = f"{visible(title)}:  "
        lines = [*_joined([*map(visible, parts)], ", ", self.width - min(len(title), _MOST_TITLE))]
        if len(title) > _MOST_TITLE:
            yield title.rstrip()
            title = "  "
        most = (
            None if self.verbose else self.detail.calls if are_tests else min(2, self.detail.calls)
        )
        for at, line in enumerate(lines[:most]):
            yield f"{title if not at else ' ' * len(title)}{line}"

    def _packages(self, group: GroupPlaces) -> Iterator[str]:
        """The largest libraries, where the program's own code is less than half."""
        if names := packages(self.report, group):
            lines = [*_joined([*map(visible, names)], ", ", self.width - 13)]
            yield f"by package:  {lines[0]}"
            if self.verbose:
                yield from (f"             {line}" for line in lines[1:])

    def _lanes(self, of: Lanes) -> Iterator[str]:
        """A bar for each; if there is no room for bars, only the times."""
        whole = max((lane.ns for lane in of.lanes), default=0) or 1
        kinds = {
            band.kind: f"{_GLYPHS[band.kind]} {band.name}"
            for lane in of.lanes
            for band in lane.bands
            if band.ns >= _LEAST * whole
        }
        beside = "" if of.title == RANKS else " beside the main thread"
        title = f"{of.title}{beside}"
        most = self.detail.lanes
        if not most or self.width < _NARROW:
            times = [
                f"{visible(lane.name)} {self._time(lane.ns - lane.waits_ns)}" for lane in of.lanes
            ]
            line = ", ".join(times)
            apart = " (waiting not counted)" if any(lane.waits_ns for lane in of.lanes) else ""
            if len(f"{title}: {line}{apart}") > self.width:
                line = f"{_several(of.lanes)}, each works for {_from_to(of.lanes)}"
            yield from self._wrapped(f"{title}: {line}{apart}", "", "  ")
            return
        yield from self._space()
        yield from _joined([title, *kinds.values()], "  ", self.width)
        shown = [*of.lanes]
        if len(shown) > most:
            # Those that work longest, and the one that does least: in the order of their numbers.
            by_work = sorted(shown, key=lambda lane: lane.waits_ns - lane.ns)
            chosen = [*by_work[: most - 1], by_work[-1]]
            shown = [lane for lane in shown if lane in chosen]
        wide = max(len(_shortened(visible(lane.name), _WHERE)) for lane in shown)
        room = self.width - wide - _BESIDE_BAR
        for lane in shown:
            bands = [band for band in lane.bands if band.ns > 0]
            cells = _cells([band.ns for band in bands], round(room * lane.ns / whole) or 1)
            bar = "".join(_GLYPHS[band.kind] * n for band, n in zip(bands, cells, strict=True))
            words = self._time(lane.ns - lane.waits_ns)
            if lane.waits_ns >= _LEAST * whole:
                words += f", waits {self._time(lane.waits_ns)}"
            name = _shortened(visible(lane.name), _WHERE)
            yield f"  {name:<{wide}}  {bar:<{room}}  {words}".rstrip()
        if left := [lane for lane in of.lanes if lane not in shown]:
            yield from self._wrapped(f"and {_several(left)} more: {_from_to(left)} each", "  ")

    def _ranks(self) -> Iterator[str]:
        """What the ranks say; which rank was waited for, and why, if there is little room."""
        for at, note in enumerate(self.report.ranks[: max(2, self.detail.notes)]):
            yield from self._wrapped(note, "  " if at else "ranks: ", "    ")

    # --- findings ----------------------------------------------------------------

    def _findings(self) -> Iterator[str]:
        judgement = self.report.judgement
        silent = {abstention.kind for abstention in judgement.abstentions}
        yield from self._space()
        if judgement.findings:
            yield from self._wrapped("Findings  seconds are upper bounds")
        else:
            verdict = no_findings(self.report)
            if silent:
                verdict += f"; {several(len(silent), 'rule')} gave no verdict (-v says why)"
            yield from self._wrapped(verdict, "", "  ")
            for abstention in judgement.abstentions:
                if abstention.fact and not self.verbose and self.detail.sentences:
                    words = f"no verdict on {abstention.kind}: {abstention.fact}"
                    yield from self._wrapped(words, "  ", "  ")
        shown = judgement.findings if self.verbose else judgement.findings[:MOST_FINDINGS]
        for at, finding in enumerate(shown):
            yield from self._finding(finding, at < self.detail.sentences)
        if len(judgement.findings) > len(shown):
            more = several(len(judgement.findings) - len(shown), "smaller finding")
            yield from self._wrapped(f"and {more}: -v shows them", "  ")
        if self.verbose:
            for abstention in judgement.abstentions:
                words = "; ".join(filter(None, (abstention.fact, abstention.reason)))
                yield from self._wrapped(f"no verdict on {abstention.kind}: {words}", "", "  ")

    def _finding(self, finding: Finding, whole: bool) -> Iterator[str]:
        severity = finding.severity
        start = f"{_SIGNS[severity]} {severity:<6}  {finding.kind}, "
        place = visible(finding.place or "")
        of_rest = self.report.share_of_rest(finding)
        could_save = saved(finding)
        if of_rest is not None and finding.saved_ns:
            with_rest = f"{could_save} ({100 * of_rest:.0f} % without imports, exit)"
            # The place is in the sentence, too.
            if whole or len(start + with_rest + place) + 2 <= self.width:
                could_save = with_rest
        headline = start + could_save
        room = self.width - len(headline)
        if place and len(place) + 2 <= room:
            headline += f"{place:>{room}}"
        yield from self._wrapped(headline, "", "  ")
        if not whole:
            return
        yield from self._wrapped(finding.sentence, "  ", "  ")
        if finding.attempt and self.detail.advice:
            yield from self._wrapped(finding.attempt, "  try: ", "  ")
        if self.verbose:
            yield from self._wrapped(
                f"confidence {finding.confidence}; refuted by: {finding.refuted_by}", "  ", "  "
            )
            for evidence in finding.evidence:
                yield from self._wrapped(f"evidence: {evidence.question}", "  ", "    ")

    # --- the end -------------------------------------------------------------------

    def _measured(self) -> Iterator[str]:
        report = self.report
        parts = ["measured completely"] if report.trial.state == "complete" else []
        if report.is_capture:
            hidden = 0 if self.verbose else len(report.remarks)
            notes = f" ({several(hidden, 'note')}: -v)" if hidden else ""
            how = (
                "sampled from outside" if report.trial.is_sampled else "as another tool recorded it"
            )
            parts = [f"{how}{notes}"]
        names = [what if self.verbose else what.partition(" (")[0] for what in report.unmeasured]
        parts += [f"not measured: {', '.join(names)}"] if names else []
        hottest = (
            group.places[at].hottest for group in report.places for at in group.places.with_lines
        )
        if any(line is not None and not line.is_exact for line in hottest):
            parts.append("~ sampled")
        yield from self._space()
        yield from self._wrapped("; ".join(parts), "", "  ")

    def _next(self) -> Iterator[str]:
        report = self.report
        if not report.places:
            return
        # Commands are to be copied, so they are not cut.
        commands = [f"{self._command('report')} -o report.html"]
        if (busiest := self._busiest()) is not None:
            of_thread = ".".join(map(str, busiest[:3]))
            commands.insert(0, f"{self._command('pprof')} --thread {of_thread} --sort exclusive")
        if report.ranks:
            commands.append(self._command("ranks"))
            if any(layers.lacks_collectives(remark) for remark in report.remarks.values()):
                commands.insert(0, "taupy setup torch")
        elif report.gpu_ns:
            commands.append(self._command("kernels"))
        elif {phase.kind for phase in report.phases if phase.ns > 0} - NO_TRAINING:
            commands.append(self._command("layers"))
        commands.append(f"{self._command('report')} -v")
        words = f"next: {commands[0]}"
        for command in commands[1:]:
            if len(words) + 2 + len(command) <= self.width:
                words += f", {command}"
        yield visible(words)

    def _busiest(self) -> ThreadRow | None:
        """The thread or worker that does most for a main thread that mostly waits, if it does not
        wait itself."""
        waits = sum(
            place.share
            for group in self.report.places
            if group.group == MAIN
            for place in group.places.apart
            if place.kind == "waiting"
        )
        lanes = [lane for of in self.report.lanes for lane in of.lanes if lane.thread is not None]
        if waits < _MOSTLY or not lanes or self.report.ranks:
            return None
        busiest = max(lanes, key=lambda lane: lane.work_ns[1])
        return busiest.thread if busiest.work_ns[1] >= _MUCH * busiest.ns else None

    def _command(self, name: str) -> str:
        return f"taupy {name} {shlex.quote(self.report.selector)}{self.report.database}"

    def _wrapped(self, words: str, first: str = "", then: str | None = None) -> Iterator[str]:
        yield from textwrap.wrap(
            visible(words), self.width, initial_indent=first,
            subsequent_indent=first if then is None else then, break_on_hyphens=False,
        )  # fmt: skip


def _base(group: GroupPlaces) -> str:
    """What the shares of a group of threads are of."""
    return " (% of that)" if group.threads > 1 else ""


def no_findings(report: Report) -> str:
    """Where nothing is found: whether one place takes most of the time nevertheless; of workers, if
    the main thread waits for them."""
    number = len(RULES) - len({abstention.kind for abstention in report.judgement.abstentions})
    main = next((group for group in report.places if group.group == MAIN), None)
    rows = [] if main is None else main_places(main, 1)
    first, of = max(rows, key=lambda place: place.ns, default=None), ""
    if first and first.kind == "waiting" and (hottest := places.hottest(report.places)):
        group, first = hottest
        of = "" if group.group == MAIN else f" of {group.title.partition(',')[0]}"
    if first is None or first.share < _MOSTLY or first.kind == "imports":
        return f"no findings: {number} rules have looked"
    mostly = _mostly(first, mark_of(report), of)
    if not mostly:
        return f"no findings: {number} rules have looked"
    verdict = f"no findings by {number} rules, but {mostly}"
    package = "" if first.timer is None else (first.timer.file or "").partition("/")[0]
    if package not in report.compiled:
        return verdict
    return f"{verdict}; {package} has compiled modules, whose routines are not seen"


def waited_for_processor(report: Report) -> str:
    return f"a thread waited {duration(report.runnable_ns)} for a processor"


def cpu_time(report: Report) -> tuple[str, str]:
    """CPU time in all, and the processes or threads that it is the sum of, if there are several:
    of those that a signal has ended it is not known."""
    processes = len({thread.node for thread in report.cpu_ns})
    threads = sum(thread.threads for thread in report.cpu_ns)
    among = ""
    if report.processes > 1:
        among = f" in {_of(processes, report.processes)} processes"
    elif report.threads > 1:
        among = f" in {_of(threads, report.threads)} threads"
    return duration(sum(report.cpu_ns.values())), among


def _of(part: int, number: int) -> str:
    return f"{part} of {number}" if part < number else f"{part}"


def mark_of(report: Report) -> str:
    """What marks the times of routines, where they are estimates."""
    return "~" if report.trial.is_sampled else ""


def _mostly(place: Place, mark: str, of: str) -> str:
    """A place that takes most of the time: its line, if that does, and its calls; where these are
    unknown, its routine's. Nothing if that is called once, and several of its lines call what takes
    the time: such a routine is all of the program, not a place.

    Args:
        of: whose time, unless it is the main thread's.
    """
    hot, where = place.hottest, places.at(place)
    if place.kind == "waiting":
        return f"{mark}{percent(place.share)} is waiting" + (f": {where}" if where else "")
    of_line = 0.0 if hot is None else place.share * hot.time_ns / place.ns
    waits = " that mostly waits" if place.mostly_waits else ""
    if hot is None or of_line < _MOSTLY:
        name = places.described(replace(place, hottest=None))
        below = "below " if place.self_ns < _MOSTLY * place.ns else ""
        if below and hot is not None and place.calls == 1:
            return ""
        what = f"{mark}{percent(place.share)}{of} is {below}one routine{waits}: {name}"
        calls = place.calls
    else:
        about = "" if hot.is_exact else "~"
        what, calls = f"{about}{percent(of_line)}{of} is one line{waits}: {where}", hot.times
        if calls is None and place.timer is not None and place.calls and place.calls > 1:
            mean = duration(hot.time_ns / place.calls)
            what += f", in {_calls(place.calls)} of {_name(place.timer)}, ~{mean} in each"
    return f"{what}, {_calls(calls)}" if calls else what


def saved(finding: Finding) -> str:
    if not finding.saved_ns:
        return size(finding.saved_bytes)
    return f"up to {duration(finding.saved_ns)}, {percent(finding.saved_share)}"


def _several(lanes: Sequence[Lane]) -> str:
    return count(sum(lane.threads for lane in lanes))


def _from_to(lanes: Sequence[Lane]) -> str:
    """What they do besides waiting, from the least to the most."""
    least, most = zip(*(lane.work_ns for lane in lanes), strict=True)
    first, last = duration(min(least)), duration(max(most))
    return first if first == last else f"{first} to {last}"


def division(report: Report, named: float) -> tuple[str, list[str]] | None:
    """What a run consists of: a title, and each call with its time, as text.

    Args:
        named: the share of the run that is named otherwise.
    """
    of = report.division
    are_tests = of is not None and calls_tests(of.timer)
    if of is None or (named >= _NAMED and not are_tests):
        return None
    name, mark = places.short(of.timer), mark_of(report)
    name = "the program" if name == ROOT_TIMER else name
    within = f"{name.rpartition('.')[0]}."
    parts = [
        f"{places.called(part.timer).removeprefix(within)} {mark}{duration(part.ns)}"
        for part in of.parts
        if part.ns >= _LEAST * of.ns or are_tests
    ]
    return _TESTS if are_tests else f"{name} calls", parts


def packages(report: Report, group: GroupPlaces) -> list[str]:
    """The largest libraries, each with its time, where these do most."""
    whole, mark = sum(group.places.ns) or 1, mark_of(report)
    return [
        f"{places.titled(package)} {mark}{duration(package.ns)}"
        for package in group.leading
        if package.ns >= _LEAST * whole
    ]


def of_libraries(group: GroupPlaces) -> list[Place]:
    """The routines of libraries with most time of their own, as rows, where no own place is."""
    whole = sum(group.places.ns) or 1
    return [
        Place("outside", part.timer, part.ns, part.ns / whole, part.calls)
        for part in group.routines
        if part.ns >= _LEAST * whole
    ]


def main_places(group: GroupPlaces, most: int = places.FIRST) -> list[Place]:
    """The first own places; the largest waits, and imports if they are much, by their time."""
    rows, apart = group.places.largest(most, _LEAST), group.places.apart
    waits = [place for place in apart if place.kind == "waiting" and place.share >= _LEAST]
    waits = waits[: _WAITING if most <= places.FIRST else None]
    return _merged(rows, waits, _imports(group))


def _imports(group: GroupPlaces) -> list[Place]:
    """If they are much."""
    apart = group.places.apart
    return [place for place in apart if place.kind == "imports" and place.share >= _MUCH]


def _merged(own: Sequence[Place], *apart: Sequence[Place]) -> list[Place]:
    """Own places in their order, and each other one before the first that takes less time."""
    rows = [*own]
    for place in (place for places_apart in apart for place in places_apart):
        at = next((at for at, row in enumerate(rows) if row.ns < place.ns), len(rows))
        rows.insert(at, place)
    return rows


def _kind(place: Place) -> str:
    if place.mostly_waits:
        return "wait"
    return {"own": "own", "waiting": "wait", "imports": "import", "outside": "lib"}[place.kind]


def text_of(place: Place, width: int) -> str:
    """The source text of a place; of imports, which, with their times."""
    if place.kind == "imports":
        parts = [
            (places.short(part.timer).removeprefix("import "), duration(part.ns))
            for part in place.callees[:_CALLEES]
            if part.ns >= _LEAST * place.ns or part is place.callee
        ]
        first = [f"{_shortened(name, width - len(time) - 1)} {time}" for name, time in parts[:1]]
        return ", ".join(_fitting([*first, *(" ".join(part) for part in parts[1:])], width))
    return place.source or ""


def _name(timer: TimerRow) -> str:
    return places.short(timer)


def routine_of(place: Place) -> str:
    """The routine that a place's time is of, and its calls."""
    name, calls = _beside(place)
    return f"{name} {calls}".rstrip()


def _beside(place: Place) -> tuple[str, str]:
    waits = _WAITS if place.kind == "waiting" else ""
    if place.timer is None:
        return "waits" if waits else place.kind, ""
    name = places.called(place.timer) if place.kind == "outside" else _name(place.timer)
    return f"{waits}{visible(name)}", f"{count(place.calls)}x" if place.calls else ""


def _length(name: str, calls: str) -> int:
    return len(name) + (len(calls) + 1 if calls else 0)


def _with_calls(name: str, calls: str, width: int) -> str:
    """A name in so many columns: of a longer one, the end is shown, and its calls."""
    if name.startswith(_WAITS) and len(name) > len(_WAITS) + _LEAST_NAME:
        rest = _with_calls(name.removeprefix(_WAITS), calls, width - len(_WAITS))
        return f"{_WAITS}{rest}"
    if calls and len(calls) + 1 + min(len(name), _LEAST_NAME) <= width:
        return f"{_end(name, width - len(calls) - 1)} {calls}"
    return _end(name, width)


def line_of(place: Place, width: int | None = None) -> str:
    """`file:line` of a routine's hottest line, with the time of that line; of the routine's first
    if none is known."""
    if place.timer is None:
        return ""
    where, hot = places.at(place), shown_line(place)
    if width is not None:
        where = _end_of_path(where, width)
    if hot is None:
        return where
    return f"{where} {'' if hot.is_exact else '~'}{duration(hot.time_ns)}"


def shown_line(place: Place) -> HotLine | None:
    """The line that a routine is shown with; None if that is its first one."""
    return None if place.awaits else place.hottest


def details_of(place: Place, mark: str = "") -> list[str]:
    """What a routine mostly does, as far as it is known: each part in few words.

    Args:
        mark: of times of routines, where they are estimates.
    """
    if place.kind == "imports":
        return []
    parts = [*_awaits(place)] if place.awaits else []
    hot = place.hottest
    if place.timer is not None and place.timer.file in _HANDS_ON:
        parts.append("C code that it calls, such as of a compiled module")
    here = [part for part in _large(place) if _is_here(place, part)]
    for part in here:
        if not _is_the_line(hot, part):
            parts.append(_below(place, part, mark, hot))
    if not here and hot is not None and hot.calls and hot.calls != hot.text:
        about = "" if "~" in hot.calls else f" ~{duration(hot.time_ns)}"
        parts.append(f"{hot.calls}{about}")
    if elsewhere := _elsewhere(place, mark):
        parts.append(elsewhere)
    if (caller := place.caller) is not None:
        times = "" if caller.calls == place.calls else f" {count(caller.calls)} times"
        parts.append(f"called{times} by {_caller(place, caller.timer)}")
    if place.asleep_ns:
        parts.append(f"waits for ~{duration(place.asleep_ns)}")
    elif place.off_cpu_ns:
        parts.append(f"without a CPU for {duration(place.off_cpu_ns)} or more")
    return parts


def _large(place: Place) -> list[Part]:
    return [part for part in place.callees if part.ns >= _MUCH * place.ns][:_CALLEES]


def _elsewhere(place: Place, mark: str, least: float = 0.0) -> str:
    """What it calls in other lines than the hottest one; nothing if that is less than a share of
    its threads' time."""
    parts = [part for part in _large(place) if not _is_here(place, part)]
    if sum(part.ns for part in parts) * place.share < least * place.ns:
        return ""
    below = ", ".join(_below(place, part, mark) for part in parts)
    return f"in other lines: {below}" if below else ""


def _is_here(place: Place, part: Part) -> bool:
    """Whether a callee is one of the hottest line, behind whose text it stands: that has most of
    the callee's time, or the callee most of the line's. What others call too was seen there, too.
    """
    hot = place.hottest
    if place.kind != "own" or hot is None or hot.below is None:
        return True
    seen_ns = [
        ns for timer, ns in hot.below.items() if place.entries.get(timer, timer) == part.timer
    ]
    return bool(seen_ns) and sum(seen_ns) >= _MOSTLY * min(part.ns, hot.time_ns)


def _is_the_line(hot: HotLine | None, part: Part) -> bool:
    """Whether a callee is all that the hottest line does: its text and time say so already."""
    if hot is None or not hot.below or not hot.text:
        return False
    name = places.called(part.timer).split(".")[-1]
    return name in hot.text and abs(part.ns - hot.time_ns) <= _error_ns(hot)


def _error_ns(hot: HotLine) -> float:
    return max(2 * hot.error_ns, _SMALL * hot.time_ns)


def _below(place: Place, part: Part, mark: str, hot: HotLine | None = None) -> str:
    """A callee with its time, which may be longer than that of the line beside it, and its calls if
    they are others than the routine's."""
    in_all = " in all" if hot and hot.below and part.ns > hot.time_ns + _error_ns(hot) else ""
    calls = f", {_calls(part.calls)}" if part.calls and part.calls != place.calls else ""
    return f"{places.called(part.timer)} {mark}{duration(part.ns)}{in_all}{calls}"


_AWAITS = 3
"""Lines with awaits that are named."""


def _awaits(place: Place) -> Iterator[str]:
    """How often coroutines were suspended here, and at other lines, and for how long on average:
    the sum over thousands of tasks is hours in a run of seconds."""
    first, *others = place.awaits
    yield f"tasks wait {_times(first)} each"
    for other in others[: _AWAITS - 1]:
        if other.ns >= _MUCH * place.ns:
            file = "" if other.timer.file == first.timer.file else f"{other.timer.file}"
            yield f"{file}:{other.line} {_times(other)}"


def _times(of: Await) -> str:
    return f"{count(of.times)}x {duration(of.ns / max(of.times, 1))}"


def _caller(place: Place, caller: TimerRow) -> str:
    if place.timer is None or caller.file != place.timer.file or caller.line is None:
        return places.where(caller)
    name = places.short(caller)
    return name if name == "<module>" else f"{name} (defined in line {caller.line})"


def _calls(number: int) -> str:
    return f"{count(number)} call{'s' * (number != 1)}"


_ITS_CALLS = re.compile(r", [\d,]+ calls?$")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "<1 %"


def _cells(times: Sequence[float], width: int) -> list[int]:
    """Cells of a strip for each time; they add up to the width, and the largest remainders get what
    is left."""
    whole = sum(times)
    exact = [width * ns / whole for ns in times]
    cells = [int(part) for part in exact]
    by_rest = sorted(range(len(times)), key=lambda at: cells[at] - exact[at])
    for at in by_rest[: width - sum(cells)]:
        cells[at] += 1
    return cells


def _joined(parts: Sequence[str], between: str, width: int) -> Iterator[str]:
    """Lines of parts, none of which is broken; a part that is too long is shortened."""
    line = ""
    for part in parts:
        part = _shortened(part, width)
        if line and len(line) + len(between) + len(part) > width:
            yield line
            line = ""
        line += f"{between}{part}" if line else part
    if line:
        yield line


def _fitting(parts: Sequence[str], width: int) -> list[str]:
    """Those that fit into a line with those before them, if need be without their calls."""
    shown: list[str] = []
    for part in parts:
        for form in (part, _ITS_CALLS.sub("", part)):
            if len(", ".join([*shown, form])) <= width:
                shown.append(form)
                break
    return shown


def _shortened(words: str, width: int) -> str:
    """Text in so many columns."""
    return words if len(words) <= width else f"{words[: max(0, width - 1)].rstrip()}…"


def _end_of_path(path: str, width: int) -> str:
    """A path in so many columns: its last parts."""
    if len(path) <= width:
        return path
    end = path[len(path) - width + 2 :]
    if "/" in end:
        return f"…/{end.partition('/')[2]}"
    return _end(path, width)


def _end(words: str, width: int) -> str:
    """The end of a text in so many columns."""
    return words if len(words) <= width else f"…{words[len(words) - max(0, width - 1) :]}"
