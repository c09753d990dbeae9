"""Charts as one interactive page: a single HTML file that needs neither network nor library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taupy.escaping import content_security_policy, html, script_json
from taupy.roofline import chart as charts
from taupy.roofline.chart import Chart
from taupy.roofline.page_script import SCRIPT, STYLE
from taupy.roofline.palette import Theme, palette

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{policy}
<title>{title}</title>
<style>{style}</style>
</head>
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
<noscript>This page draws with JavaScript; the numbers stand in the CSV file beside it.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def html_page(made: Sequence[Chart], theme: Theme | None = None) -> str:
    """One page with all these charts of the same points.

    Args:
        made: at least one; all of the same points.
        theme: light or dark; None follows the reader's system.
    """
    each = [charts.to_json(one) for one in made]
    data: dict[str, Any] = {
        "points": each[0]["points"],
        "charts": [{name: one[name] for name in one if name != "points"} for one in each],
        "titles": charts.TITLES,
        "palettes": {"light": palette("light"), "dark": palette("dark")},
        "theme": theme,
    }
    return _PAGE.format(
        policy=content_security_policy([SCRIPT], "img-src data: blob:"),
        title=html(made[0].title),
        style=STYLE,
        data=script_json(data),
        script=SCRIPT,
    )
