"""Rank the routines worth tuning, with the largest possible gain of each.

    taupy candidates                        by the first usual ratio in the trial, else by roofs
    taupy candidates --metric warps_per_inst    as in TAU: ratio times time, largest first
    taupy candidates --metric ipc               larger is better: time lost against the best value
    taupy candidates --metric ipc --target 2    time lost against 2
    taupy candidates --metric gld --order value by the metric itself
    taupy candidates --metric roofline          time lost against the roofs of the machine
    taupy candidates --metric code              what the kernels' stored code proposes
    taupy candidates --metric time --by file

Any metric can rank, measured or derived (`taupy derive` lists derived ones). Each candidate comes
with its evidence and a bound by Amdahl's law: the gain if that time dropped to zero.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from taupy import units
from taupy.commands import options
from taupy.commands.messages import say
from taupy.comparison import kernel_proposals
from taupy.errors import MissingMetric, UsageError
from taupy.model.kernel_names import is_kernel
from taupy.model.rows import TrialRow
from taupy.pprof import terminal
from taupy.pprof.view import Audience, Cell, Column, Kind, View
from taupy.profiledb import metrics, query, selector
from taupy.profiledb.database import ProfileDB
from taupy.study import gains as candidates
from taupy.study.candidates import (
    DIMENSIONS,
    STEP,
    chosen_groups,
    has_usual,
    program,
    usual_order,
)
from taupy.study.gains import Candidate, Way

_OF_TIME = ("time_ns", "percent", "saved_ns", "saved_percent", "speedup")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "selector", nargs="?", default=selector.LATEST, metavar="TRIAL", help="default: latest"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="rank by a metric, by `time`, `roofline` or `code`"
    )
    parser.add_argument(
        "--by",
        action=_By,
        default="routine",
        metavar="DIMENSION",
        help=f"rank by {', '.join(DIMENSIONS)} (default: routine)",
    )
    parser.add_argument(
        "--order",
        choices=("product", "shortfall", "value"),
        help="metric x time; time lost against --target; or the metric itself (default: product "
        "if smaller is better, shortfall if larger is better)",
    )
    parser.add_argument(
        "--target", type=float, metavar="VALUE", help="attainable value (default: the best one)"
    )
    options.add_list_argument(
        parser,
        "--group",
        "NAME",
        "routines of this group (default: GPU_KERNEL where it has the metric, else all)",
    )
    options.add_list_argument(
        parser,
        "--ceilings",
        "WHAT",
        "roofs for --metric roofline, as for `taupy roofline` (default: the machine's own)",
    )
    options.add_limit_argument(parser, "default: 10", default=10)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


class _By(argparse.Action):
    """Takes a dimension; for one version also a metric, for which --metric is the new option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if values in DIMENSIONS:
            namespace.by = values
        else:
            say(f"--by takes a dimension ({', '.join(DIMENSIONS)}); a metric is now --metric")
            namespace.metric = values


def run(args: argparse.Namespace) -> int:
    with options.opened(args) as db:
        trial = selector.trial(db, args.selector)
        metric = args.metric or ("roofline" if args.ceilings else _usual(db, trial, args.by))
        if args.ceilings and metric != "roofline":
            raise UsageError("--ceilings needs --metric roofline")
        if metric == "roofline":
            if args.order or args.target is not None:
                raise UsageError("--order and --target cannot be combined with --metric roofline")
            if args.by != "routine":
                raise UsageError("--by cannot be combined with --metric roofline: name a --metric")
            view = _by_roofline(db, trial, args)
        elif metric == "code":
            _, wall, _ = program(db, trial.id, ["GPU_KERNEL"])
            view = kernel_proposals.view(db, trial.id, wall, args.limit)
        else:
            view = _by_metric(db, trial, metric, args)
    terminal.show(view, form=args.form)
    return 0


# --- by a metric -------------------------------------------------------------


def _by_metric(db: ProfileDB, trial: TrialRow, name: str, args: argparse.Namespace) -> View:
    of_steps = args.by == STEP
    metric = metrics.resolve(db, trial.id, name, of_steps=of_steps)
    usual: Way = "value" if of_steps and metric.unit == "ns" else usual_order(metric.name)
    order: Way = args.order or usual
    if of_steps and args.group:
        raise UsageError("--group cannot be combined with --by step: steps are not in groups")
    groups = [] if of_steps else chosen_groups(db, trial.id, metric.name, args.group)
    routines, wall, remark = program(db, trial.id, groups, metric.name, args.by)
    if not any(routine.time_ns for routine in routines) and order != "value":
        if args.order:
            raise MissingMetric(f"trial {trial.id} has no time to rank by; use --order value")
        order = "value"
    ranked = candidates.ranked(routines, order, wall, args.target)
    target = args.target
    if order == "shortfall" and target is None:
        target = max(
            (routine.value for routine in routines if routine.value is not None), default=0.0
        )
    what, score, kind = _score(order, metric.name, metric.unit, target)
    notes = [*_notes(ranked, args.limit, wall, remark)]
    rows = [
        _row(rank, candidate, _scored(order, metric.unit, candidate.score), order)
        for rank, candidate in enumerate(ranked[: args.limit], 1)
    ]
    shown_as: Kind = "any" if order == "value" else "tau_count"
    if metric.unit == "ns":
        shown_as = "time_ns"
    seen: Audience = "machines" if metric.name == "time" else "all"
    unit = "" if shown_as == "time_ns" else metric.unit  # a cell of time has its unit
    value = Column("value", shown_as, f"{metric.name}\n{unit}", seen)
    timed = any(routine.time_ns for routine in routines)
    columns = _columns(value, score, kind, timed, args.by.replace("_", " ").capitalize())
    return View(f"TUNING CANDIDATES of trial {trial.id} by {what}:", columns, rows, notes)


def _usual(db: ProfileDB, trial: TrialRow, by: str) -> str:
    """The first usual ratio that the trial has; otherwise the roofs, otherwise the time."""
    if by == STEP:
        return "time"
    if (ratio := has_usual(db, trial.id)) is not None:
        return ratio
    metric_names = {metric.name for metric in query.metrics(db, trial.id)}
    if any(name.startswith("flop") for name in metric_names):
        from taupy.commands.roofline_roofs import of_trial
        from taupy.roofline.choice import Wishes

        try:
            if any(placement.roof_share is not None for placement in of_trial(db, trial, Wishes())):
                return "roofline"
        except MissingMetric:
            pass
    if "time" in metric_names:
        return "time"
    names = ", ".join(sorted(metric_names)) or "none"
    raise MissingMetric(
        f"trial {trial.id} has none of the usual ratios; choose one with --metric (it has: {names})"
    )


def _score(
    order: Way, name: str, unit: str, target: float | None
) -> tuple[str, str, str]:  # fmt: skip
    """A description of the ranking; heading and unit of the score's column."""
    if order == "product":
        return f"{name} x time", f"{name} x time\n{unit}*us", "any"
    if order == "shortfall":
        return (
            f"time lost against {name} = {units.tau_count(target or 0)} {unit}",
            "lost",
            "time_ns",
        )
    return name, "", ""


def _scored(order: Way, unit: str, score: float) -> float:
    return score / 1000 if order == "product" else score


# --- by the roofs ------------------------------------------------------------


def _by_roofline(db: ProfileDB, trial: TrialRow, args: argparse.Namespace) -> View:
    from taupy.commands.roofline_roofs import of_trial
    from taupy.roofline.choice import Wishes

    placed = of_trial(db, trial, Wishes(args.ceilings))
    with_roof = [under_roof for under_roof in placed if under_roof.roof_share is not None]
    if not with_roof:
        processors = ", ".join(
            dict.fromkeys(under_roof.point.processor or "?" for under_roof in placed)
        )
        raise MissingMetric(
            f"no roofs known for {processors}: measure them with `taupy ceilings`, or "
            "choose a GPU, such as --ceilings H100"
        )
    of_kernels = with_roof[0].point.of == "kernel"
    groups = ["GPU_KERNEL"] if of_kernels else [group.upper() for group in args.group]
    routines, wall, remark = program(db, trial.id, groups)
    by_name = {under_roof.point.name: under_roof for under_roof in with_roof}
    shares = {
        name: under_roof.roof_share
        for name, under_roof in by_name.items()
        if under_roof.roof_share is not None
    }
    ranked = candidates.under_roofs(routines, shares, wall)
    rows = []
    for rank, candidate in enumerate(ranked[: args.limit], 1):
        placement = by_name[candidate.routine.name]
        where = f"bound by {placement.limiter}" if placement.limiter else "bound unknown"
        if placement.point.uncounted:
            where = f"at most: {', '.join(placement.point.uncounted)} not counted"
        row = _row(rank, candidate, candidate.score, "shortfall", where)
        rows.append((*row[:7], 100 * (candidate.routine.value or 0), *row[8:]))
    notes = _notes(ranked, args.limit, wall, remark)
    above = [name for name, under_roof in by_name.items() if under_roof.above_roof]
    if above:
        notes.append(f"above the roof: a count or a roof is wrong: {', '.join(above[:5])}")
    columns = _columns(Column("roof_percent", "percent", "% of\nroof"), "lost", "time_ns")
    title = f"TUNING CANDIDATES of trial {trial.id} by time lost against the roof:"
    return View(title, columns, rows, notes)


# --- the table ---------------------------------------------------------------


def _columns(
    value: Column, score: str, kind: str, timed: bool = True, of: str = "Routine"
) -> list[Column]:
    columns = [
        Column("rank", "int", "#"),
        Column("routine", heading=of, audience="people"),
        Column("timer", audience="machines"),
        Column("groups", audience="machines"),
        Column("calls", "int", "#Call"),
        Column("time_ns", "time_ns", "Time"),
        Column("percent", "percent", "%Time"),
        value,
    ]
    if kind == "time_ns":
        columns.append(Column("lost_ns", "time_ns", "Time lost"))
    else:
        # With `--order value` the score repeats the value, which has a column already.
        audience = "all" if score else "machines"
        columns.append(Column("score", "tau_count", score, audience=audience))  # type: ignore[arg-type]
    columns += [
        Column("saved_ns", "time_ns", "Saved\nat most"),
        Column("saved_percent", "percent", "% of\nprogram"),
        Column("speedup", "tau_count", "Speedup\nat most"),
        Column("evidence", heading="Evidence", sentence=True),
    ]
    if not timed:
        columns = [
            replace(column, audience="machines") if column.name in _OF_TIME else column
            for column in columns
        ]
    return columns


def _row(
    rank: int, candidate: Candidate, score: float, order: Way, remark: str = ""
) -> tuple[Cell, ...]:  # fmt: skip
    routine = candidate.routine
    parts = [remark] if remark else []
    parts += routine.remarks
    parts += [
        f"{name} {value:.4g}" + (f" {unit}" if unit != "ratio" else "")
        for name, (value, unit) in routine.evidence.items()
    ]
    return (
        rank,
        routine.name if is_kernel(routine.groups) else routine.short,
        routine.name,
        routine.groups,
        routine.calls,
        routine.time_ns,
        None if candidate.share is None else 100 * candidate.share,
        routine.value,
        score,
        candidate.saved_ns,
        None if candidate.saved_share is None else 100 * candidate.saved_share,
        candidate.speedup,
        "; ".join(parts),
    )


def _notes(ranked: Sequence[Candidate], limit: int, wall: float, remark: str) -> list[str]:
    notes = []
    if wall > 0:
        notes.append(
            remark.format(units.duration(wall)) + "; the saving is an upper bound (Amdahl): "
            "work that overlaps other work may gain less"
        )
    if len(ranked) > limit:
        notes.append(f"{len(ranked) - limit} more; --limit N shows them")
    return notes
