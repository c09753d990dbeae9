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
    import numpy

    cut = {at for at, timer in enumerate(profile.timers) if timer == CALLERS_NOT_RECORDED}
    unit_ns = _NS_OF[metric.unit]
    negative: list[str] = []
    short: list[str] = []
    negatives = shorts = 0
    for measured in profile.threads:
        tree = measured.tree
        if metric.name not in tree.inclusive:
            continue
        whole = numpy.array(tree.inclusive[metric.name], dtype=float)
        own = numpy.array(tree.exclusive[metric.name], dtype=float)
        below = (own < 0) | (whole < 0)
        if below.any():
            row = int(below.argmax())
            kind, value = ("exclusive", own[row]) if own[row] < 0 else ("inclusive", whole[row])
            negatives += int(below.sum())
            negative.append(
                f"{_path(profile, tree, row)}: {units.duration(value * unit_ns)} {kind}"
            )
            for columns in (tree.inclusive, tree.exclusive):
                columns[metric.name] = _unknown_below_zero(columns[metric.name])
        if not cut.isdisjoint(tree.timer):
            continue
        parent = numpy.array(tree.parent, dtype=numpy.int64)
        has = (parent >= 0) & (whole > 0)
        callees = numpy.bincount(parent[has], weights=whole[has], minlength=len(parent))
        lacks = (whole >= 0) & (callees - whole > _SLACK * callees) & ~below
        if lacks.any():
            row = int(lacks.argmax())
            times = [units.duration(values[row] * unit_ns) for values in (whole, callees)]
            shorts += int(lacks.sum())
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
