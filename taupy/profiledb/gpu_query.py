"""Questions about a trial's GPUs: kernels, where they were launched, devices, busy time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from taupy.errors import TaupyError
from taupy.escaping import visible
from taupy.model.gpu import NO_OWNER, Device, Fact
from taupy.model.gpu_rows import BusyRow, KernelRow, SiteRow
from taupy.profiledb.database import ProfileDB, of_a_sound_file

_LAUNCHES = """
    SELECT thread.node, thread.context, thread.thread, launch.callpath_id, callpath.parent_id,
           launch.count, launch.untimed, launch.time_ns, launch.minimum_ns, launch.maximum_ns,
           launch.sum_squares_ns2, launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x,
           launch.block_y, launch.block_z, launch.registers, launch.shared_static_bytes,
           launch.shared_dynamic_bytes, launch.local_bytes, launch.occupancy, launch.limiter,
           launch.bytes
      FROM launch
      JOIN thread ON thread.id = launch.thread_id
      JOIN callpath ON callpath.id = launch.callpath_id
     WHERE launch.trial_id = ?
     ORDER BY launch.id
"""

_PATHS = """
    WITH RECURSIVE needed (id) AS (
        SELECT DISTINCT callpath_id FROM launch WHERE trial_id = :trial
        UNION
        SELECT callpath.parent_id FROM needed JOIN callpath USING (id)
         WHERE callpath.parent_id IS NOT NULL
    )
    SELECT callpath.id, callpath.parent_id, timer.name, timer.short_name,
           (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
             WHERE timer_group.timer_id = timer.id)
      FROM needed JOIN callpath USING (id) JOIN timer ON timer.id = callpath.timer_id
"""

_DEVICES = """
    SELECT id, node, ordinal, name, uuid, compute_capability
      FROM device WHERE trial_id = ? ORDER BY node, ordinal
"""

_FACTS = "SELECT name, value, unit FROM device_fact WHERE device_id = ? ORDER BY position"

_SPANS = """
    SELECT thread.node, thread.context, activity.kind, activity.start_ns, activity.end_ns
      FROM activity JOIN thread ON thread.id = activity.thread_id
     WHERE activity.trial_id = ? AND thread.kind = 'stream'
       AND activity.kind IN ('kernel', 'copy', 'memset')
       AND activity.start_ns > 0 AND activity.end_ns >= activity.start_ns
     ORDER BY thread.node, thread.context, activity.start_ns
"""

_NOT_A_ROUTINE = ("CUDA_API", "TAUPY", "GPU_KERNEL", "GPU_COPY", "GPU_SYNC", "GPU_NO_OWNER")


@of_a_sound_file
def launch_sites(db: ProfileDB, trial_id: int) -> list[SiteRow]:
    """Every kernel and copy, one row a stream, call path and configuration.

    Raises:
        NoSuchTrial: there is no such trial.
        TaupyError: nothing of it ran on a GPU; says how to get there.
    """
    db.trial(trial_id)
    paths = _Paths(db.rows(_PATHS, {"trial": trial_id}))
    found = []
    for node, context, thread, callpath, parent, *values in db.rows(_LAUNCHES, (trial_id,)):
        counts, grid, block, rest = values[:6], values[6:9], values[9:12], values[12:]
        name, short_name, groups = paths.names(callpath)
        found.append(
            SiteRow._make(
                (
                    *(node, context, thread, name, short_name, groups),
                    *(paths.routine(parent), paths.text(parent), callpath),
                    *counts,
                    None if grid[0] is None else tuple(grid),
                    None if block[0] is None else tuple(block),
                    *rest,
                )
            )
        )
    if not found:
        raise TaupyError(
            f"nothing of trial {trial_id} ran on a GPU; `taupy run` on a machine with an NVIDIA "
            "GPU records kernels (`taupy doctor` says whether this is one), `taupy import` reads "
            "them from Nsight's and torch.profiler's files"
        )
    return found


def kernels(sites: Iterable[SiteRow]) -> list[KernelRow]:
    """The sites summed up, one row a kernel and GPU; by GPU, then time from large to small."""
    by_kernel: dict[tuple[int, int, str, str], list[SiteRow]] = {}
    totals: dict[tuple[int, int], int] = {}
    for site in sites:
        key = (site.node, site.context, site.timer, site.groups)
        by_kernel.setdefault(key, []).append(site)
        place = (site.node, site.context)
        totals[place] = totals.get(place, 0) + site.time_ns
    rows = [_kernel(group, totals[key[:2]]) for key, group in by_kernel.items()]
    return sorted(rows, key=lambda row: (row.node, row.context, -row.time_ns, row.timer))


def _kernel(sites: list[SiteRow], total_ns: int) -> KernelRow:
    first = sites[0]
    calls = sum(site.calls for site in sites)
    untimed = sum(site.untimed for site in sites)
    time_ns = sum(site.time_ns for site in sites)
    timed = [site for site in sites if site.calls > site.untimed]
    count = calls - untimed
    mean = time_ns / count if count else math.nan
    squares = sum(site.sum_squares_ns2 for site in sites)
    by_routine: dict[str, int] = {}
    for site in sites:
        by_routine[site.routine] = by_routine.get(site.routine, 0) + site.time_ns
    known = [site for site in sites if site.occupancy is not None]
    weight = sum(site.time_ns for site in known)
    largest = max(sites, key=lambda site: site.time_ns)
    configurations = {
        (site.grid, site.block, site.registers, site.shared_dynamic_bytes) for site in sites
    }
    return KernelRow(
        node=first.node,
        context=first.context,
        timer=first.timer,
        short_name=first.short_name,
        groups=first.groups,
        percent=100 * time_ns / total_ns if total_ns else 0.0,
        calls=calls,
        untimed=untimed,
        time_ns=time_ns,
        minimum_ns=min((site.minimum_ns for site in timed), default=0),
        maximum_ns=max((site.maximum_ns for site in timed), default=0),
        mean_ns=mean,
        stddev_ns=math.sqrt(max(0.0, squares / count - mean * mean)) if count else math.nan,
        bytes=_sum(site.bytes for site in sites),
        occupancy=(
            sum((site.occupancy or 0.0) * site.time_ns for site in known) / weight
            if weight
            else None
        ),
        limiter=largest.limiter,
        configurations=len(configurations),
        routine=max(by_routine, key=by_routine.__getitem__),
        routines=len(by_routine),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@of_a_sound_file
def devices(db: ProfileDB, trial_id: int) -> list[Device]:
    """The trial's GPUs with all that is known of them, by node and ordinal."""
    db.trial(trial_id)
    return [
        Device(node, ordinal, name, uuid, capability, tuple(map(Fact._make, facts)))
        for id, node, ordinal, name, uuid, capability in db.rows(_DEVICES, (trial_id,))
        for facts in [db.rows(_FACTS, (id,))]
    ]


@of_a_sound_file
def busy(db: ProfileDB, trial_id: int, sites: Iterable[SiteRow]) -> list[BusyRow]:
    """What each GPU of the trial did in all; `sites` as `launch_sites` gives them."""
    names = {(one.node, 1 + one.ordinal): one.name for one in devices(db, trial_id)}
    sums: dict[tuple[int, int], list[int]] = {}
    for site in sites:
        kernel, copy, ownerless = sums.setdefault((site.node, site.context), [0, 0, 0])
        is_kernel = "GPU_KERNEL" in site.groups.split("|")
        sums[site.node, site.context] = [
            kernel + site.time_ns * is_kernel,
            copy + site.time_ns * (not is_kernel),
            ownerless + site.time_ns * (site.routine == NO_OWNER),
        ]
    spans: dict[tuple[int, int], _Spans] = {}
    for node, context, kind, start, end in db.stream(_SPANS, (trial_id,)):
        spans.setdefault((node, context), _Spans()).add(kind == "kernel", start, end)
    return [
        BusyRow(
            *place,
            names.get(place, ""),
            *sums[place],
            *(spans[place].figures() if place in spans else (None,) * 5),
        )
        for place in sorted(sums)
    ]


@dataclass(slots=True)
class _Spans:
    """Intervals in order of their starts, joined as they come."""

    first: int | None = None
    until: int = 0
    busy: int = 0
    gaps: int = 0
    longest: int = 0
    overlap: int = 0
    ends: list[int] = field(default_factory=lambda: [0, 0])  # joined end: copies, kernels

    def add(self, is_kernel: bool, start: int, end: int) -> None:
        if self.first is None:
            self.first = self.until = start
        if start > self.until:
            self.gaps += 1
            self.longest = max(self.longest, start - self.until)
        self.busy += max(0, end - max(start, self.until))
        self.until = max(self.until, end)
        # What is new of this kind, laid over what is known of the other one.
        mine, other = self.ends[is_kernel], self.ends[not is_kernel]
        self.overlap += max(0, min(end, other) - max(start, mine))
        self.ends[is_kernel] = max(mine, end)

    def figures(self) -> tuple[int, int, int, int, int]:
        """span, busy, overlap, gaps, longest gap."""
        return self.until - (self.first or 0), self.busy, self.overlap, self.gaps, self.longest


class _Paths:
    """The call paths that lead to kernels."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._steps = {
            id: (parent, name, short, groups) for id, parent, name, short, groups in rows
        }
        self._texts: dict[int, str] = {}

    def names(self, callpath: int) -> tuple[str, str, str]:
        """(name, short name, groups) of its last timer."""
        _, name, short, groups = self._steps[callpath]
        return name, short, groups

    def routine(self, callpath: int | None) -> str:
        """The nearest timer from here up that is no API call and not the root.

        The API call, or the root, where a thread without routines launched it.
        """
        here = callpath
        call = None
        while here is not None and here in self._steps:
            parent, name, _, groups = self._steps[here]
            if "GPU_NO_OWNER" in groups:
                return NO_OWNER
            if not set(groups.split("|")) & set(_NOT_A_ROUTINE):
                return visible(name)
            if call is None:
                call = visible(name)
            here = parent
        return NO_OWNER if call is None else call

    def text(self, callpath: int | None) -> str:
        """The path as text, without its root."""
        if callpath is None or callpath not in self._steps:
            return NO_OWNER
        if callpath not in self._texts:
            names: list[str] = []
            here: int | None = callpath
            while here is not None and here in self._steps:
                parent, name, _, groups = self._steps[here]
                if parent is not None or "TAUPY" not in groups.split("|"):
                    names.append(visible(name))
                here = parent
            self._texts[callpath] = " => ".join(reversed(names)) or NO_OWNER
        return self._texts[callpath]
