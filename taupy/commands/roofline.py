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
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

from taupy.commands import options
from taupy.commands.roofline_files import ENDINGS, EXPORTS, KINDS, Drawing, write, write_export
from taupy.commands.roofline_roofs import known
from taupy.commands.roofline_view import points_view, roof_lines
from taupy.errors import UsageError
from taupy.model.work import LEVELS, UNCOUNTED, TrialWork
from taupy.pprof import terminal
from taupy.profiledb import ceilings as stored
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.roofline import chart as charts
from taupy.roofline import points, stated, sweep
from taupy.roofline.choice import Wishes, also, placed
from taupy.roofline.naming import aliased
from taupy.roofline.placement import Placement
from taupy.roofline.point import Of, Point
from taupy.roofline.verdict import verdict

HELP = "place kernels, routines, phases and programs under the roofs of their machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help="default: latest")
    parser.add_argument(
        "--of",
        choices=get_args(Of),
        help="what a point is (default: kernel on a GPU, routine on a CPU); launch: those of a "
        "kernel that are alike, by call path, in Nsight Compute's files by configuration and time",
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help=f"draw or write; ends in {', '.join(ENDINGS)}; may be repeated",
    )
    parser.add_argument(
        "--chart",
        action="append",
        choices=KINDS,
        help="which chart (default: classic; a page has all); may be repeated",
    )
    parser.add_argument(
        "--level", choices=LEVELS, help="memory level (default: DRAM, else the furthest measured)"
    )
    parser.add_argument("--title", metavar="TEXT", help="of pictures and pages")
    parser.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="'PATTERN=NAME'",
        help="show points named like this, with * and ?, under another name; may be repeated",
    )
    parser.add_argument(
        "--size", metavar="WxH", help="of pictures, in inches: 11x6 (default: as needed)"
    )
    parser.add_argument("--theme", choices=("light", "dark"), help="default: light")
    parser.add_argument(
        "--equal-decades",
        action="store_true",
        help="make a decade as long across as up: slanted roofs rise at 45 degrees",
    )
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
    for quantity, example in (("flop", "2*M*N*K"), ("bytes", "(M*K+K*N+M*N)*4")):
        parser.add_argument(
            f"--{quantity}",
            action="append",
            default=[],
            metavar=f"'KERNEL={example}'",
            help=f"{quantity} of one launch of kernels that were not counted, names with * and ?; "
            "M, N, K are metadata of the trial or numbers; may be repeated",
        )
    parser.add_argument(
        "--ceilings",
        action="append",
        default=[],
        metavar="WHAT",
        help="measured, report or datasheet; a GPU (H200, 'A100 SXM4 40 GB'); or a file: "
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
        help=f"for other tools: {', '.join(EXPORTS)}",
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    with ProfileDB.open(options.database_path(args), readonly=True) as db:
        trials = selector.many(db, args.trials or ["latest"])
        work = [trial_work(db, trial) for trial in trials]
        timing = trial_work(db, selector.one(db, args.timing)) if args.timing else None
        if timing is not None:  # of other clocks than those that the counts' own roofs hold at
            work = [replace(one, ceilings=()) for one in work]
        there = stored.ceilings(db)
    found = aliased(_points(args, work, timing), args.alias)
    wishes = Wishes(args.ceilings, args.peak, args.latency, args.threads)
    placements = placed(wishes, found, work, known(there))
    drawing = Drawing(
        placements,
        args.chart or (),
        args.level,
        args.theme,
        args.top,
        also(
            args.also,
            placements,
            known([*there, *(own for one in work for own in one.ceilings)]),
        ),
        args.equal_decades,
        args.title or "",
        _size(args.size),
    )
    write(args.output, drawing)
    for form, path in args.export:
        write_export(form, path, placements)
    _show(args, placements, work)
    return 0


def _check(args: argparse.Namespace) -> None:
    for path in args.output:
        if Path(path).suffix.lower() not in ENDINGS:
            raise UsageError(f"{path}: an output ends in {', '.join(ENDINGS)}")
    for form, _ in args.export:
        if form not in EXPORTS:
            raise UsageError(f"--export takes {' or '.join(EXPORTS)}, not '{form}'")
    if args.top < 1:
        raise UsageError("--top is 1 or more")
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit is 0 or more")
    if args.series and not args.sweep:
        raise UsageError("--series goes with --sweep NAME")


def _size(text: str | None) -> tuple[float, float] | None:
    """`11x6`: inches across and up."""
    if text is None:
        return None
    width, _, height = text.lower().partition("x")
    try:
        size = float(width), float(height)
    except ValueError:
        size = (0.0, 0.0)
    if not all(1 <= side <= 100 for side in size):
        raise UsageError(f"--size takes width and height in inches, such as 11x6, not '{text}'")
    return size


# --- points ------------------------------------------------------------------


def _points(
    args: argparse.Namespace, work: Sequence[TrialWork], timing: TrialWork | None
) -> list[Point]:
    of: Of = args.of or _usual(args, work)
    if args.inclusive and of != "routine":
        raise UsageError("--inclusive goes with --of routine; phases and programs always are")
    found: list[Point] = []
    statements = [stated.statement("flop", text) for text in args.flop]
    statements += [stated.statement("bytes", text) for text in args.bytes]
    for one in work:
        made = points.points(
            one, of, inclusive=args.inclusive, timing=timing, uncounted=bool(statements)
        )
        made = stated.stated(made, statements, one.metadata)
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
    if (args.flop or args.bytes) and all(one.kernels for one in work):
        return "kernel"
    if any(one.kernels and not points.has_host_work(one) for one in work):
        return "kernel"  # and the error says what is missing
    return "routine"


def _show(
    args: argparse.Namespace, placements: Sequence[Placement], work: Sequence[TrialWork]
) -> None:
    limit = 20 if args.limit is None else args.limit
    listed = placements if args.form != "text" or not limit else placements[:limit]
    notes: list[str] = []
    if len(listed) < len(placements):
        rest = placements[len(listed) :]
        share = f", {100 * sum(each.point.share for each in rest):.1f} % of the time"
        notes.append(f"{len(rest)} more{share if len(work) == 1 else ''}: --limit 0")
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
