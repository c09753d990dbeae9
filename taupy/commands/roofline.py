"""Compare a program with the limits of its machine, and show what bounds it.

    taupy roofline                           table and verdict of the latest trial
    taupy roofline -o roof.html              an interactive page with every kind of chart
    taupy roofline -o roof.png --chart hierarchical
    taupy roofline gpu=V100 gpu=A100 -o both.svg
    taupy roofline --sweep batch 5 6 7 -o sweep.png --chart combined

Points are sums of counters: `taupy run --metrics roofline SCRIPT` measures them, `taupy import`
reads them from Nsight Compute. Roofs are the machine's ceilings: measured by `taupy ceilings`,
from a datasheet, or given with --ceilings. Every picture comes with FILE.csv and FILE.json, which
hold all its numbers; a page holds its own. See docs/rooflines.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.commands.roofline_files import ENDINGS, EXPORTS, write, write_export
from taupy.errors import MissingMetric, UsageError
from taupy.model.work import LEVELS, UNCOUNTED, TrialWork
from taupy.pprof import terminal
from taupy.profiledb import ceilings as stored
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import rank_work, trial_work
from taupy.profiledb.step_work import with_steps
from taupy.roofline import chart as charts
from taupy.roofline import points, stated, sweep
from taupy.roofline.choice import Wishes, also, placed
from taupy.roofline.drawing import KINDS, Drawing
from taupy.roofline.naming import aliased
from taupy.roofline.placement import Placement
from taupy.roofline.point import Of, Point
from taupy.roofline.verdict import verdict
from taupy.roofline.view import points_view, roof_lines
from taupy.study.known_roofs import known_ceilings
from taupy.units import listing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help="default: latest")
    parser.add_argument("--of", dest="by", action=options.RENAMED, choices=get_args(Of),
                        help=argparse.SUPPRESS)  # fmt: skip
    parser.add_argument(
        "--by",
        choices=get_args(Of),
        metavar="WHAT",
        help=f"what a point represents: {', '.join(get_args(Of))} "
        "(default: kernel on a GPU, routine on a CPU); launch: similar launches of a kernel, by "
        "call path, or in Nsight Compute's files by configuration and time; layer: of a network, "
        "with the layers in it; its backward pass is a point of its own; step: of a training, on "
        "a CPU; rank: all its processes",
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help=f"file to write; ends in {', '.join(ENDINGS)}; may be repeated",
    )
    parser.add_argument(
        "--chart",
        action="append",
        choices=KINDS,
        help="kind of chart (default: classic; a page has all); may be repeated",
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        help="memory level (default: DRAM, or else the farthest measured)",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of pictures and pages")
    options.add_list_argument(
        parser,
        "--alias",
        "'PATTERN=NAME'",
        "show points that match a pattern with * and ? under another name; may be repeated",
    )
    parser.add_argument(
        "--size", metavar="WxH", help="size of pictures in inches: 11x6 (default: automatic)"
    )
    parser.add_argument("--theme", choices=("light", "dark"), help="default: light")
    parser.add_argument(
        "--equal-decades",
        action="store_true",
        help="same length for a decade on both axes: bandwidth roofs rise at 45 degrees",
    )
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="points named in a chart (default: 10)"
    )
    options.add_limit_argument(parser, "rows of the table in text (default: 20; 0: all)")
    parser.add_argument("--timer", metavar="PATTERN", help="only names that match, with * and ?")
    parser.add_argument(
        "--inclusive", action="store_true", help="count routines with everything they call"
    )
    parser.add_argument("--full-names", action="store_true", help="names in full in the table")
    parser.add_argument(
        "--timing",
        metavar="TRIAL",
        help="take run times from this trial, run without counters",
    )
    for quantity, example in (("flop", "2*M*N*K"), ("bytes", "(M*K+K*N+M*N)*4")):
        options.add_list_argument(
            parser,
            f"--{quantity}",
            f"'KERNEL={example}'",
            f"{quantity} of one launch of kernels without counters, names with * and ?; "
            "M, N, K are metadata of the trial or numbers; may be repeated",
        )
    options.add_list_argument(
        parser,
        "--ceilings",
        "WHAT",
        "measured, report or datasheet; a GPU (H200, 'A100 SXM4 40 GB'); or a file: "
        "JSON of the Empirical Roofline Toolkit, CSV of kind,name,value; may be repeated",
    )
    options.add_list_argument(
        parser,
        "--also",
        "WHAT",
        "also draw these ceilings, dashed: a GPU, a file, or a source such as datasheet",
    )
    parser.add_argument(
        "--peak",
        metavar="NAME",
        default="precision",
        help="compare all flop with this peak, such as 'tensor fp16' (default: each precision "
        "with its own)",
    )
    parser.add_argument(
        "--latency",
        metavar="TIME",
        help="time of one launch, such as 4.2us, or how it was measured: back-to-back, "
        "'event pair', graph",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU ceilings for N threads")
    parser.add_argument(
        "--sweep",
        metavar="NAME",
        help="draw trajectories over this parameter: NAME=VALUE in phase names or metadata",
    )
    parser.add_argument(
        "--series", metavar="NAME", help="with --sweep: metadata that distinguishes series"
    )
    parser.add_argument(
        "--export",
        nargs=2,
        action="append",
        default=[],
        metavar=("FORMAT", "FILE"),
        help=f"write a file for another tool: {', '.join(EXPORTS)}",
    )
    options.add_reading_arguments(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    with options.opened(args) as db, bar.shown("reading the trial"):
        trials = selector.many(db, args.trials or ["latest"])
        work = trial_work(db, trials)
        if args.by == "step":
            work = [with_steps(db, own_work) for own_work in work]
        timings = _timings(db, args)
        if timings:  # their clock rates differ from those of the counting run's roofs
            work = [replace(own_work, ceilings=()) for own_work in work]
        parts = rank_work(db, trials) if args.by == "rank" else work
        stored_ceilings = stored.ceilings(db)
    named_points = aliased(_points(args, parts, timings), args.alias)
    wishes = Wishes(args.ceilings, args.peak, args.latency, args.threads)
    placements = placed(wishes, named_points, work, known_ceilings(stored_ceilings))
    all_ceilings = [*stored_ceilings, *(own for own_work in work for own in own_work.ceilings)]
    drawing = Drawing(
        placements,
        kinds=args.chart or (),
        level=args.level,
        theme=args.theme,
        top=args.top,
        also=also(args.also, placements, known_ceilings(all_ceilings)),
        equal_decades=args.equal_decades,
        title=args.title or "",
        size=_size(args.size),
    )
    write(args.output, drawing)
    for form, path in args.export:
        write_export(form, path, placements)
    _show(args, placements, work)
    return 0


def _timings(db: ProfileDB, args: argparse.Namespace) -> dict[int | None, TrialWork]:
    """The work of the timing trial, if any; by rank if points are ranks."""
    if not args.timing:
        return {}
    trial = selector.trial(db, args.timing)
    if args.by == "rank":
        return {work.rank: work for work in rank_work(db, [trial])}
    (work,) = trial_work(db, [trial])
    return {None: with_steps(db, work) if args.by == "step" else work}


def _check(args: argparse.Namespace) -> None:
    for path in args.output:
        if Path(path).suffix.lower() not in ENDINGS:
            raise UsageError(f"{path}: the file name must end in {', '.join(ENDINGS)}")
    for form, _ in args.export:
        if form not in EXPORTS:
            raise UsageError(f"--export takes {' or '.join(EXPORTS)}, not '{form}'")
    if args.top < 1:
        raise UsageError("--top must be 1 or more")
    if args.series and not args.sweep:
        raise UsageError("--series needs --sweep NAME")


def _size(text: str | None) -> tuple[float, float] | None:
    """Width and height in inches, from a text such as `11x6`."""
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
    args: argparse.Namespace,
    work: Sequence[TrialWork],
    timings: Mapping[int | None, TrialWork],
) -> list[Point]:
    of: Of = args.by or _usual(args, work)
    if args.inclusive and of != "routine":
        raise UsageError("--inclusive needs --by routine; phases and programs are always inclusive")
    all_points: list[Point] = []
    uncounted: list[tuple[int, MissingMetric]] = []
    statements = [stated.statement("flop", text) for text in args.flop]
    statements += [stated.statement("bytes", text) for text in args.bytes]
    for own_work in work:
        try:
            timing = timings.get(own_work.rank)
            if timings and timing is None:
                raise MissingMetric("the timing trial has no such rank")
            with_statements = points.points(
                own_work, of, inclusive=args.inclusive, timing=timing, uncounted=bool(statements)
            )
            with_statements = stated.stated(with_statements, statements, own_work.metadata)
            for_charts = bool(args.output or args.export)
            points.require(with_statements, own_work, for_charts=for_charts)
        except MissingMetric as problem:
            if own_work.rank is None:
                raise
            uncounted.append((own_work.rank, problem))
        else:
            all_points += with_statements
    for rank, reason in uncounted:
        if not all_points:
            raise reason
        say(f"rank {rank} is left out: {reason}")
    if args.timer:
        kept = [
            point
            for point in all_points
            if fnmatchcase(point.name, args.timer) or fnmatchcase(point.short, args.timer)
        ]
        if not kept:
            raise UsageError(
                f"no {of} matches '{args.timer}' (the trial has {len(all_points)}; "
                "`taupy roofline --limit 0` lists them)"
            )
        all_points = kept
    if args.sweep:
        metadata = {own_work.trial_id: own_work.metadata for own_work in work}
        all_points = sweep.swept(all_points, args.sweep, metadata, args.series)
    if args.sweep:
        return sorted(all_points, key=lambda point: (point.series, point.parameter or 0.0))
    return sorted(all_points, key=lambda point: -point.share)


def _usual(args: argparse.Namespace, work: Sequence[TrialWork]) -> Of:
    """The default of --by for a trial."""
    if work and all(own_work.knows_layers_alone for own_work in work) and not args.sweep:
        return "layer"
    if args.sweep:
        phases = any(
            sweep.parameter_in(place.name, args.sweep) is not None
            for own_work in work
            for place in own_work.timers
            if "PHASE" in place.groups
        )
        return "phase" if phases else "program"
    if all(points.runs_on_gpu(own_work) for own_work in work):
        return "kernel"
    if (args.flop or args.bytes) and all(own_work.kernels for own_work in work):
        return "kernel"
    if any(own_work.kernels and not points.has_host_work(own_work) for own_work in work):
        return "kernel"  # the error will say what is missing
    return "routine"


def _show(
    args: argparse.Namespace, placements: Sequence[Placement], work: Sequence[TrialWork]
) -> None:
    limit = 20 if args.limit is None else args.limit
    listed = placements if args.form != "text" or not limit else placements[:limit]
    notes: list[str] = []
    if len(listed) < len(placements):
        rest = placements[len(listed) :]
        share = f", {100 * sum(placement.point.share for placement in rest):.1f} % of the time"
        notes.append(f"{len(rest)} more{share if len(work) == 1 else ''}: --limit 0")
    notes += roof_lines(placements)
    notes += [f"! {text}" for text in charts.warnings(placements)]
    notes += [
        f"! trial {own_work.trial_id} performed uncounted operations: "
        f"{own_work.metadata[UNCOUNTED]}"
        for own_work in work
        if UNCOUNTED in own_work.metadata
    ]
    notes += charts.remarks(placements, idle=False)
    wall = work[0].wall_ns / 1e9 if len(work) == 1 and work[0].wall_ns > 0 else None
    notes += verdict(placements, wall=wall)
    terminal.show(points_view(listed, _title(work), notes, args.full_names), form=args.form)


def _title(work: Sequence[TrialWork]) -> str:
    names = listing((f"{of_trial.trial_id}: {of_trial.name}" for of_trial in work), 3)
    return f"ROOFLINE OF TRIAL{'S' if len(work) > 1 else ''} {names}"
