"""Charts as one interactive, self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from taupy.escaping import page_head, script_json
from taupy.roofline import chart as charts
from taupy.roofline.chart import Axis, Chart
from taupy.roofline.lettering import ROOF_SIZE, lettering
from taupy.roofline.palette import Theme, palette
from taupy.roofline.ticks import tick_label, ticks

_PAGE = """{head}
<body>
<h1 id="title"></h1>
<div class="subtitle" id="subtitle"></div>
<div class="bar">
  <span class="tabs" id="tabs"></span>
  <label id="level-label">level <select id="level"></select></label>
  <label>share of time from <input id="least" type="range" min="0" max="80" value="0">
    <span id="least-text">all</span></label>
  <label>find <input id="find" type="search" placeholder="name"></label>
  <button class="plain" id="equal">equal decades</button>
  <button class="plain" id="save">save SVG</button>
  <button class="plain" id="theme">light / dark</button>
</div>
<div class="main">
  <svg id="chart" xmlns="http://www.w3.org/2000/svg"></svg>
  <ul class="legend" id="legend"></ul>
</div>
<ul class="notes" id="notes"></ul>
<div class="scroll"><table class="names" id="names"></table></div>
<div id="tip"></div>
<noscript>This page needs JavaScript; the CSV file beside it contains the numbers.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


_WIDTH = 960
_PIXELS = 11 / ROOF_SIZE  # per point: letters on the page are 11 pixels high


def html_page(charts_drawn: Sequence[Chart], theme: Theme | None = None) -> str:
    """One page with all these charts of the same points.

    Args:
        charts_drawn: at least one chart; all of the same points.
        theme: light or dark; None to follow the reader's system.
    """
    data: dict[str, Any] = {
        "points": charts.to_json(charts_drawn[0])["points"],
        "charts": [_drawn(chart) for chart in charts_drawn],
        "titles": charts.TITLES,
        "palettes": {"light": palette("light"), "dark": palette("dark")},
        "theme": theme,
    }
    script, style = (
        files("taupy.roofline").joinpath(name).read_text("utf-8")
        for name in ("page.js", "page.css")
    )
    return _PAGE.format(
        head=page_head(charts_drawn[0].title, style, [script], "img-src data: blob:"),
        data=script_json(data),
        script=script,
    )


def _drawn(chart: Chart) -> dict[str, Any]:
    """A chart with its layout computed in advance: ticks, planes, places of labels."""
    data = charts.to_json(chart)
    del data["points"]
    for name in ("x", "y", "x2", "y2"):
        axis: Axis | None = getattr(chart, name)
        if axis is not None:
            data[name]["ticks"] = [[value, tick_label(value)] for value in ticks(axis)]
    data["planes"] = {"usual": _plane(chart, False), "equal": _plane(chart, True)}
    return data


def _plane(chart: Chart, equal_decades: bool) -> dict[str, Any]:
    """Position of the plane on the page, in pixels, and its labels."""
    left, top = 74.0, 52.0 if chart.x2 else 16.0
    wide, high = _WIDTH - (78 if chart.y2 else 18) - left, 568 - top
    if equal_decades:
        decade = min(wide / chart.x.decades, high / chart.y.decades)
        wide, high = decade * chart.x.decades, decade * chart.y.decades
    labels = lettering(chart, wide / _PIXELS, high / _PIXELS)
    return {
        **{"left": left, "top": top, "right": left + wide, "bottom": top + high},
        "labels": [{**asdict(label), "size": label.size * _PIXELS} for label in labels],
    }
