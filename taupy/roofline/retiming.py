"""Run times from another trial of the same program, run without counters.

Counting slows kernels down. Points are matched by name. If the numbers of launches or calls
differ, the time is scaled, and the point has a note.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import replace

from taupy.model.work import TrialWork
from taupy.roofline.gathering import WHOLE, Sum, add_routine, keys, place_of, wanted
from taupy.roofline.point import Of, Point, is_whole

UNTIMED = "not in the timing trial"
"""Beginning of the note for a point that the timing trial lacks."""

_SHORT = "short name: "


def kernel_timings(timing: TrialWork, of: Of, inclusive: bool) -> dict[str, tuple[float, int]]:
    """Name -> seconds and launches in the timing trial."""
    times: dict[str, tuple[float, int]] = {}
    full_names: dict[str, set[Hashable]] = {}
    for kernel in timing.kernels:
        if not kernel.time_ns > 0:
            continue
        for key in keys(timing, kernel, of, inclusive):
            full, short = "", ""
            if key != WHOLE:
                full, short, _ = place_of(timing, key)
            full_names.setdefault(_SHORT + short, set()).add(key)
            for name in dict.fromkeys((_placeless(full), _SHORT + short)):
                seconds, launches = times.get(name, (0.0, 0))
                times[name] = (seconds + kernel.time_ns / 1e9, launches + kernel.calls)
    # A short name shared by several kernels identifies none of them.
    return {name: value for name, value in times.items() if len(full_names.get(name, ())) < 2}


def retimed(point: Point, times: Mapping[str, tuple[float, int]], timing: TrialWork) -> Point:
    """The point with the times of the timing trial."""
    name = "" if point.of == "program" else _placeless(point.name)
    # Tools spell template arguments differently; a short name suffices where it is unique.
    seconds, number = times.get(name) or times.get(_SHORT + point.short) or (0.0, 0)
    if not number or seconds <= 0:
        note = f"{UNTIMED} {timing.trial_id}: timed while being counted"
        return replace(point, notes=(*point.notes, note))
    mean = seconds / number
    here, counted = (point.launches, point.counted) if point.launches else (point.calls,) * 2
    notes = point.notes
    if number != here:
        what = "launches" if point.launches else "calls"
        notes = (
            *notes,
            f"{here} {what} here, {number} in the timing trial: scaled to this trial's",
        )
    if point.rates_alone:
        return replace(point, run_time=mean * here, notes=notes)  # rates use their own time
    return replace(point, run_time=mean * here, time=mean * counted, notes=notes)


def _placeless(name: str) -> str:
    """A routine's name without its folder, which depends on how the program was started."""
    return re.sub(r"\[\{[^}]*[/\\]([^}/\\]*)\}", r"[{\1}", name)


def routine_timings(timing: TrialWork, of: Of, inclusive: bool) -> dict[str, tuple[float, int]]:
    """Name -> seconds of the longest thread and calls in the timing trial."""
    whole = is_whole(of, inclusive)
    sums: dict[str, Sum] = {}
    for routine in timing.routines:
        place = timing.timers[routine.timer]
        took = routine.inclusive_ns if whole else routine.exclusive_ns
        if wanted(place, of) and took > 0:
            name = "" if of == "program" else _placeless(place.name)
            add_routine(sums.setdefault(name, Sum(place)), routine, whole)
    return {
        name: (max(total.thread_ns.values()) / 1e9, total.calls) for name, total in sums.items()
    }
