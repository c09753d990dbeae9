"""The routines of a trial with time, values and evidence, from which `candidates.py` chooses.

Queries the database; `gains.py` ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from taupy.answers.answer import Nothing
from taupy.catalog.ratios import RATIOS
from taupy.comparison import kernel_proposals
from taupy.errors import MissingMetric, UsageError
from taupy.model.answer import Answer
from taupy.model.gpu import NO_OWNER
from taupy.model.rows import TimerRow
from taupy.profiledb import gpu_query, metrics
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import OF_TIMERS, written
from taupy.study import gains as candidates
from taupy.study.gains import Routine, Way
from taupy.units import no_such

USUAL = ("warps_per_inst", "ipc", "occupancy", "cpu_ipc")
"""Ratios to rank by; the first one in the trial is the default."""

_EVIDENCE = ("warps_per_inst", "gld_per_inst", "gst_per_inst", "ipc", "occupancy", "divergence",
             "intensity_dram", "flop_rate", "cpu_ipc", "cache_miss_rate")  # fmt: skip
STEP, RANK = "step", "rank"
DIMENSIONS = ("routine", *OF_TIMERS, "layer", "layer_type", "phase", STEP, RANK)
"""The dimensions of which candidates can be made."""

_NOT_CODE = {"GPU_NO_OWNER", "TAUPY", "GPU_SYNC", "IMPORT", "EXIT"}
_KERNELS = "GPU_KERNEL"


class Program(NamedTuple):
    """The routines of a trial, and how long it took.

    Attributes:
        wall_ns: time of the longest host thread, or else of the GPU.
        remark: which of the two; `{}` is replaced by the time.
    """

    routines: list[Routine]
    wall_ns: float
    remark: str


def has_usual(db: ProfileDB, trial_id: int) -> str | None:
    """The first usual ratio that the trial has."""
    for name in USUAL:
        with suppress(MissingMetric):
            if len(metrics.flat_profile(db, trial_id, name)):
                return name
    return None


def usual_order(metric: str) -> Way:
    """The default order, which depends on whether smaller or larger values are better."""
    if metric == "time":
        return "value"
    larger_is_better = any(ratio.name == metric and ratio.better == "high" for ratio in RATIOS)
    return "shortfall" if larger_is_better else "product"


def chosen_groups(db: ProfileDB, trial_id: int, metric: str, requested: Sequence[str]) -> list[str]:
    """The groups to rank: those requested, or kernels if they have the metric.

    Raises:
        UsageError: no routine of a group has the metric.
    """
    profile = metrics.flat_profile(db, trial_id, metric)
    measured_groups = {name for timer in profile.timers for name in timer.groups.split("|")}
    for group in requested:
        if group.upper() not in measured_groups:
            raise UsageError(no_such(f"group with {metric}", group, measured_groups))
    if requested:
        return [group.upper() for group in requested]
    return [_KERNELS] if _KERNELS in measured_groups else []


def program(
    db: ProfileDB,
    trial_id: int,
    groups: Sequence[str],
    ranking: str | None = None,
    by: str = "routine",
) -> Program:
    """The routines of these groups (none: all code) with their evidence.

    Args:
        ranking: the metric to rank by, if any.
        by: one of `DIMENSIONS`: what is ranked in place of routines, such as their files.

    Raises:
        Nothing: no routine of these groups has the metric to rank by.
    """
    if by == RANK:
        return _ranks(db, trial_id, ranking or "time", groups)
    times = _times(db, trial_id)
    if by == STEP:
        return Program(_steps(db, trial_id, ranking or "time"), *_wall(times))
    more = () if by == "routine" else (by,)

    def profile(name: str, *dimensions: str) -> Answer:
        return _of_groups(_profile(db, trial_id, name, (*dimensions, "timer", *more)), groups)

    def named(answer: Answer) -> Answer:
        return _named(answer, by) if more else answer

    values = None
    if ranking is not None:
        values = profile(ranking)
        if not len(values):
            raise Nothing(
                f"trial {trial_id} has no {ranking} for routines in "
                f"{' or '.join(groups) or 'any group'}"
            )
        values = named(values)
    evidence = {}
    for name in _EVIDENCE:
        if name != ranking:
            with suppress(MissingMetric):
                evidence[name] = named(profile(name))
    of_groups = None
    if times is not None:
        of_groups = named(profile("time", "node")) if more else _of_groups(times, groups)
    routines = candidates.routines(of_groups, values, evidence)
    if [*groups] == [_KERNELS] and by == "routine":
        _add_launches(db, trial_id, routines)
    return Program(routines, *_wall(times))


def _steps(db: ProfileDB, trial_id: int, ranking: str) -> list[Routine]:
    """The steps of a training or validation in place of routines.

    Raises:
        Nothing: the trial has none.
    """
    times = _named(_profile(db, trial_id, "time", ("node", STEP)), STEP)
    if not len(times):
        raise Nothing(f"trial {trial_id} has no steps: see docs/steps.md")
    ranks = _named(_profile(db, trial_id, ranking, ("node", STEP)), STEP)
    return candidates.routines(times, ranks, {})


def _ranks(db: ProfileDB, trial_id: int, ranking: str, groups: Sequence[str]) -> Program:
    """The ranks of a trial in place of routines."""
    from taupy.study.rank_candidates import rank_routines

    times = _times(db, trial_id, RANK)
    walls = {}
    if times is not None:
        for rank, part in times.table.parts(RANK).items():
            walls[rank], _ = _wall(replace(times, table=part))
    values = _of_groups(_profile(db, trial_id, ranking, ("timer", RANK)), groups).by(RANK)
    wall, remark = _wall(times)
    remark += "; a rank can save the time in which only it was missing at a collective"
    return Program(rank_routines(db, trial_id, walls, values), wall, remark)


def _profile(db: ProfileDB, trial_id: int, name: str, by: Sequence[str]) -> Answer:
    answer = metrics.answer(db, trial_id, name, by)
    return answer.taken([row for row, here in enumerate(answer.measured()) if here])


def _times(db: ProfileDB, trial_id: int, *more: str) -> Answer | None:
    """By thread and timer; None if they were not measured."""
    try:
        return _profile(db, trial_id, "time", ("thread", "node", "timer", *more))
    except MissingMetric:
        return None


def _of_groups(answer: Answer, groups: Sequence[str]) -> Answer:
    rows = []
    for row, timer in enumerate(answer.timers):
        own = set(timer.groups.split("|"))
        if own & set(groups) if groups else not own & _NOT_CODE:
            rows.append(row)
    return answer.taken(rows)


def _named(answer: Answer, by: str) -> Answer:
    """The labels of a dimension in place of timers; what has none is left out."""
    labelled = [label is not None or by == "group" for label in answer.table.row_labels(by)]
    table = answer.taken([row for row, here in enumerate(labelled) if here]).table
    labels = [written(by, label) for label in table.labels[by]]
    codes = {**table.codes, "timer": table.codes[by]}
    timers = [TimerRow(name, name, None, None, "") for name in labels]
    return replace(
        answer, table=replace(table, codes=codes, labels={**table.labels, "timer": timers})
    )


def _wall(times: Answer | None) -> tuple[float, str]:
    """The program's duration: the longest host thread, or else the GPU's total time."""
    on_host, on_gpu = 0.0, dict[int, float]()
    if times is not None:
        whole, own = times.values("inclusive"), times.values("exclusive")
        for thread, inclusive, exclusive in zip(times.threads, whole, own, strict=True):
            if thread.context == 0 and inclusive == inclusive:
                on_host = max(on_host, inclusive)
            on_gpu[thread.node] = on_gpu.get(thread.node, 0.0) + exclusive
    if on_host > 0:
        return on_host, "the program took {}"
    return max(on_gpu.values(), default=0.0), "the GPU was busy for {}; the host was not timed"


def _add_launches(db: ProfileDB, trial_id: int, routines: Iterable[Routine]) -> None:
    """Add to kernels the routines that launch them, the occupancy that their launches allow, and
    the advice from their stored code."""
    try:
        launches = gpu_query.launched(db, trial_id)
    except gpu_query.NothingRan:  # a trial can have counters without launches
        return
    remarks: dict[str, list[str]] = {}
    for row in gpu_query.kernels(launches):
        if row.timer in remarks:
            continue  # with several GPUs, the first one listed
        texts = remarks[row.timer] = []
        if row.routine and row.routine != NO_OWNER:
            more = f" and {row.routines - 1} more" if row.routines > 1 else ""
            texts.append(f"launched by {row.routine}{more}")
        if row.occupancy is not None:
            why = f", by {row.limiter}" if row.limiter else ""
            texts.append(f"occupancy limited to {row.occupancy:.2g}{why}")
    proposed = kernel_proposals.remarks(db, trial_id)
    for routine in routines:
        routine.remarks += remarks.get(routine.name, [])
        routine.remarks += proposed.get(routine.name, [])
