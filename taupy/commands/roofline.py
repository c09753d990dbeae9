"""Show how near a program comes to what its machine can do, and what bounds it.

    taupy roofline                           table and verdict of the latest trial
    taupy roofline -o roof.html              an interactive page with every kind of chart
    taupy roofline -o roof.png --chart hierarchical
    taupy roofline gpu=V100 gpu=A100 -o both.svg
    taupy roofline --sweep batch 5 6 7 -o sweep.png --chart combined

Points are sums of counters: `taupy run --metrics roofline SCRIPT` measures them, `taupy
import` brings them from Nsight Compute. Roofs are the ceilings of the machine: measured by
`taupy ceilings`, else from a datasheet, else given with --ceilings. Beside every picture
and page stand FILE.csv and FILE.json with all its numbers. docs/rooflines.md tells more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import get_args

from taupy.catalog import datasheets
from taupy.commands import options
from taupy.commands.roofline_view import points_view, roof_lines
from taupy.commands.trials import add_form_arguments
from taupy.errors import UsageError
from taupy.model.machine import Ceiling, CeilingSource
from taupy.model.work import LEVELS, UNCOUNTED, TrialWork
from taupy.pprof import terminal
from taupy.profiledb import ceilings as stored
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.profiledb.text import shown
from taupy.roofline import chart as charts
from taupy.roofline import classic, export, points, sweep, timebased
from taupy.roofline.ceilings_file import ert_json, read_ceilings
from taupy.roofline.chart import Chart
from taupy.roofline.placement import Placement, place
from taupy.roofline.points import Of, Point
from taupy.roofline.roofs import Roofs, roofs_of
from taupy.roofline.verdict import verdict

HELP = "place kernels, routines, phases and programs under the roofs of their machine"

_KINDS = get_args(charts.Kind)
_PICTURES = (".png", ".svg", ".pdf")
_ENDINGS = (*_PICTURES, ".html", ".csv", ".json")
_EXPORTS = ("ncu-csv", "ert-json")
_SOURCES: tuple[CeilingSource, ...] = ("measured", "user", "report", "datasheet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help="default: latest")
    parser.add_argument(
        "--of",
        choices=get_args(Of),
        help="what a point is (default: kernel on a GPU, routine on a CPU)",
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help=f"draw or write; ends in {', '.join(_ENDINGS)}; may be repeated",
    )
    parser.add_argument(
        "--chart",
        action="append",
        choices=_KINDS,
        help="which chart (default: classic; a page has all); may be repeated",
    )
    parser.add_argument(
        "--level", choices=LEVELS, help="memory level (default: DRAM, else the furthest measured)"
    )
    parser.add_argument("--theme", choices=("light", "dark"), help="default: light")
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="points named in a chart (default: 10)"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="rows of the table in text (default: 20; 0: all)"
    )
    parser.add_argument("--timer", metavar="PATTERN", help="only names like this, with * and ?")
    parser.add_argument(
        "--inclusive", action="store_true", help="routines with all that they called"
    )
    parser.add_argument("--full-names", action="store_true", help="names in full in the table")
    parser.add_argument(
        "--timing",
        metavar="TRIAL",
        help="take run times from this trial, which ran without counters",
    )
    parser.add_argument(
        "--ceilings",
        action="append",
        default=[],
        metavar="WHAT",
        help="measured, report or datasheet; a GPU (V100, 'A100 SXM4 40 GB'); or a file: "
        "JSON of the Empirical Roofline Toolkit, CSV of kind,name,value; may be repeated",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="WHAT",
        help="draw these ceilings, too, dashed: a GPU, a file, or a source such as datasheet",
    )
    parser.add_argument(
        "--peak",
        metavar="NAME",
        default="precision",
        help="hold all flop against this one peak, such as 'tensor fp16' (default: each "
        "precision against its own)",
    )
    parser.add_argument(
        "--latency",
        metavar="TIME",
        help="of one launch, such as 4.2us, or how it was timed: back-to-back, 'event pair', graph",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU ceilings of so many threads")
    parser.add_argument(
        "--sweep",
        metavar="NAME",
        help="draw trajectories over this parameter: NAME=VALUE in phases or metadata",
    )
    parser.add_argument(
        "--series", metavar="NAME", help="with --sweep: metadata that names a trial's series"
    )
    parser.add_argument(
        "--export",
        nargs=2,
        action="append",
        default=[],
        metavar=("FORMAT", "FILE"),
        help=f"for other tools: {', '.join(_EXPORTS)}",
    )
    options.add_database_argument(parser)
    add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    with ProfileDB.open(options.database_path(args), readonly=True) as db:
        trials = selector.many(db, args.trials or ["latest"])
        work = [trial_work(db, trial) for trial in trials]
        timing = trial_work(db, selector.one(db, args.timing)) if args.timing else None
        there = stored.ceilings(db)
    found = _points(args, work, timing)
    placements = _placed(args, found, work, there)
    also = _also(args.also, placements, there)
    numbers: dict[str, tuple[list[str], list[Chart]]] = {}
    for path in args.output:
        stem, ending = path[: -len(Path(path).suffix)], Path(path).suffix.lower()
        endings, made = numbers.setdefault(stem, ([], []))
        made += _write(path, args, placements, also)
        endings += [ending] if ending in (".csv", ".json") else [".csv", ".json"]
    for stem, (endings, made) in numbers.items():
        _write_numbers(stem, endings, made)
    for form, path in args.export:
        _export(form, path, placements)
    _show(args, placements, work)
    return 0


def _check(args: argparse.Namespace) -> None:
    for path in args.output:
        if Path(path).suffix.lower() not in _ENDINGS:
            raise UsageError(f"{path}: an output ends in {', '.join(_ENDINGS)}")
    for form, _ in args.export:
        if form not in _EXPORTS:
            raise UsageError(f"--export takes {' or '.join(_EXPORTS)}, not '{form}'")
    if args.top < 1:
        raise UsageError("--top is 1 or more")
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit is 0 or more")
    if args.series and not args.sweep:
        raise UsageError("--series goes with --sweep NAME")


# --- points ------------------------------------------------------------------


def _points(
    args: argparse.Namespace, work: Sequence[TrialWork], timing: TrialWork | None
) -> list[Point]:
    of: Of = args.of or _usual(args, work)
    if args.inclusive and of != "routine":
        raise UsageError("--inclusive goes with --of routine; phases and programs always are")
    found: list[Point] = []
    for one in work:
        made = points.points(one, of, inclusive=args.inclusive, timing=timing)
        points.require(made, one)
        found += made
    if args.timer:
        kept = [
            point
            for point in found
            if fnmatchcase(point.name, args.timer) or fnmatchcase(point.short, args.timer)
        ]
        if not kept:
            raise UsageError(
                f"no {of} is named like '{args.timer}' ({len(found)} are there; "
                "`taupy roofline --limit 0` lists them)"
            )
        found = kept
    if args.sweep:
        metadata = {one.trial_id: one.metadata for one in work}
        found = sweep.swept(found, args.sweep, metadata, args.series)
    if args.sweep:
        return sorted(found, key=lambda point: (point.series, point.parameter or 0.0))
    return sorted(found, key=lambda point: -point.share)


def _usual(args: argparse.Namespace, work: Sequence[TrialWork]) -> Of:
    """What a point is where nobody says it."""
    if args.sweep:
        phases = any(
            sweep.parameter_in(place.name, args.sweep) is not None
            for one in work
            for place in one.timers
            if "PHASE" in place.groups
        )
        return "phase" if phases else "program"
    if all(points.runs_on_gpu(one) for one in work):
        return "kernel"
    if any(one.kernels and not points.has_host_work(one) for one in work):
        return "kernel"  # and the error says what is missing
    return "routine"


# --- roofs -------------------------------------------------------------------


def _placed(
    args: argparse.Namespace,
    found: Sequence[Point],
    work: Sequence[TrialWork],
    there: Sequence[Ceiling],
) -> list[Placement]:
    chosen = _chosen(args.ceilings, there)
    hosts = {one.trial_id: one.metadata.get("Hostname", "") for one in work}
    known: dict[tuple[str, str], Roofs] = {}
    placements = []
    for point in found:
        key = (point.processor, hosts[point.trial])
        if key not in known:
            known[key] = _roofs(args, point.processor, _of_host(there, key[1]), chosen)
        placements.append(place(point, known[key]))
    return placements


def _also(
    asked: Sequence[str], placements: Sequence[Placement], there: Sequence[Ceiling]
) -> list[Roofs]:
    """Further roofs for a chart: of a source for each processor, or of a GPU or a file."""
    found = []
    for text in asked:
        pools: list[tuple[str, list[Ceiling]]] = []
        if text in _SOURCES:
            names = dict.fromkeys(each.point.processor for each in placements)
            pools = [(name, _pool(name, there, [text])) for name in names]
        else:
            pools = [_given(text, there, [])]
        for name, pool in pools:
            roofs = roofs_of(name, partial(stored.best_of, pool))
            if roofs.empty:
                raise UsageError(
                    f"--also: no {text} ceilings of {name or 'the processor'} are known"
                )
            found.append(roofs)
    return found


def _of_host(there: Sequence[Ceiling], host: str) -> list[Ceiling]:
    """CPUs of virtual machines share a name ("AMD EPYC"): where the trial's own host was
    measured, what others of that name reached does not count."""
    own = {one.processor for one in there if one.machine == host and not one.device_uuid}
    return [
        one
        for one in there
        if one.device_uuid or one.machine in ("", host) or one.processor not in own
    ]


def _roofs(
    args: argparse.Namespace,
    processor: str,
    there: Sequence[Ceiling],
    chosen: _Chosen,
) -> Roofs:
    given = chosen.of(processor)
    if given is not None:
        name, pool = given
    else:
        name, pool = processor, _pool(processor, there, chosen.sources)
    if args.threads is not None:
        pool = [one for one in pool if one.threads in (0, args.threads)]

    latency = _latency(args.latency, pool)
    return roofs_of(name, partial(stored.best_of, pool), rule=args.peak.lower(), latency=latency)


def _pool(
    processor: str, there: Sequence[Ceiling], sources: Sequence[CeilingSource]
) -> list[Ceiling]:
    """Ceilings of a processor: those kept, then the datasheet's, then published ones.

    Published rates come in only where asked for, but for the launch latency, of which
    datasheets are silent.
    """
    wanted = processor.strip().lower()
    pool = [one for one in there if one.processor.strip().lower() == wanted]
    sheet = datasheets.datasheet(processor)
    if sheet is not None:
        pool += datasheets.ceilings(sheet)
        reports = datasheets.ceilings(sheet, "report")
        pool += [one for one in reports if sources or one.kind == "latency"]
    if sources:
        pool = [one for one in pool if one.source in sources]
    return pool


class _Chosen:
    """What --ceilings asks for: sources, and pools of given GPUs and files."""

    def __init__(self) -> None:
        self.sources: list[CeilingSource] = []
        self.pools: dict[str, list[Ceiling]] = {}

    def of(self, processor: str) -> tuple[str, list[Ceiling]] | None:
        """The pool for a processor: its own, else the only one."""
        if not self.pools:
            return None
        sheet = datasheets.datasheet(processor)
        if sheet is not None and sheet.gpu in self.pools:
            return sheet.gpu, self.pools[sheet.gpu]
        if processor in self.pools:
            return processor, self.pools[processor]
        if len(self.pools) > 1:
            raise UsageError(
                f"--ceilings names {', '.join(self.pools)}, and none of them is "
                f"'{processor or 'the unknown processor of the trial'}'"
            )
        return next(iter(self.pools.items()))


def _chosen(asked: Sequence[str], there: Sequence[Ceiling]) -> _Chosen:
    chosen = _Chosen()
    words = []
    for text in asked:
        if text in _SOURCES:
            chosen.sources.append(text)
        else:
            words.append(text)
    for text in words:
        name, pool = _given(text, there, chosen.sources)
        chosen.pools.setdefault(name, []).extend(pool)
    return chosen


def _given(
    text: str, there: Sequence[Ceiling], sources: Sequence[CeilingSource]
) -> tuple[str, list[Ceiling]]:
    if os.path.isfile(text):
        found = read_ceilings(text)
        return found[0].processor, found
    kept = [one.processor for one in there if one.processor.lower() == text.lower()]
    if kept:
        return kept[0], _pool(kept[0], there, sources)
    sheets = datasheets.candidates(text)
    if not sheets:
        raise UsageError(
            f"--ceilings: '{text}' is no file, no source ({', '.join(_SOURCES)}) and no GPU "
            "that a datasheet is known of"
        )
    if len(sheets) > 1:
        names = ", ".join(f"'{sheet.gpu}'" for sheet in sheets)
        raise UsageError(f"--ceilings: '{text}' may be {names}; say which")
    sheet = sheets[0]
    pool = datasheets.ceilings(sheet)
    reports = datasheets.ceilings(sheet, "report")
    pool += [one for one in reports if sources or one.kind == "latency"]
    if sources:
        pool = [one for one in pool if one.source in sources]
    return sheet.gpu, pool


_TIME = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(ns|us|µs|ms|s)?\s*")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, None: 1.0}


def _latency(text: str | None, pool: Sequence[Ceiling]) -> Ceiling | None:
    """The latency given as a time, or as the pattern of one that is known."""
    if text is None:
        return None
    patterns = [one for one in pool if one.kind == "latency" and one.pattern == text]
    if patterns:
        return stored.best_of(patterns, "latency", "launch")
    match = _TIME.fullmatch(text)
    if match is None or not float(match.group(1)) > 0:
        there = ", ".join(dict.fromkeys(one.pattern for one in pool if one.kind == "latency"))
        raise UsageError(
            f"--latency is a time such as 4.2us, or how launches were timed "
            f"({there or 'nothing is known of that here'}), not '{text}'"
        )
    value = float(match.group(1)) * _SECONDS[match.group(2)]
    return Ceiling(
        *("option", "", "", "", "latency", "launch", "given", 0, value, "s", "user"),
        reference="--latency",
    )


# --- output ------------------------------------------------------------------


def _level(args: argparse.Namespace, placements: Sequence[Placement]) -> str:
    levels = classic.levels_in(placements)
    if args.level is None:
        return "DRAM" if "DRAM" in levels else levels[-1]
    if args.level not in levels:
        raise UsageError(
            f"no point has bytes of level {args.level} (measured: {', '.join(levels)})"
        )
    return str(args.level)


def _chart(
    kind: charts.Kind,
    level: str,
    placements: Sequence[Placement],
    top: int,
    also: Sequence[Roofs],
) -> Chart:
    if kind == "hierarchical":
        return classic.hierarchical(placements, top, also)
    if kind == "classic":
        return classic.classic(placements, level, top, also)
    build = {
        "complexity": timebased.complexity,
        "time": timebased.time_plane,
        "combined": timebased.combined,
    }[kind]
    return build(placements, level, top)


def _need_roofs(kind: charts.Kind, level: str, placements: Sequence[Placement]) -> None:
    """A chart of times is made of roofs; without them it would be empty."""
    if kind in ("classic", "hierarchical"):
        return
    if not any(each.times(level) for each in placements):
        name = placements[0].roofs.processor or "this processor"
        raise UsageError(
            f"the {kind} chart needs a compute roof and a {level} roof of {name}; measure them "
            "with `taupy ceilings`, or name a GPU or a file with --ceilings"
        )


def _write(
    path: str, args: argparse.Namespace, placements: Sequence[Placement], also: Sequence[Roofs]
) -> list[Chart]:
    """Write a picture or a page; the charts in it."""
    ending = Path(path).suffix.lower()
    level = _level(args, placements)
    if ending == ".html":
        made = _all_charts(args, placements, also)
        from taupy.roofline.page import html_page

        _save(path, html_page(made, args.theme))
    else:
        kinds = list(dict.fromkeys(args.chart or ["classic"]))
        for kind in kinds:
            _need_roofs(kind, level, placements)
        made = [_chart(kind, level, placements, args.top, also) for kind in kinds]
        if ending in _PICTURES:
            from taupy.roofline.picture import write_picture

            for kind, one in zip(kinds, made, strict=True):
                name = path if len(made) == 1 else f"{path[: -len(ending)]}-{kind}{ending}"
                write_picture(one, name, args.theme or "light")
                _say(f"wrote {name}")
    return made


def _write_numbers(path: str, endings: Sequence[str], made: Sequence[Chart]) -> None:
    """Beside pictures and pages of one name: one CSV of points, one JSON of charts."""
    if ".csv" in endings:
        _save(path + ".csv", export.table_csv(made[0].points))
    if ".json" in endings:
        unique = {(one.kind, one.level): one for one in made}
        data = [charts.to_json(one) for one in unique.values()]
        _save(path + ".json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _all_charts(
    args: argparse.Namespace, placements: Sequence[Placement], also: Sequence[Roofs]
) -> list[Chart]:
    """Every chart that has something to show, the asked ones and the asked level first."""
    first = _level(args, placements)
    levels = [first, *(one for one in classic.levels_in(placements) if one != first)]
    kinds = [*dict.fromkeys(args.chart or ()), *_KINDS]
    made = []
    for kind in dict.fromkeys(kinds):
        if kind == "hierarchical":
            if len(levels) > 1:
                made.append(_chart(kind, "", placements, args.top, also))
            continue
        for level in levels:
            if kind == "classic" or any(each.times(level) for each in placements):
                made.append(_chart(kind, level, placements, args.top, also))
    return made


def _save(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}") from None
    _say(f"wrote {path}")


def _export(form: str, path: str, placements: Sequence[Placement]) -> None:
    if form == "ncu-csv":
        kernels = [each.point for each in placements if each.point.of == "kernel"]
        if not kernels:
            raise UsageError("--export ncu-csv writes kernels; these points are none")
        _save(path, export.ncu_csv(kernels))
        return
    roofs = placements[0].roofs
    if roofs.empty:
        raise UsageError("--export ert-json writes roofs, and none are known here")
    _save(path, ert_json(roofs))


def _show(
    args: argparse.Namespace, placements: Sequence[Placement], work: Sequence[TrialWork]
) -> None:
    limit = 20 if args.limit is None else args.limit
    listed = placements if args.form != "text" or not limit else placements[:limit]
    notes: list[str] = []
    if len(listed) < len(placements):
        rest = sum(each.point.share for each in placements[len(listed) :])
        notes.append(
            f"{len(placements) - len(listed)} more, {100 * rest:.1f} % of the time: --limit 0"
        )
    notes += roof_lines(placements)
    notes += [f"! {text}" for text in charts.warnings(placements)]
    notes += [
        f"! trial {one.trial_id} did operations that nobody counted: {one.metadata[UNCOUNTED]}"
        for one in work
        if UNCOUNTED in one.metadata
    ]
    notes += charts.remarks(placements, idle=False)
    wall = work[0].wall_ns / 1e9 if len(work) == 1 and work[0].wall_ns > 0 else None
    notes += verdict(placements, wall=wall)
    terminal.show(points_view(listed, _title(work), notes, args.full_names), form=args.form)


def _title(work: Sequence[TrialWork]) -> str:
    names = [f"{one.trial_id}: {one.name}" for one in work[:3]]
    more = f" and {len(work) - 3} more" if len(work) > 3 else ""
    return f"ROOFLINE OF TRIAL{'S' if len(work) > 1 else ''} {', '.join(names)}{more}"


def _say(text: str) -> None:
    print(f"taupy: {shown(text)}", file=sys.stderr)
