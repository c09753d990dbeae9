"""The roofline as a tab of the page: charts, the numbers of their points, and a table.

`report/static/roofline.js` draws what is in `Contents.roofline`; it formats no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from taupy.errors import MissingMetric
from taupy.escaping import visible
from taupy.model.rows import TrialRow
from taupy.profiledb import ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.report import page
from taupy.report.contents import Contents, Part, Section
from taupy.roofline import chart as charts
from taupy.roofline import points
from taupy.roofline.chart import Axis, Chart
from taupy.roofline.choice import Known, Wishes, placed
from taupy.roofline.drawing import Drawing
from taupy.roofline.lettering import ROOF_SIZE, lettering
from taupy.roofline.palette import palette
from taupy.roofline.placement import Placement
from taupy.roofline.ticks import tick_label, ticks
from taupy.roofline.verdict import verdict
from taupy.roofline.view import points_view, roof_lines
from taupy.units import count, duration, percent, prefixed

_WIDTH, _HEIGHT = 960, 568
_PIXELS = 11 / ROOF_SIZE  # per point: letters on the page are 11 pixels high
_BESIDE = 74.0  # the plane: for numbers and the name of the axis


def tab(db: ProfileDB, trial: TrialRow, contents: Contents) -> list[Part]:
    """Kernels, or routines if no kernel was counted, and the layers of a network; no parts without
    operations or bytes. Sets the charts."""
    (work,) = trial_work(db, [trial])
    try:
        placeable = points.points(work, "kernel" if points.runs_on_gpu(work) else "routine")
        points.require(placeable, work)
    except MissingMetric:
        return []
    with suppress(MissingMetric):
        placeable += points.points(work, "layer")
    stored = Known(ceilings.ceilings(db), ceilings.best_of, lambda text: [])
    drawing = Drawing(placed(Wishes(), placeable, [work], stored))
    contents.roofline = _charts(drawing.all_charts(), drawing.placements)
    return _table(drawing.placements)


def html_page(charts_drawn: Sequence[Chart], drawing: Drawing) -> str:
    """A page with this tab alone."""
    first = charts_drawn[0]
    return page.html_page(
        Contents(
            first.title,
            first.subtitle,
            [Section("roofline", "Roofline", _table(drawing.placements))],
            roofline=_charts(charts_drawn, drawing.placements),
            theme=drawing.theme or "",
        )
    )


def _table(placements: Sequence[Placement]) -> list[Part]:
    notes = [*roof_lines(placements), *verdict(placements)]
    return [Part(views=[points_view(placements, "", notes, full_names=True)])]


def _charts(charts_drawn: Sequence[Chart], placements: Sequence[Placement]) -> dict[str, Any]:
    """What the script draws; all charts are of the same points."""
    return {
        "points": [_numbers(placement) for placement in placements],
        "charts": [_drawn(chart) for chart in charts_drawn],
        "titles": charts.TITLES,
        "palettes": {"light": palette("light"), "dark": palette("dark")},
    }


def _numbers(placement: Placement) -> list[str]:
    """What is shown where one points at a point; its name first."""
    point = placement.point
    lines = [point.name, f"{count(point.calls)} calls"]
    if point.launches and point.of != "kernel":
        lines[1] += f", {count(point.launches)} launches"
    if point.launches and point.counted < point.launches:
        lines.append(f"counted: {count(point.counted)} of {count(point.launches)} launches")
    if not point.rates_alone:
        of = " in kernels" if point.of == "kernel" else ""
        lines.append(f"{duration(point.run_time * 1e9)}, {percent(100 * point.share)} % of the "
                     f"time{of}")  # fmt: skip
        if point.time != point.run_time:
            lines.append(f"{duration(point.time * 1e9)} counted")
        lines += [
            f"{name if name != 'any' else 'flop'}: {prefixed(flop, 'flop')}"
            for name, flop in point.flop.items()
            if flop
        ]
    if point.idle:
        lines.append("no flop")
    lines += [_traffic(placement, level) for level in point.bytes]
    if point.flop_tier != "unknown" and point.time > 0:
        lines.append(f"performance: {prefixed(point.performance, 'flop/s')}")
    if placement.roof_share is not None:
        lines.append(f"of its roof: {percent(100 * placement.roof_share)} %")
    if placement.limiter:
        lines.append(f"bound by {placement.limiter}")
    if placement.overhead:
        lines.append(f"launch overhead: {duration(placement.overhead * 1e9)}")
    lines.append(f"flop are {point.flop_tier}, bytes {point.bytes_tier}")
    if point.processor:
        lines.append(f"on {point.processor} (trial {point.trial})")
    return [visible(line) for line in (*lines, *point.notes, *placement.assumed)]


def _traffic(placement: Placement, level: str) -> str:
    point = placement.point
    moved, intensity = point.bytes[level], point.intensity(level)
    parts = [] if point.rates_alone else [prefixed(moved, "B")]
    if intensity is not None:
        parts.append(prefixed(intensity, "flop/B"))
    if moved and point.time > 0:
        parts.append(prefixed(moved / point.time, "B/s"))
    return f"{level}: {', '.join(parts)}"


def _drawn(chart: Chart) -> dict[str, Any]:
    """A chart with its layout: ticks, planes, places of labels."""
    data = charts.to_json(chart)
    del data["points"]
    for name in ("x", "y", "x2", "y2"):
        axis: Axis | None = getattr(chart, name)
        if axis is not None:
            data[name]["ticks"] = [[value, tick_label(value)] for value in ticks(axis)]
    data["planes"] = {"usual": _plane(chart, False), "equal": _plane(chart, True)}
    shown: dict[str, Any] = _visible(data)
    return shown


def _visible(data: Any) -> Any:
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {name: _visible(value) for name, value in data.items()}
    return [_visible(value) for value in data] if isinstance(data, list) else data


def _plane(chart: Chart, equal_decades: bool) -> dict[str, Any]:
    """Position of the plane on the page, in pixels, and its labels."""
    left, top = _BESIDE, 52.0 if chart.x2 else 16.0
    wide, high = _WIDTH - (78 if chart.y2 else 18) - left, _HEIGHT - top
    if equal_decades:
        decade = min(wide / chart.x.decades, high / chart.y.decades)
        wide, high = decade * chart.x.decades, decade * chart.y.decades
    labels = lettering(chart, wide / _PIXELS, high / _PIXELS)
    return {
        **{"left": left, "top": top, "right": left + wide, "bottom": top + high},
        "labels": [{**asdict(label), "size": label.size * _PIXELS} for label in labels],
    }
