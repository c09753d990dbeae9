"""A report as one self-contained HTML page, which loads nothing and opens from a file.

Its scripts are the modules in `static/`, concatenated: a page opened from a file cannot import.
Names and numbers are embedded deflated, and enter the page's elements only as text.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from taupy.escaping import html, page_head, visible
from taupy.pprof import cells
from taupy.pprof.view import Cell, Column, View
from taupy.report.contents import Contents, Part, Section
from taupy.units import count

MODULES = (
    *(
        "numbers",
        "address",
        "words",
        "table",
        "kinds",
        "tip",
        "chart",
        "bars",
        "columns",
        "forest",
        "flame_tree",
    ),
    *("change", "flame", "flame_panel", "timeline", "course", "timeline_panel"),
    *("heat", "heat_panel"),
    *("roofline", "layers", "overview", "listing", "source", "page"),
)
"""Each module follows those that it imports."""

_PAGE = """{head}
<body>
{back}<header id="head"><h1>{title}</h1><p class="facts">{subtitle}</p></header>
<div id="tabs" role="tablist" aria-label="parts of the report"></div>
<main id="panels"></main>
<footer id="end"></footer>
<div id="tip" hidden></div>
<noscript>This page needs JavaScript; `taupy pprof` prints the same numbers.</noscript>
<template id="flame"><div>
  <div class="controls">
    <label>show <select data-part="group"></select></label>
    <label><input type="checkbox" data-part="folded"> fold libraries</label>
    <label data-part="merging"><input type="checkbox" data-part="merged"> merge repeated
      layers</label>
    <label><input type="checkbox" data-part="inverted"> callers below</label>
    <input type="search" data-part="find" placeholder="find a name or file"
      aria-label="find a name or file">
    <span data-part="share" aria-live="polite"></span>
    <button data-part="callers">callers of the selected routine</button>
    <button data-part="reset">reset</button>
  </div>
  <div class="legend" data-part="legend"></div>
  <div class="path" data-part="path" aria-label="zoomed to"></div>
  <div class="graph">
    <canvas data-part="canvas" tabindex="0" role="application" aria-label="flame graph"></canvas>
    <p class="said" aria-live="polite"></p>
  </div>
  <p class="note" data-part="colors" hidden>Red: B takes longer. Blue: B takes less. Grey: no
  change is known. A box is as wide as its time in A and in B together.</p>
  <p class="note">Width is time. Click, or Enter, zooms in; Escape zooms out; arrows walk. Boxes
  narrower than a pixel are left out.</p>
  <section data-part="hottest"></section>
</div></template>
<template id="timeline"><div>
  <div class="controls">
    <button data-part="in">zoom in</button>
    <button data-part="out">zoom out</button>
    <button data-part="whole">whole run</button>
    <span class="legend" data-part="legend"></span>
  </div>
  <p class="note" data-part="note"></p>
  <div class="graph">
    <canvas data-part="canvas" tabindex="0" role="application" aria-label="timeline"></canvas>
    <p class="said" data-part="said" aria-live="polite"></p>
  </div>
  <p class="note">Drag, or arrows, to move; a double click, + and -, or the wheel with Ctrl,
  to zoom; Escape or 0 for the whole run.</p>
</div></template>
<template id="heat"><div>
  <h2>Steps of all ranks</h2>
  <div class="controls">
    <label>show <select data-part="quantity">
      <option value="time">time of a step</option>
      <option value="own">time without waiting</option>
      <option value="wait">waiting for other ranks</option>
    </select></label>
    <span><span data-part="low"></span><span class="scale"></span>
      <span data-part="high"></span></span>
  </div>
  <div class="graph">
    <canvas data-part="canvas" tabindex="0" role="application"
      aria-label="map of ranks and steps"></canvas>
    <p class="said" data-part="said" aria-live="polite"></p>
  </div>
  <p class="note" data-part="note" hidden>A column is several steps: the longest of them.</p>
  <p class="note">A row is a rank. Grey: not known. Arrows walk.</p>
</div></template>
<template id="roofline"><div>
  <div class="controls">
    <label>chart <select data-part="kind"></select></label>
    <label data-part="levels">level <select data-part="level"></select></label>
    <label><input type="checkbox" data-part="equal"> equal decades</label>
  </div>
  <h2 data-part="title"></h2>
  <div class="roofline">
    <svg data-part="plane" role="group"></svg>
    <ul data-part="legend"></ul>
  </div>
  <ul class="warnings" data-part="warnings"></ul>
  <ul class="note" data-part="notes"></ul>
</div></template>
<script type="application/octet-stream" id="contents">{contents}</script>
<script type="application/octet-stream" id="forest">{forest}</script>
<script type="application/octet-stream" id="activities">{activities}</script>
<script type="application/octet-stream" id="heats">{heats}</script>
<script type="module">{script}</script>
</body>
</html>
"""

MOST_ROWS = 5_000
"""Rows of a table, the first ones: all routines of 160 threads can be 13,000."""

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)


def html_page(contents: Contents, *, back: str = "") -> str:
    """The page as the text of a file.

    Args:
        back: the address of the list of trials that it was chosen from, if any.
    """
    columns, widths = contents.forest.packed()
    activities, activity_widths = contents.timeline.packed()
    heats, heat_widths = contents.heat.packed()
    layout = {
        "sections": [_section(section) for section in contents.sections],
        "forest": contents.forest.layout(widths) if contents.forest.names else None,
        "roofline": contents.roofline,
        "timeline": contents.timeline.layout(activity_widths) if contents.timeline.lanes else None,
        "heat": contents.heat.layout(heat_widths) if contents.heat.ranks else None,
        "overview": contents.overview,
        "source": contents.source,
        "end": [visible(line) for line in contents.end],
        "theme": contents.theme,
        "sampled": contents.is_sampled,
    }
    script = _script()
    return _PAGE.format(
        head=page_head(contents.title, _static("page.css"), [script]),
        back=f'<p class="small"><a href="{html(back)}">&#8592; all trials</a></p>\n'
        if back
        else "",
        title=html(contents.title),
        subtitle=html(contents.subtitle),
        contents=_packed(json.dumps(layout, allow_nan=False, separators=(",", ":")).encode()),
        forest=_packed(columns),
        activities=_packed(activities),
        heats=_packed(heats),
        script=script,
    )


def _static(name: str) -> str:
    return files("taupy.report").joinpath("static", name).read_text("utf-8")


def _script() -> str:
    """All modules as one script, each in its own scope."""
    return "\nconst modules = {};\n" + "\n".join(map(_scoped, MODULES))


def _scoped(name: str) -> str:
    text = _IMPORT.sub(r"const \1 = modules.\2;", _static(f"{name}.js"))
    exported = ", ".join(match[2] for match in _EXPORT.finditer(text))
    text = _EXPORT.sub(r"\1 \2", text)
    return f"modules.{name} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();"


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


# --- what the scripts read ---------------------------------------------------


def _section(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "parts": [_part(part) for part in section.parts],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "title": visible(part.title),
        "folded": part.is_folded,
        "lines": [visible(line) for line in part.lines],
        "style": "warnings" if part.is_warning else "",
        "tables": [_table(view) for view in part.views],
        "series": [
            {
                "name": visible(series.name),
                "kind": series.kind,
                "over": series.over,
                "points": series.points,
            }
            for series in part.series
        ],
        "bars": [
            {
                "name": visible(bar.name),
                "note": visible(bar.note),
                "named": bar.is_named,
                "parts": [
                    {"kind": kind, "words": visible(words), "ns": ns}
                    for kind, words, ns in bar.parts
                ],
            }
            for bar in part.bars
        ],
    }


def _table(view: View) -> dict[str, Any]:
    view = cells.with_short_kernels(view)
    notes = [*view.warnings, *view.notes]
    if len(view.rows) > MOST_ROWS:
        first, of = count(MOST_ROWS), count(len(view.rows))
        notes.append(f"the first {first} of {of} rows; the command line has all")
        view = replace(view, rows=view.rows[:MOST_ROWS])
    columns, positions = cells.seen_by(view, "people")
    return {
        "title": visible(view.title),
        "columns": [
            {
                "name": column.name,
                "heading": " ".join(cells.heading(column)),
                "kind": _kind(column, [row[at] for row in view.rows]),
                "right": cells.stands_right(column, view, at),
            }
            for column, at in zip(columns, positions, strict=True)
        ],
        "rows": [[_cell(row[at]) for at in positions] for row in view.rows],
        "notes": [visible(note) for note in notes],
    }


def _kind(column: Column, own: Sequence[Cell]) -> str:
    """How numbers are shown; JavaScript itself cannot tell 3.0 from 3."""
    numbers = [cell for cell in own if isinstance(cell, int | float)]
    is_plain = column.kind in ("any", "text", "range", "int")
    if is_plain and numbers and all(isinstance(number, float) for number in numbers):
        return "real"
    return column.kind


def _cell(value: Cell) -> str | int | float | None:
    if isinstance(value, bytes):
        return cells.hexadecimal(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return visible(value) if isinstance(value, str) else value
