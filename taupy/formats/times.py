"""What no importer stores: times below zero."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Final

from taupy import units
from taupy.formats.registry import IMPORT_NOTES
from taupy.model.invariants import CALLERS_NOT_RECORDED
from taupy.model.profile import CallTree, Metric, Profile
from taupy.units import several

_NS_OF: Final = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
_SLACK: Final = 1e-3
"""The part of a time that sums of rounded times may lack."""


def check(profile: Profile) -> None:
    """Make times below zero unknown, and note them and times below the sum of their callees, with
    the first such call path: they are errors of the file or of its reader."""
    notes = [
        note for metric in profile.metrics if metric.unit in _NS_OF
        for note in _notes(profile, metric)
    ]  # fmt: skip
    if notes:
        before = profile.metadata.get(IMPORT_NOTES)
        profile.metadata[IMPORT_NOTES] = "\n".join([*([before] if before else []), *notes])


def _notes(profile: Profile, metric: Metric) -> Iterator[str]:
    cut = {at for at, timer in enumerate(profile.timers) if timer == CALLERS_NOT_RECORDED}
    unit_ns = _NS_OF[metric.unit]
    negative: list[str] = []
    short: list[str] = []
    negatives = shorts = 0
    for measured in profile.threads:
        tree = measured.tree
        if metric.name not in tree.inclusive:
            continue
        whole, own = tree.inclusive[metric.name], tree.exclusive[metric.name]
        below = {row for row, (in_all, alone) in enumerate(zip(whole, own, strict=True))
                 if in_all < 0 or alone < 0}  # fmt: skip
        if below:
            row = min(below)
            kind, value = ("exclusive", own[row]) if own[row] < 0 else ("inclusive", whole[row])
            negatives += len(below)
            negative.append(
                f"{_path(profile, tree, row)}: {units.duration(value * unit_ns)} {kind}"
            )
            for columns in (tree.inclusive, tree.exclusive):
                columns[metric.name] = _unknown_below_zero(columns[metric.name])
        if not cut.isdisjoint(tree.timer):
            continue
        callees = [0.0] * len(whole)
        for above, time in zip(tree.parent, whole, strict=True):
            if above >= 0 and time > 0:
                callees[above] += time
        lacks = [
            row for row, (time, sums) in enumerate(zip(whole, callees, strict=True))
            if time >= 0 and sums - time > _SLACK * sums and row not in below
        ]  # fmt: skip
        if lacks:
            row = lacks[0]
            times = [units.duration(values[row] * unit_ns) for values in (whole, callees)]
            shorts += len(lacks)
            short.append(f"{_path(profile, tree, row)}: {times[0]}, its callees {times[1]}")
    if negatives:
        yield (
            f"{metric.name}: {several(negatives, 'call path')} below zero in the file, now unknown "
            f"({negative[0]})"
        )
    if shorts:
        yield (
            f"{metric.name}: {several(shorts, 'call path')} with less time than their callees "
            f"together ({short[0]})"
        )


def _path(profile: Profile, tree: CallTree, row: int) -> str:
    """The last routines of a call path."""
    names: list[str] = []
    while row >= 0 and len(names) < 3:
        timer = profile.timers[tree.timer[row]]
        names.append((timer.short or timer.name)[:60])
        row = tree.parent[row]
    return " => ".join([*(["..."] if row >= 0 else []), *reversed(names)])


def _unknown_below_zero(column: array[int]) -> array[int]:
    values = [math.nan if value < 0 else float(value) for value in column]
    return array("d", values)  # type: ignore[return-value]
