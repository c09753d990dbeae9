"""A pivot as a view: row labels, then one column per column label."""

from __future__ import annotations

import re

from taupy import units
from taupy.escaping import visible
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.profiledb.dimensions import heading
from taupy.study.pivot import PEOPLE_ROWS, ROW_DIMENSIONS, PivotTable
from taupy.study.pivot_cells import Labels, by_size, first


def view(answer: PivotTable) -> View:
    """The table. In text, a label that several rows share is shown once."""
    layout = answer.layout
    limit = PEOPLE_ROWS if layout.limit is None and not layout.whole else layout.limit
    outer = next(
        (at for at, name in enumerate(layout.rows) if name in ROW_DIMENSIONS), len(layout.rows)
    )
    table = answer.table
    notes = list(answer.notes)
    if outer < len(layout.rows):
        steps = layout.rows[outer] == "step"  # these stay in order
        table, left = (first if steps else by_size)(table, outer, limit)
        if left:
            what = "more steps" if steps else "smaller rows"
            notes.insert(0, f"{units.count(left)} {what}: --limit N or --all shows them")
    kind, unit = _kind(answer)
    columns = [Column(_plain(name), "text", heading(name), "machines") for name in layout.rows]
    columns += [Column(f"{_plain(name)}_", "text", heading(name), "people") for name in layout.rows]
    columns += [
        Column(_spelled(label), kind, _heading(label), side=True) for label in table.columns
    ]
    rows: list[list[Cell]] = []
    above: Labels = ()
    for labels in table.rows:
        same = 0
        while same < len(labels) - 1 and labels[: same + 1] == above[: same + 1]:
            same += 1
        shown = ["" if at < same else label for at, label in enumerate(labels)]
        rows.append([*labels, *shown, *table.row(labels)])
        above = labels
    kernels = [
        labels[at]
        for names, labelled in ((layout.rows, table.rows), (layout.columns, table.columns))
        for at, name in enumerate(names)
        if name == "kernel"
        for labels in labelled
    ]
    title = f"{_what(answer, unit)} by {_by(answer)}"
    return View(title, columns, rows, notes, answer.warnings, kernels)


def _what(answer: PivotTable, unit: str) -> str:
    layout = answer.layout
    names = [metric.name for metric in answer.metrics.values()]
    value = "" if names == ["duration"] or layout.value in names else f"{layout.value} "
    if value and not any(name in ROW_DIMENSIONS for name in (*layout.rows, *layout.columns)):
        value = "total " if not layout.group and not layout.filter else "selected "
    what = f"{value}{', '.join(names)}"
    if layout.baseline is not None:
        return f"PIVOT: {what}, relative to {layout.baseline},"
    if layout.peak:
        return f"PIVOT: {what}, % of peak,"
    return f"PIVOT: {what} [{unit}]" if unit not in ("", "ns", "B") else f"PIVOT: {what}"


def _by(answer: PivotTable) -> str:
    layout = answer.layout
    names = [name.removeprefix("meta.") for name in (*layout.rows, *layout.columns)]
    names = ["GPU" if name == "gpu" else name for name in names]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _kind(answer: PivotTable) -> tuple[Kind, str]:
    """The format of cells, the same in the whole table, so that they are easy to compare."""
    all_units = {metric.unit for metric in answer.metrics.values()}
    unit = next(iter(all_units)) if len(all_units) == 1 else ""
    kinds: dict[str, Kind] = {"ns": "time_ns", "B": "bytes", "call": "float", "%": "percent"}
    if answer.estimated:
        return ("about_ns" if unit == "ns" else "about_count"), unit
    return kinds.get(unit, "tau_count"), unit


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.removeprefix("meta."))


def _spelled(label: Labels) -> str:
    return ", ".join(label) or "value"


def _heading(label: Labels) -> str:
    """A heading on one or two lines, with control characters escaped."""
    names = [visible(name) for name in label]
    return "\n".join(names) if len(names) == 2 else _spelled(tuple(names))
