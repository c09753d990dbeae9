"""Add another tool's counters of single launches to a trial that recorded the launching code.

Nsight Compute records kernels and their order, but not the Python code that launched them. A trial
of `taupy run` or Nsight Systems has the launching code, and undisturbed times. Kernels are matched
by launch order if the trial has single activities (`--trace`), or else by configuration (grid and
block). If several call paths remain, counters are distributed in proportion to launches, with a
note.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from taupy.model.launch_counts import LaunchCounts
from taupy.model.profile import Metric, Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import timer_ids
from taupy.profiledb.metrics_merge import RunsDiffer, add_facts, metric_ids, with_values
from taupy.profiledb.prepared import PreparedThread, thread_ids
from taupy.profiledb.reader import read_profile

LEAST_SHARE = 0.9
"""Minimum share of counted launches whose kernel the trial must have."""

Place = tuple[int, int]  # thread's position, row of its tree
Config = tuple[object, object]


@dataclass(slots=True)
class LaunchMatch:
    """How launches were matched with call paths.

    Attributes:
        launches: number of counted launches; `matched`: those of kernels in the trial.
        by_order, by_place: number matched by launch order, and by a configuration or kernel
            that only one call path launched.
        shared: kernels distributed over several call paths, by name, with their launches.
        unknown: kernels that the trial lacks, with their launches.
        fewer: kernels whose numbers of launches differ between trial and file.
        metrics: added metrics; `kept`: those that the trial had already.
    """

    launches: int = 0
    by_order: int = 0
    by_place: int = 0
    shared: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    fewer: set[str] = field(default_factory=set)
    metrics: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def matched(self) -> int:
        return self.launches - sum(self.unknown.values())

    def __str__(self) -> str:
        text = f"{self.matched} of {self.launches} counted launches match kernels of the trial"
        how = []
        if self.by_order:
            how.append(f"{self.by_order} by launch order")
        if self.by_place:
            how.append(f"{self.by_place} by kernel and configuration")
        if self.shared:
            how.append(f"{sum(self.shared.values())} distributed")
        return text + (f" ({', '.join(how)})" if how else "")

    def notes(self) -> list[str]:
        """Notes for readers of the numbers."""
        notes = []
        if self.shared:
            notes.append(
                "launched from several call paths, so distributed in proportion to launches "
                f"(record the trial with --trace to avoid this): {_names(self.shared)}"
            )
        if self.unknown:
            notes.append(f"not in the trial, omitted: {_names(self.unknown)}")
        if self.fewer:
            notes.append(
                "different numbers of launches in trial and file, so matched from the first on: "
                + ", ".join(sorted(self.fewer)[:8])
            )
        if self.kept:
            notes.append(f"already in the trial and kept: {', '.join(self.kept)}")
        return notes


def _names(counts: Counter[str]) -> str:
    shown = ", ".join(f"{name} ({number})" for name, number in counts.most_common(8))
    return shown + (", ..." if len(counts) > 8 else "")


@dataclass(slots=True)
class _Kernel:
    """A kernel of the trial with its launch sites."""

    rows: Counter[Place] = field(default_factory=Counter)  # launches
    configs: dict[Config, Counter[Place]] = field(default_factory=lambda: defaultdict(Counter))
    order: list[tuple[int, Place]] = field(default_factory=list)  # (start, where)
    taken: int = 0  # of `order`


def merge_launches(
    db: ProfileDB, trial: int, counts: Iterable[LaunchCounts], units: Mapping[str, str]
) -> LaunchMatch:
    """Add counters of single launches to a trial.

    Args:
        trial: its id.
        counts: in launch order.
        units: metric -> its unit.

    Raises:
        RunsDiffer: too few launches match kernels of the trial, or it has all these metrics
            already.
    """
    target = read_profile(db, trial)
    kernels, by_short = _kernels(target)
    if not kernels:
        raise RunsDiffer(f"trial {trial} has no kernels to add counters to")
    match = LaunchMatch()
    sums: dict[Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    counted: Counter[tuple[int, int, str]] = Counter()
    for count in counts:
        match.launches += 1
        name = count.kernel if (count.node, count.device, count.kernel) in kernels else None
        if name is None:
            name = by_short.get((count.node, count.device, count.short))
        if name is None:
            match.unknown[count.short] += 1
            continue
        key = (count.node, count.device, name)
        counted[key] += 1
        for place, share in _places(kernels[key], count, match):
            for metric, value in count.values.items():
                sums[place][metric] += value * share
    for key, number in counted.items():
        if number != sum(kernels[key].rows.values()):
            match.fewer.add(key[2])
    measured = {name for thread in target.threads for name in thread.tree.inclusive}
    all_metrics = sorted({name for values in sums.values() for name in values})
    match.kept = tuple(name for name in all_metrics if name in measured)
    match.metrics = tuple(name for name in all_metrics if name not in measured)
    if not match.launches:
        raise RunsDiffer("the file contains no counted launches")
    if match.matched < LEAST_SHARE * match.launches:
        raise RunsDiffer(
            f"trial {trial} is from another program: {match}, {100 * LEAST_SHARE:.0f} % are "
            f"needed; missing kernels: {_names(match.unknown)}"
        )
    if not match.metrics:
        raise RunsDiffer(f"trial {trial} has {', '.join(match.kept)} already")
    _write(db, trial, target, sums, match, units)
    return match


def _kernels(
    target: Profile,
) -> tuple[dict[tuple[int, int, str], _Kernel], dict[tuple[int, int, str], str]]:
    """The trial's kernels by node, device and name; and full names by unique short names."""
    kernels: dict[tuple[int, int, str], _Kernel] = defaultdict(_Kernel)
    shorts: dict[tuple[int, int, str], set[str]] = defaultdict(set)
    for number, thread in enumerate(target.threads):
        if thread.thread.kind != "stream":
            continue
        where = (thread.thread.node, thread.thread.context - 1)
        tree = thread.tree
        names: dict[int, str] = {}
        for row, position in enumerate(tree.timer):
            timer = target.timers[position]
            if "GPU_KERNEL" in timer.groups and tree.calls[row]:
                names[row] = timer.name
                kernels[*where, timer.name].rows[number, row] += tree.calls[row]
                shorts[*where, timer.short or timer.name].add(timer.name)
        for launch in thread.launches:
            if launch.row in names:
                kernel = kernels[*where, names[launch.row]]
                grid, block, *_ = launch.configuration
                kernel.configs[grid, block][number, launch.row] += launch.count
        for activity in thread.activities:
            if activity.kind == "kernel" and activity.row in names:
                kernel = kernels[*where, names[activity.row]]
                kernel.order.append((activity.start_ns, (number, activity.row)))
    for kernel in kernels.values():
        kernel.order.sort()
        if len(kernel.order) < sum(kernel.rows.values()):
            kernel.order.clear()  # incomplete, so that matching by order would be wrong
    unique = {key: names.pop() for key, names in shorts.items() if len(names) == 1}
    return dict(kernels), unique


def _places(kernel: _Kernel, launch: LaunchCounts, match: LaunchMatch) -> list[tuple[Place, float]]:
    """The call paths of a launch, each with its share of the launch."""
    if kernel.order and kernel.taken < len(kernel.order):
        place = kernel.order[kernel.taken][1]
        kernel.taken += 1
        match.by_order += 1
        return [(place, 1.0)]
    rows = kernel.configs.get((launch.grid, launch.block)) or kernel.rows
    if len(rows) == 1:
        match.by_place += 1
        return [(next(iter(rows)), 1.0)]
    match.shared[launch.short] += 1
    whole = sum(rows.values())
    return [(place, number / whole) for place, number in rows.items()]


def _write(
    db: ProfileDB,
    trial: int,
    target: Profile,
    sums: Mapping[Place, Mapping[str, float]],
    match: LaunchMatch,
    units: Mapping[str, str],
) -> None:
    ids = timer_ids(target.timers)
    threads: dict[int, dict[int, Mapping[str, float]]] = defaultdict(dict)
    for (number, row), values in sums.items():
        threads[number][row] = values
    prepared = [
        PreparedThread.of(with_values(target.threads[number], rows, match.metrics), ids)
        for number, rows in sorted(threads.items())
    ]
    metrics = [Metric(name, units.get(name, "")) for name in match.metrics]
    with db.transaction() as connection:
        numbers = metric_ids(connection, metrics)
        stored = thread_ids(connection, trial)
        for thread in prepared:
            thread.add_values(connection, trial, stored[thread.measured.thread.place], numbers)
        facts = {"taupy.counters.joined": str(match)}
        for at, note in enumerate(match.notes()):
            facts[f"taupy.health.counters_joined{at or ''}"] = note
        add_facts(connection, trial, facts)
