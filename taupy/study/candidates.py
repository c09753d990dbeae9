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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from taupy import units
from taupy.answers.answer import Nothing
from taupy.comparison import kernel_proposals
from taupy.errors import MissingMetric, UsageError
from taupy.model import options
from taupy.model.kernel_names import is_kernel
from taupy.model.options import Asked, number, option, texts
from taupy.model.rows import TrialRow
from taupy.pprof.view import Audience, Cell, Column, Kind, View
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import heading
from taupy.study import gains
from taupy.study.gains import WAYS, Candidate, Way
from taupy.study.tunable import (
    DIMENSIONS,
    STEP,
    chosen_groups,
    has_usual,
    program,
    usual_order,
)

PEOPLE_ROWS = 10
"""Default number of rows in text."""

ROOFLINE = "roofline"
_OF_TIME = ("time_ns", "percent", "saved_ns", "saved_percent", "speedup")


@dataclass(frozen=True)
class Options(Asked):
    metric: str | None = option(
        None, "rank by a metric, by `time`, `roofline` or `code`", metavar="NAME", is_text=True
    )
    by: str = option(
        "routine",
        f"rank by {', '.join(DIMENSIONS)} (default: routine)",
        choices=DIMENSIONS,
        metavar="DIMENSION",
    )
    order: Way | None = option(
        None,
        "metric x time; time lost against --target; or the metric itself (default: product "
        "if smaller is better, shortfall if larger is better)",
        choices=WAYS,
    )
    target: float | None = option(
        None, "attainable value (default: the best one)", metavar="VALUE", read=number
    )
    group: Sequence[str] = texts(
        "routines of this group (default: GPU_KERNEL where it has the metric, else all)", "NAME"
    )
    ceilings: Sequence[str] = texts(
        "roofs for --metric roofline, as for `taupy roofline` (default: the machine's own)", "WHAT"
    )
    limit: int | None = options.limit(f"rows (default: {PEOPLE_ROWS} in text, all in other forms)")
    whole: bool = options.whole("all rows")

    @property
    def rows(self) -> int | None:
        """The number of rows; None for all."""
        return PEOPLE_ROWS if self.limit is None and not self.whole else self.limit

    @property
    def alone(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ceilings and self.metric not in (None, ROOFLINE):
            raise UsageError("--ceilings needs --metric roofline")
        if self.metric == ROOFLINE or self.ceilings:
            if self.order or self.target is not None:
                raise UsageError("--order and --target cannot be combined with --metric roofline")
            if self.by != "routine":
                raise UsageError("--by cannot be combined with --metric roofline: name a --metric")
        if self.by == STEP and self.group:
            raise UsageError("--group cannot be combined with --by step: steps are not in groups")


def views(db: ProfileDB, trial_id: int, options: Options) -> list[View]:
    """One table, the largest gain first.

    Raises:
        MissingMetric: the trial has nothing to rank by.
    """
    trial = db.trial(trial_id)
    metric = options.metric or (ROOFLINE if options.ceilings else _usual(db, trial, options.by))
    if metric == ROOFLINE:
        return [_by_roofline(db, trial, options)]
    if metric == "code":
        _, wall, _ = program(db, trial.id, ["GPU_KERNEL"])
        return [kernel_proposals.view(db, trial.id, wall, options.rows)]
    return [_by_metric(db, trial, metric, options)]


# --- by a metric -------------------------------------------------------------


def _by_metric(db: ProfileDB, trial: TrialRow, name: str, options: Options) -> View:
    of_steps = options.by == STEP
    metric = metrics.resolve(db, trial.id, name, of_steps=of_steps)
    usual: Way = "value" if of_steps and metric.unit == "ns" else usual_order(metric.name)
    order: Way = options.order or usual
    groups = [] if of_steps else chosen_groups(db, trial.id, metric.name, options.group)
    routines, wall, remark = program(db, trial.id, groups, metric.name, options.by)
    if not any(routine.time_ns for routine in routines) and order != "value":
        if options.order:
            raise MissingMetric(f"trial {trial.id} has no time to rank by; use --order value")
        order = "value"
    target = gains.best(routines) if options.target is None else options.target
    ranked = gains.ranked(routines, order, wall, target)
    what, score = _score(order, metric.name, metric.unit, target)
    shown_as: Kind = "any" if order == "value" else "tau_count"
    if metric.unit == "ns":
        shown_as = "time_ns"
    seen: Audience = "machines" if metric.name == "time" else "all"
    unit = "" if shown_as == "time_ns" else metric.unit  # a cell of time has its unit
    value = Column("value", shown_as, f"{metric.name}\n{unit}", seen)
    timed = any(routine.time_ns for routine in routines)
    return _view(
        f"TUNING CANDIDATES of trial {trial.id} by {what}:",
        ranked[: options.rows],
        _notes(ranked, options.rows, wall, remark),
        (value, lambda candidate: candidate.routine.value),
        score,
        timed,
        heading(options.by),
    )


def _usual(db: ProfileDB, trial: TrialRow, by: str) -> str:
    """The first usual ratio that the trial has; otherwise the roofs, otherwise the time."""
    if by == STEP:
        return "time"
    if (ratio := has_usual(db, trial.id)) is not None:
        return ratio
    metric_names = {metric.name for metric in query.metrics(db, trial.id)}
    if any(name.startswith("flop") for name in metric_names):
        from taupy.roofline.choice import Wishes
        from taupy.study.known_roofs import of_trial

        try:
            if any(placement.roof_share is not None for placement in of_trial(db, trial, Wishes())):
                return ROOFLINE
        except MissingMetric:
            pass
    if "time" in metric_names:
        return "time"
    if not metric_names:
        raise Nothing(f"trial {trial.id} has no times and no other metrics to rank by")
    names = ", ".join(sorted(metric_names))
    raise MissingMetric(
        f"trial {trial.id} has none of the usual ratios; choose one with --metric (it has: {names})"
    )


_Shown = tuple[Column, Callable[[Candidate], Cell]]
"""A column, and its cells."""

_LOST: _Shown = (Column("lost_ns", "time_ns", "Time lost"), lambda candidate: candidate.score)


def _score(order: Way, name: str, unit: str, target: float) -> tuple[str, _Shown]:
    """A description of the ranking, and the score's column."""
    if order == "product":
        column = Column("score", "tau_count", f"{name} x time\n{unit}*us")
        return f"{name} x time", (column, lambda candidate: candidate.score / 1000)
    if order == "shortfall":
        return f"time lost against {name} = {units.tau_count(target)} {unit}", _LOST
    # The score repeats the value, which has a column already.
    return name, (
        Column("score", "tau_count", audience="machines"),
        lambda candidate: candidate.score,
    )


# --- by the roofs ------------------------------------------------------------


def _by_roofline(db: ProfileDB, trial: TrialRow, options: Options) -> View:
    from taupy.roofline.choice import Wishes
    from taupy.study.known_roofs import of_trial

    placed = of_trial(db, trial, Wishes([*options.ceilings]))
    by_name = {
        placed_point.point.name: placed_point
        for placed_point in placed
        if placed_point.roof_share is not None
    }
    if not by_name:
        processors = ", ".join(
            dict.fromkeys(placed_point.point.processor or "?" for placed_point in placed)
        )
        raise MissingMetric(
            f"no roofs known for {processors}: measure them with `taupy ceilings`, or "
            "choose a GPU, such as --ceilings H100"
        )
    of_kernels = next(iter(by_name.values())).point.of == "kernel"
    groups = ["GPU_KERNEL"] if of_kernels else [group.upper() for group in options.group]
    routines, wall, remark = program(db, trial.id, groups)
    shares = {name: placed_point.roof_share or 0.0 for name, placed_point in by_name.items()}
    ranked = gains.under_roofs(routines, shares, wall)
    for candidate in ranked:
        placement = by_name[candidate.routine.name]
        where = f"bound by {placement.limiter}" if placement.limiter else "bound unknown"
        if placement.point.uncounted:
            where = f"at most: {', '.join(placement.point.uncounted)} not counted"
        candidate.routine.remarks.insert(0, where)
    notes = _notes(ranked, options.rows, wall, remark)
    above = [name for name, placed_point in by_name.items() if placed_point.above_roof]
    if above:
        notes.append(f"above the roof: a count or a roof is wrong: {', '.join(above[:5])}")
    title = f"TUNING CANDIDATES of trial {trial.id} by time lost against the roof:"
    roof = Column("roof_percent", "percent", "% of\nroof")
    value: _Shown = (roof, lambda candidate: _percent(candidate.routine.value))
    return _view(title, ranked[: options.rows], notes, value, _LOST)


# --- the table ---------------------------------------------------------------


def _view(
    title: str,
    ranked: Sequence[Candidate],
    notes: Sequence[str],
    value: _Shown,
    score: _Shown,
    timed: bool = True,
    of: str = "Routine",
) -> View:
    """A table with columns for these values and scores; `timed`: whether there are times."""
    columns: list[_Shown] = [
        (Column("routine", heading=of, audience="people"), _shown_name),
        (Column("timer", audience="machines"), lambda candidate: candidate.routine.name),
        (Column("groups", audience="machines"), lambda candidate: candidate.routine.groups),
        (Column("calls", "int", "#Call"), lambda candidate: candidate.routine.calls),
        (Column("time_ns", "time_ns", "Time"), lambda candidate: candidate.routine.time_ns),
        (Column("percent", "percent", "%Time"), lambda candidate: _percent(candidate.share)),
        value,
        score,
        (Column("saved_ns", "time_ns", "Saved\nat most"), lambda candidate: candidate.saved_ns),
        (
            Column("saved_percent", "percent", "% of\nprogram"),
            lambda candidate: _percent(candidate.saved_share),
        ),
        (Column("speedup", "tau_count", "Speedup\nat most"), lambda candidate: candidate.speedup),
        (Column("evidence", heading="Evidence", sentence=True), _evidence),
    ]
    shown = [
        replace(column, audience="machines") if not timed and column.name in _OF_TIME else column
        for column, _ in columns
    ]
    rows = [
        [rank, *(cell(candidate) for _, cell in columns)]
        for rank, candidate in enumerate(ranked, 1)
    ]
    return View(title, [Column("rank", "int", "#"), *shown], rows, notes)


def _shown_name(candidate: Candidate) -> str:
    routine = candidate.routine
    return routine.name if is_kernel(routine.groups) else routine.short


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _evidence(candidate: Candidate) -> str:
    measured = [
        f"{name} {value:.4g}" + (f" {unit}" if unit != "ratio" else "")
        for name, (value, unit) in candidate.routine.evidence.items()
    ]
    return "; ".join([*candidate.routine.remarks, *measured])


def _notes(ranked: Sequence[Candidate], limit: int | None, wall: float, remark: str) -> list[str]:
    notes = []
    if wall > 0:
        notes.append(
            remark.format(units.duration(wall)) + "; the saving is an upper bound (Amdahl): "
            "work that overlaps other work may gain less"
        )
    if limit is not None and len(ranked) > limit:
        notes.append(f"{len(ranked) - limit} more; --limit N shows them")
    return notes
