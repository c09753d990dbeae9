"""Trajectories: points of several trials or phases, ordered by a swept parameter.

The parameter of a point is `NAME=VALUE` in its name (a phase "forward batch=32"), or metadata
NAME of its trial, or `NAME=VALUE` in the trial's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from taupy.errors import UsageError
from taupy.model.options import number_in
from taupy.roofline.point import Point
from taupy.units import no_such

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"


def parameter_in(text: str, name: str) -> float | None:
    """The number after `NAME=` in a text."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}\s*=\s*({_NUMBER})", text)
    return float(match.group(1)) if match else None


def without(text: str, name: str) -> str:
    """The text without `NAME=VALUE`, which the points of a series have in common."""
    less = re.sub(rf"(?<![\w.]){re.escape(name)}\s*=\s*{_NUMBER}", "", text)
    return " ".join(re.sub(r"[\s,;/_]+$|^[\s,;/_]+", "", less).split())


def swept(
    points: Sequence[Point],
    name: str,
    metadata: Mapping[int, Mapping[str, str]],
    series: str | None = None,
) -> list[Point]:
    """The points that have the parameter, with series and parameter set.

    Args:
        metadata: of each trial.
        series: metadata whose value is the series of a trial (a framework); None for the
            application, with the processor if there are several.

    Raises:
        UsageError: no point has the parameter, or no trial the metadata of the series.
    """
    swept_points = []
    for point in points:
        facts = metadata.get(point.trial, {})
        value = parameter_in(point.name, name) if point.of != "program" else None
        if value is None and name in facts:
            value = number_in(facts[name])
        if value is None:
            value = parameter_in(point.trial_name, name)
        if value is not None:
            swept_points.append(replace(point, parameter=value))
    if not swept_points:
        numbers = {
            fact
            for facts in metadata.values()
            for fact in facts
            if number_in(facts[fact]) is not None
        }
        raise UsageError(
            f"{no_such('parameter', name, numbers)}: name phases '... {name}=VALUE', or set it in "
            f"the program with taupy.metadata('{name}', VALUE)"
        )
    facts_there = {fact for point in swept_points for fact in metadata.get(point.trial, {})}
    if series is not None and series not in facts_there:
        raise UsageError(f"--series: {no_such('metadata', series, facts_there)}")
    processors = {point.processor for point in swept_points}
    labels = {
        point.trial: _label(point, metadata.get(point.trial, {}), series, len(processors) > 1)
        for point in swept_points
    }
    several = len(set(labels.values())) > 1
    return [
        replace(point, series=_series(point, name, labels[point.trial], several))
        for point in swept_points
    ]


def _label(point: Point, facts: Mapping[str, str], series: str | None, processors: bool) -> str:
    application = point.trial_name.split("/", 1)[0]
    name = application if series is None else facts.get(series, "")
    return f"{name} on {point.processor}" if processors else name


def _series(point: Point, name: str, label: str, several: bool) -> str:
    own = without(point.short, name) if point.of != "program" else ""
    parts = [part for part in (own, label if several or not own else "") if part]
    return ", ".join(parts) or name
