"""Write the files of `taupy roofline -o` and `--export`: pictures, pages and their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from taupy.commands import bar
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.roofline import chart as charts
from taupy.roofline import export
from taupy.roofline.ceilings_file import ert_json
from taupy.roofline.chart import Chart
from taupy.roofline.drawing import Drawing
from taupy.roofline.placement import Placement
from taupy.state.saving import save_named

EXPORTS = ("ncu-csv", "ert-json")
_PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (*_PICTURES, ".html", ".csv", ".json")


def write(paths: Sequence[str], drawing: Drawing) -> None:
    """Write pictures, pages and tables. The numbers of pictures are written beside them as CSV and
    JSON; a page holds its own.

    Raises:
        UsageError: a file cannot be written, or a chart would be empty.
    """
    numbers: dict[str, tuple[list[str], list[Chart]]] = {}
    for path in paths:
        stem, ending = path[: -len(Path(path).suffix)], Path(path).suffix.lower()
        endings, charts_drawn = numbers.setdefault(stem, ([], []))
        charts_drawn += _write(path, ending, drawing)
        endings += [".csv", ".json"] if ending in _PICTURES else [ending]
    for stem, (endings, charts_drawn) in numbers.items():
        _write_numbers(stem, endings, charts_drawn)


def _write(path: str, ending: str, drawing: Drawing) -> list[Chart]:
    """Write a picture or a page; returns its charts."""
    if ending == ".html":
        from taupy.roofline.tab import html_page

        with bar.shown(f"drawing {path}"):
            charts_drawn = drawing.all_charts()
            page = html_page(charts_drawn, drawing)
        _save(path, page)
        return charts_drawn
    level = drawing.first_level()
    usual: list[charts.Kind] = ["classic"]
    kinds = list(dict.fromkeys(drawing.kinds or usual))
    for kind in kinds:
        _need_roofs(kind, level, drawing.placements)
    charts_drawn = [drawing.chart(kind, level) for kind in kinds]
    if ending in _PICTURES:
        from taupy.roofline.picture import write_picture

        for kind, chart in zip(kinds, charts_drawn, strict=True):
            name = path if len(charts_drawn) == 1 else f"{path[: -len(ending)]}-{kind}{ending}"
            with bar.shown(f"drawing {name}"):
                write_picture(chart, name, drawing.theme or "light", drawing.size)
            say(f"wrote {name}")
    return charts_drawn


def _need_roofs(kind: charts.Kind, level: str, placements: Sequence[Placement]) -> None:
    """Reject a time-based chart without roofs, which would be empty.

    Raises:
        UsageError: no point has the roofs that the chart needs.
    """
    if kind in ("classic", "hierarchical"):
        return
    if not any(placement.times(level) for placement in placements):
        name = placements[0].roofs.processor or "this processor"
        raise UsageError(
            f"the {kind} chart needs a compute roof and a {level} roof for {name}; measure them "
            "with `taupy ceilings`, or name a GPU or a file with --ceilings"
        )


def _write_numbers(path: str, endings: Sequence[str], charts_drawn: Sequence[Chart]) -> None:
    """For each base name: one CSV file of points, one JSON file of charts."""
    if ".csv" in endings:
        _save(path + ".csv", export.table_csv(charts_drawn[0].points))
    if ".json" in endings:
        unique = {(chart.kind, chart.level): chart for chart in charts_drawn}
        data = [charts.to_json(chart) for chart in unique.values()]
        _save(path + ".json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _save(path: str, text: str) -> None:
    try:
        save_named(path, text)
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}") from None
    say(f"wrote {path}")


def write_export(form: str, path: str, placements: Sequence[Placement]) -> None:
    """Kernels or roofs in another tool's format; `form` is one of `EXPORTS`."""
    if form == "ncu-csv":
        kernels = [placement.point for placement in placements if placement.point.of_gpu]
        if not kernels:
            raise UsageError("--export ncu-csv writes kernels, and these points are not kernels")
        _save(path, export.ncu_csv(kernels))
        return
    roofs = placements[0].roofs
    if roofs.empty:
        raise UsageError("--export ert-json writes roofs, and none are known; see --ceilings")
    _save(path, ert_json(roofs))
