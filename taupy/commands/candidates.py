"""Which routines are worth tuning, and what the program would gain at most.

    taupy candidates                        by the first ratio that the trial has, else the roofs
    taupy candidates --by warps_per_inst    TAU's: the ratio times the time, largest first
    taupy candidates --by ipc               good when large: time lost against the best one
    taupy candidates --by ipc --target 2    ... or against 2
    taupy candidates --by gld --order value by the metric itself
    taupy candidates --by roofline          time lost against the roofs of the machine
    taupy candidates --by time

Any metric will do, measured or derived (`taupy derive` lists those). Each candidate comes with
its evidence and a bound by Amdahl's law: what the program would gain if that time were gone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from taupy import units
from taupy.analysis import candidates
from taupy.analysis.candidates import Candidate, Routine, Way
from taupy.catalog.ratios import RATIOS
from taupy.commands import options
from taupy.errors import MissingMetric, TaupyError, UsageError
from taupy.model.gpu import NO_OWNER
from taupy.model.rows import FlatRow, TrialRow
from taupy.pprof import terminal
from taupy.pprof.view import Audience, Cell, Column, Kind, View
from taupy.profiledb import gpu_query, metrics, query, selector
from taupy.profiledb.database import ProfileDB

HELP = "rank routines by what tuning them could bring"

_USUAL = ("warps_per_inst", "ipc", "occupancy", "cpu_ipc")
_EVIDENCE = ("warps_per_inst", "gld_per_inst", "gst_per_inst", "ipc", "occupancy", "divergence",
             "intensity_dram", "flop_rate", "cpu_ipc", "cache_miss_rate")  # fmt: skip
_OF_TIME = ("time_ns", "percent", "saved_ns", "saved_percent", "speedup")
_NOT_CODE = {"GPU_NO_OWNER", "TAUPY", "GPU_SYNC"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "selector", nargs="?", default=selector.LATEST, metavar="TRIAL", help="default: latest"
    )
    parser.add_argument("--by", metavar="METRIC", help="a metric, `time` or `roofline`")
    parser.add_argument(
        "--order",
        choices=("product", "shortfall", "value"),
        help="metric x time; time lost against --target; the metric itself (default: as the "
        "metric is good when small, or when large)",
    )
    parser.add_argument(
        "--target", type=float, metavar="VALUE", help="what could be reached (default: the best)"
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="routines of this group (default: GPU_KERNEL where it has the metric, else all)",
    )
    parser.add_argument(
        "--ceilings",
        action="append",
        default=[],
        metavar="WHAT",
        help="of --by roofline: which roofs, as `taupy roofline` takes them (default: its own)",
    )
    parser.add_argument("--limit", "-n", type=int, default=10, metavar="N", help="default: 10")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.limit < 0:
        raise UsageError("--limit is a number of routines, 0 or more")
    with ProfileDB.open(options.database_path(args)) as db:
        trial = selector.one(db, args.selector)
        by = args.by or ("roofline" if args.ceilings else _usual(db, trial))
        if args.ceilings and by != "roofline":
            raise UsageError("--ceilings goes with --by roofline")
        if by == "roofline":
            if args.order or args.target is not None:
                raise UsageError("--order and --target do not go with --by roofline: roofs do it")
            view = _by_roofline(db, trial, args)
        else:
            view = _by_metric(db, trial, by, args)
    terminal.show(view, form=args.form)
    return 0


# --- by a metric -------------------------------------------------------------


def _by_metric(db: ProfileDB, trial: TrialRow, by: str, args: argparse.Namespace) -> View:
    metric = metrics.resolve(db, trial.id, by)
    order = args.order or _order(metric.name)
    values = metrics.flat_values(db, trial.id, metric.name)
    groups = _groups(values, args.group)
    chosen = _of_groups(values, groups)
    if not chosen:
        raise TaupyError(
            f"trial {trial.id} has no {metric.name} of routines in "
            f"{' or '.join(groups) or 'any group'}"
        )
    if metric.name == "time":
        order = args.order or "value"
    found, wall, remark = _routines(db, trial, groups, chosen, but=metric.name)
    if not any(one.time_ns for one in found) and order != "value":
        if args.order:
            raise MissingMetric(f"trial {trial.id} has no time to rank by; take --order value")
        order = "value"
    ranked = candidates.ranked(found, order, wall, args.target)
    target = args.target
    if order == "shortfall" and target is None:
        target = max((one.value for one in found if one.value is not None), default=0.0)
    what, score, kind = _score(order, metric.name, metric.unit, target)
    notes = [*_notes(ranked, args.limit, wall, remark)]
    rows = [
        _row(rank, one, _scored(order, metric.unit, one.score), order)
        for rank, one in enumerate(ranked[: args.limit], 1)
    ]
    shown_as: Kind = "any" if order == "value" else "tau_count"
    if metric.unit == "ns":
        shown_as = "time_ns"
    seen: Audience = "machines" if metric.name == "time" else "all"
    value = Column("value", shown_as, f"{metric.name}\n{metric.unit}", seen)
    columns = _columns(value, score, kind, any(one.time_ns for one in found))
    return View(f"TUNING CANDIDATES of trial {trial.id} by {what}:", columns, rows, notes)


def _usual(db: ProfileDB, trial: TrialRow) -> str:
    """The first of the usual ratios that the trial has, else the roofs, else the time."""
    for name in _USUAL:
        try:
            if metrics.flat_values(db, trial.id, name):
                return name
        except MissingMetric:
            continue
    there = {one.name for one in query.metrics(db, trial.id)}
    if any(name.startswith("flop") for name in there):
        from taupy.commands.roofline_roofs import Wishes, of_trial

        try:
            if any(one.roof_share is not None for one in of_trial(db, trial, Wishes())):
                return "roofline"
        except MissingMetric:
            pass
    if "time" in there:
        return "time"
    names = ", ".join(sorted(there)) or "none"
    raise MissingMetric(
        f"trial {trial.id} has no usual ratio; say which with --by (it has: {names})"
    )


def _order(name: str) -> Way:
    better = next((ratio.better for ratio in RATIOS if ratio.name == name), "")
    return "shortfall" if better == "high" else "product"


def _score(
    order: Way, name: str, unit: str, target: float | None
) -> tuple[str, str, str]:  # fmt: skip
    """What it is ranked by, in words; the score's column, heading and unit."""
    if order == "product":
        return f"{name} x time", f"{name} x time\n{unit}*us", "any"
    if order == "shortfall":
        return (
            f"the time lost against {name} = {units.tau_count(target or 0)} {unit}",
            "lost",
            "time_ns",
        )
    return name, "", ""


def _scored(order: Way, unit: str, score: float) -> float:
    return score / 1000 if order == "product" else score


def _groups(values: Sequence[FlatRow], asked: Sequence[str]) -> list[str]:
    if asked:
        there = {name for row in values for name in row.groups.split("|")}
        for group in asked:
            if group.upper() not in there:
                raise UsageError(
                    f"no routine with that metric is in group '{group}' (there is: "
                    f"{', '.join(sorted(there))})"
                )
        return [group.upper() for group in asked]
    kernels = any("GPU_KERNEL" in row.groups.split("|") for row in values)
    return ["GPU_KERNEL"] if kernels else []


def _of_groups(rows: Sequence[FlatRow], groups: Sequence[str]) -> list[FlatRow]:
    found = []
    for row in rows:
        own = set(row.groups.split("|"))
        if own & set(groups) if groups else not own & _NOT_CODE:
            found.append(row)
    return found


def _routines(
    db: ProfileDB, trial: TrialRow, groups: Sequence[str], values: Sequence[FlatRow], but: str
) -> tuple[list[Routine], float, str]:
    """The routines of these groups, the program's time, and a remark on that."""
    try:
        times = metrics.flat_values(db, trial.id, "time")
    except MissingMetric:
        times = []
    evidence = {}
    named = {}
    for name in _EVIDENCE:
        if name != but:
            try:
                found = metrics.resolve(db, trial.id, name)
            except MissingMetric:
                continue
            evidence[name] = _of_groups(metrics.flat_values(db, trial.id, name), groups)
            named[name] = found.unit
    wall, remark = _wall(times)
    made = candidates.routines(_of_groups(times, groups), values, evidence, named)
    if groups == ["GPU_KERNEL"]:
        _add_launches(db, trial.id, made)
    return made, wall, remark


def _add_launches(db: ProfileDB, trial_id: int, made: Sequence[Routine]) -> None:
    """Who launched the kernels, and what their launches allow."""
    try:
        sites = gpu_query.launch_sites(db, trial_id)
    except TaupyError:  # a trial may have counters without launches
        return
    remarks: dict[str, list[str]] = {}
    for row in gpu_query.kernels(sites):
        found = remarks.setdefault(row.timer, [])
        if found:
            continue  # of several GPUs, the one that is listed first
        if row.routine and row.routine != NO_OWNER:
            more = f" and {row.routines - 1} more" if row.routines > 1 else ""
            found.append(f"launched by {row.routine}{more}")
        if row.occupancy is not None:
            why = f", by {row.limiter}" if row.limiter else ""
            found.append(f"its launches allow an occupancy of {row.occupancy:.2g}{why}")
    for one in made:
        one.remarks += remarks.get(one.name, [])


def _wall(times: Sequence[FlatRow]) -> tuple[float, str]:
    """How long the program took: the longest thread of the host, else the GPU's whole time."""
    host = [row.inclusive for row in times if row.context == 0]
    if host and max(host) > 0:
        return max(host), "the program took {}"
    on_gpu: dict[int, float] = {}
    for row in times:
        on_gpu[row.node] = on_gpu.get(row.node, 0) + row.exclusive
    return max(on_gpu.values(), default=0.0), "the GPU worked for {}: the host was not timed"


# --- by the roofs ------------------------------------------------------------


def _by_roofline(db: ProfileDB, trial: TrialRow, args: argparse.Namespace) -> View:
    from taupy.commands.roofline_roofs import Wishes, of_trial

    placed = of_trial(db, trial, Wishes(args.ceilings))
    known = [one for one in placed if one.roof_share is not None]
    if not known:
        processors = ", ".join(dict.fromkeys(one.point.processor or "?" for one in placed))
        raise MissingMetric(
            f"no roofs are known of {processors}: measure them with `taupy ceilings`, or "
            "say whose to take with --ceilings, as in --ceilings H100"
        )
    of_kernels = known[0].point.of == "kernel"
    groups = ["GPU_KERNEL"] if of_kernels else [one.upper() for one in args.group]
    found, wall, remark = _routines(db, trial, groups, (), but="")
    by_name = {one.point.name: one for one in known}
    shares = {name: one.roof_share for name, one in by_name.items() if one.roof_share is not None}
    ranked = candidates.under_roofs(found, shares, wall)
    rows = []
    for rank, one in enumerate(ranked[: args.limit], 1):
        placement = by_name[one.routine.name]
        where = f"bound by {placement.limiter}" if placement.limiter else "bound unknown"
        if placement.point.uncounted:
            where = f"at most: {', '.join(placement.point.uncounted)} not counted"
        row = _row(rank, one, one.score, "shortfall", where)
        rows.append((*row[:6], 100 * (one.routine.value or 0), *row[7:]))
    notes = _notes(ranked, args.limit, wall, remark)
    above = [name for name, one in by_name.items() if one.above_roof]
    if above:
        notes.append(f"above the roof, so a count or a roof is wrong: {', '.join(above[:5])}")
    columns = _columns(Column("roof_percent", "percent", "% of\nroof"), "lost", "time_ns")
    title = f"TUNING CANDIDATES of trial {trial.id} by the time lost against the roof:"
    return View(title, columns, rows, notes)


# --- the table ---------------------------------------------------------------


def _columns(value: Column, score: str, kind: str, timed: bool = True) -> list[Column]:
    columns = [
        Column("rank", "int", "#"),
        Column("routine", heading="Routine", audience="people"),
        Column("timer", audience="machines"),
        Column("calls", "int", "#Call"),
        Column("time_ns", "time_ns", "Time"),
        Column("percent", "percent", "%Time"),
        value,
    ]
    if kind == "time_ns":
        columns.append(Column("lost_ns", "time_ns", "Time lost"))
    else:
        # Of `--order value` the score is the value that stands there already.
        audience = "all" if score else "machines"
        columns.append(Column("score", "tau_count", score, audience=audience))  # type: ignore[arg-type]
    columns += [
        Column("saved_ns", "time_ns", "Saved\nat most"),
        Column("saved_percent", "percent", "% of\nprogram"),
        Column("speedup", "tau_count", "Speedup\nat most"),
        Column("evidence", heading="Evidence"),
    ]
    if not timed:
        columns = [
            replace(column, audience="machines") if column.name in _OF_TIME else column
            for column in columns
        ]
    return columns


def _row(
    rank: int, one: Candidate, score: float, order: Way, remark: str = ""
) -> tuple[Cell, ...]:  # fmt: skip
    routine = one.routine
    parts = [remark] if remark else []
    parts += routine.remarks
    parts += [
        f"{name} {value:.4g}" + (f" {unit}" if unit != "ratio" else "")
        for name, (value, unit) in routine.evidence.items()
    ]
    return (
        rank,
        routine.short,
        routine.name,
        routine.calls,
        routine.time_ns,
        None if one.share is None else 100 * one.share,
        routine.value,
        score,
        one.saved_ns,
        None if one.saved_share is None else 100 * one.saved_share,
        one.speedup,
        "; ".join(parts),
    )


def _notes(ranked: Sequence[Candidate], limit: int, wall: float, remark: str) -> list[str]:
    notes = []
    if wall > 0:
        notes.append(
            remark.format(units.duration(wall)) + "; what is saved is a bound (Amdahl): work "
            "that runs beside other work may gain less"
        )
    if len(ranked) > limit:
        notes.append(f"{len(ranked) - limit} more; --limit N shows them")
    return notes
