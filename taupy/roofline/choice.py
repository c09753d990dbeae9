"""Choose ceilings, and place points under the resulting roofs.

Ceilings come from the trial itself, from the database, from a datasheet, or from --ceilings. The
caller decides which of several ceilings is the most reliable and reads profiler reports
(`Known`), so that this module depends on neither database nor formats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from taupy import units
from taupy.catalog import datasheets
from taupy.errors import UsageError
from taupy.model.machine import Ceiling, CeilingKind, CeilingSource
from taupy.model.work import TrialWork
from taupy.roofline.ceilings_file import read_ceilings
from taupy.roofline.placement import Placement, place
from taupy.roofline.point import Point
from taupy.roofline.roofs import Roofs, roofs_of

_SOURCES: tuple[CeilingSource, ...] = ("measured", "user", "report", "datasheet")


class Wishes:
    """The command line's options about ceilings.

    Attributes:
        requested: sources, GPUs and files, as typed.
        peak: a single peak for all flop, or "precision".
        latency: time of a launch, as typed; None for the best known.
        threads: number of threads of CPU ceilings; None for any.
    """

    def __init__(
        self,
        requested: Sequence[str] = (),
        peak: str = "precision",
        latency: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.requested = requested
        self.peak = peak.lower()
        self.latency = latency
        self.threads = threads


@dataclass(frozen=True, slots=True)
class Known:
    """The available ceilings, and how to choose among them.

    Attributes:
        ceilings: ceilings in the database.
        best_of: the most reliable ceiling of a kind and name; None if there is none.
        of_report: reads the ceilings in a profiler's file (may raise FormatError); none if it is
            another tool's file.
    """

    ceilings: Sequence[Ceiling]
    best_of: Callable[[Sequence[Ceiling], CeilingKind, str], Ceiling | None]
    of_report: Callable[[str], list[Ceiling]]

    def of_host(self, host: str) -> Known:
        """CPUs of virtual machines share a name ("AMD EPYC"): if the trial's own host was
        measured, ceilings of other hosts with that CPU name are ignored."""
        own = {
            ceiling.processor
            for ceiling in self.ceilings
            if ceiling.machine == host and not ceiling.device_uuid
        }
        kept = [
            ceiling
            for ceiling in self.ceilings
            if ceiling.device_uuid or ceiling.machine in ("", host) or ceiling.processor not in own
        ]
        return replace(self, ceilings=kept)


def placed(
    wishes: Wishes,
    points: Sequence[Point],
    work: Sequence[TrialWork],
    ceilings: Known,
) -> list[Placement]:
    """Every point under the roofs of its processor.

    Raises:
        UsageError: the requested ceilings are unknown.
    """
    chosen = _chosen(wishes.requested, ceilings)
    of = {trial_work.trial_id: trial_work for trial_work in work}
    roofs: dict[tuple[str, str, tuple[Ceiling, ...]], Roofs] = {}
    placements = []
    for point in points:
        trial = of[point.trial]
        key = (point.processor, trial.metadata.get("Hostname", ""), trial.ceilings)
        if key not in roofs:
            here = ceilings.of_host(key[1])
            roofs[key] = _roofs(wishes, point.processor, here, chosen, trial.ceilings)
        placements.append(place(point, roofs[key]))
    for trial in work if wishes.threads is None else ():
        if _on_one_thread(trial):
            placements = _under_roofs_of_one_thread(wishes, placements, ceilings, chosen, trial)
    return placements


def _on_one_thread(trial: TrialWork) -> bool:
    """Whether the program used no more CPU time than one thread could."""
    try:
        used = sum(float(trial.metadata[f"CPU Time {who} (s)"]) for who in ("User", "System"))
    except (KeyError, ValueError):
        return False
    threads = {routine.thread for routine in trial.routines}
    return len(threads) == 1 and 0 < used <= _ONE_THREAD * trial.wall_ns / 1e9


def _under_roofs_of_one_thread(
    wishes: Wishes,
    placements: list[Placement],
    ceilings: Known,
    chosen: _Chosen,
    trial: TrialWork,
) -> list[Placement]:
    """A trial's points under the roofs of one thread, unless a point would be above them: then
    threads of a library worked part of the time."""
    alone = Wishes(wishes.requested, wishes.peak, wishes.latency, 1)
    here = ceilings.of_host(trial.metadata.get("Hostname", ""))
    placed_again = []
    for placement in placements:
        if placement.point.trial != trial.trial_id or placement.point.launches:
            placed_again.append(placement)
            continue
        roofs = _roofs(alone, placement.point.processor, here, chosen, trial.ceilings)
        roofs = replace(roofs, processor=f"{roofs.processor} (1 thread)")
        own = place(
            replace(placement.point, notes=(*placement.point.notes, _ONE_THREAD_NOTE)), roofs
        )
        if set(roofs.compute) != set(placement.roofs.compute) or own.above_roof:
            return placements
        placed_again.append(own)
    return placed_again


_ONE_THREAD = 1.05
_ONE_THREAD_NOTE = "roofs for one thread, because the run used no more CPU time; see --threads N"


def also(requested: Sequence[str], placements: Sequence[Placement], ceilings: Known) -> list[Roofs]:
    """Additional roofs for a chart: a source's for each processor, a GPU's, or those in a file."""
    more = []
    for text in requested:
        pools: list[tuple[str, list[Ceiling]]] = []
        if text in _SOURCES:
            names = dict.fromkeys(placement.point.processor for placement in placements)
            pools = [(name, _pool(name, ceilings.ceilings, [text])) for name in names]
        else:
            pools = [_given(text, ceilings, [])]
        for name, pool in pools:
            roofs = roofs_of(name, partial(ceilings.best_of, pool))
            if roofs.empty:
                raise UsageError(f"--also: no {text} ceilings known for {name or 'the processor'}")
            more.append(roofs)
    return more


def _roofs(
    wishes: Wishes,
    processor: str,
    ceilings: Known,
    chosen: _Chosen,
    own: Sequence[Ceiling],
) -> Roofs:
    """Ceilings stored with the trial (`own`) hold at its clock: they come first, and the
    processor's name includes that clock."""
    given = chosen.of(processor)
    if given is not None:
        own, (name, pool) = [], given
    else:
        own = _kept(processor, own, chosen.sources)
        name, pool = processor, _pool(processor, ceilings.ceilings, chosen.sources)
        if own and own[0].clock_hz:
            name += f" at {units.prefixed(own[0].clock_hz, 'Hz')}"
    if wishes.threads is not None:
        pool = [ceiling for ceiling in pool if ceiling.threads in (0, wishes.threads)]

    def best(kind: CeilingKind, ceiling: str) -> Ceiling | None:
        return ceilings.best_of(own, kind, ceiling) or ceilings.best_of(pool, kind, ceiling)

    latency = _latency(wishes.latency, pool, ceilings)
    return roofs_of(name, best, rule=wishes.peak, latency=latency)


def _pool(
    processor: str, ceilings: Sequence[Ceiling], sources: Sequence[CeilingSource]
) -> list[Ceiling]:
    """Ceilings of a processor: stored ones, then the datasheet's, then published ones.

    Published rates are used on request only, except for the launch latency, which datasheets do
    not have.
    """
    pool = _kept(processor, ceilings, sources)
    sheet = datasheets.datasheet(processor)
    return pool if sheet is None else [*pool, *_of_sheet(sheet, sources)]


def _kept(
    processor: str, ceilings: Sequence[Ceiling], sources: Sequence[CeilingSource]
) -> list[Ceiling]:
    wanted = processor.strip().lower()
    return [
        ceiling
        for ceiling in ceilings
        if ceiling.processor.strip().lower() == wanted
        and (not sources or ceiling.source in sources)
    ]


def _of_sheet(sheet: datasheets.Datasheet, sources: Sequence[CeilingSource]) -> list[Ceiling]:
    reports = datasheets.ceilings(sheet, "report")
    pool = datasheets.ceilings(sheet)
    pool += [report for report in reports if sources or report.kind == "latency"]
    return [ceiling for ceiling in pool if not sources or ceiling.source in sources]


class _Chosen:
    """The parsed --ceilings: sources, and pools of the named GPUs and files."""

    def __init__(self) -> None:
        self.sources: list[CeilingSource] = []
        self.pools: dict[str, list[Ceiling]] = {}

    def of(self, processor: str) -> tuple[str, list[Ceiling]] | None:
        """The pool for a processor: its own, or else the only one."""
        if not self.pools:
            return None
        sheet = datasheets.datasheet(processor)
        if sheet is not None and sheet.gpu in self.pools:
            return sheet.gpu, self.pools[sheet.gpu]
        if processor in self.pools:
            return processor, self.pools[processor]
        if len(self.pools) > 1:
            raise UsageError(
                f"--ceilings names {', '.join(self.pools)}, but the trial ran on "
                f"'{processor or 'an unknown processor'}'"
            )
        return next(iter(self.pools.items()))


def _chosen(requested: Sequence[str], ceilings: Known) -> _Chosen:
    chosen = _Chosen()
    words = []
    for text in requested:
        if text in _SOURCES:
            chosen.sources.append(text)
        else:
            words.append(text)
    for text in words:
        name, pool = _given(text, ceilings, chosen.sources)
        chosen.pools.setdefault(name, []).extend(pool)
    return chosen


def _given(
    text: str, ceilings: Known, sources: Sequence[CeilingSource]
) -> tuple[str, list[Ceiling]]:
    if os.path.isfile(text):
        given = ceilings.of_report(text) or read_ceilings(text)
        return given[0].processor, given
    kept = [
        ceiling.processor
        for ceiling in ceilings.ceilings
        if ceiling.processor.lower() == text.lower()
    ]
    if kept:
        return kept[0], _pool(kept[0], ceilings.ceilings, sources)
    sheets = datasheets.candidates(text)
    if not sheets:
        raise UsageError(
            f"--ceilings: '{text}' is not a file, a source ({', '.join(_SOURCES)}), a processor "
            "of `taupy ceilings list`, or a GPU with a known datasheet"
        )
    if len(sheets) > 1:
        names = ", ".join(f"'{sheet.gpu}'" for sheet in sheets)
        raise UsageError(f"--ceilings: '{text}' matches {names}; choose one")
    return sheets[0].gpu, _of_sheet(sheets[0], sources)


_TIME = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(ns|us|µs|ms|s)?\s*")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, None: 1.0}


def _latency(text: str | None, pool: Sequence[Ceiling], ceilings: Known) -> Ceiling | None:
    """The latency, given as a time or as the name of a known one."""
    if text is None:
        return None
    patterns = [
        ceiling for ceiling in pool if ceiling.kind == "latency" and ceiling.pattern == text
    ]
    if patterns:
        return ceilings.best_of(patterns, "latency", "launch")
    match = _TIME.fullmatch(text)
    if match is None or not float(match.group(1)) > 0:
        known_patterns = ", ".join(
            dict.fromkeys(ceiling.pattern for ceiling in pool if ceiling.kind == "latency")
        )
        raise UsageError(
            f"--latency takes a time such as 4.2us, or how launches were timed "
            f"({known_patterns or 'none are known here'}), not '{text}'"
        )
    value = float(match.group(1)) * _SECONDS[match.group(2)]
    return Ceiling(
        *("option", "", "", "", "latency", "launch", "given", 0, value, "s", "user"),
        reference="--latency",
    )
