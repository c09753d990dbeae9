"""A sweep as tables: long format for CSV and JSON, values side by side for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from taupy.pprof.view import Cell, Column, Kind, View
from taupy.study.scaling import as_number

if TYPE_CHECKING:
    from taupy.study.sweep import Part, Sweep
    from taupy.study.sweep_rows import TimerRow

SIDE_BY_SIDE = 10
"""Maximum number of values side by side in a table for people."""


def view(sweep: Sweep, part: Part, *, people: bool) -> View:
    """One operation as a table.

    Args:
        people: for text and Markdown, otherwise for CSV and JSON.
    """
    shown: View = {
        "totals": _totals,
        "steps": _steps,
        "routines": _routines,
        "phases": _phases,
        "imbalance": _imbalance,
        "correlation": _correlation,
        "outliers": _outliers,
        "top": _top,
    }[part](sweep, sweep.limit, people)
    if part in ("totals", "steps") or not people:
        return shown
    of_gpus = {row.timer for row in sweep.routines() if row.where != "host"}
    return replace(shown, kernels=list(of_gpus))


def _value(sweep: Sweep) -> tuple[Kind, str]:
    """The format of values for people, and the suffix of a column's name in CSV."""
    unit = sweep.metric.unit
    suffix = unit.replace("/", "_per_").replace(" ", "_")
    kind: Kind = "time_ns" if unit == "ns" else "bytes" if unit == "B" else "float"
    return kind, f"_{suffix}" if suffix else ""


def _start(sweep: Sweep) -> list[Column]:
    columns = [Column("series", heading="Series")] if sweep.series != [""] else []
    return [*columns, Column("value", "any", sweep.over)]


def _own(sweep: Sweep, row: Sequence[Cell], value: int | None = 1) -> list[Cell]:
    """The row, without its series if there is only one, with numbers as numbers.

    Args:
        value: index of the parameter's value.
    """
    cells = list(row)
    if value is not None and all(as_number(text) is not None for text in sweep.values):
        text = str(cells[value])
        try:
            cells[value] = int(text)
        except ValueError:
            cells[value] = float(text)
    return cells if sweep.series != [""] else cells[1:]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _what(sweep: Sweep) -> str:
    # Cells of times and bytes have units of their own.
    unit = "" if _value(sweep)[0] != "float" else sweep.metric.unit
    return sweep.metric.name + (f" [{unit}]" if unit else "")


_SPEEDUP = Column("speedup", "float", "Speed-up")
_EFFICIENCY = Column("efficiency_percent", "percent", "Efficiency\n%")


def _totals(sweep: Sweep, limit: int | None, people: bool) -> View:
    kind, unit = _value(sweep)
    columns = [
        *_start(sweep),
        Column("runs", "int", "Runs"),
        Column(f"median{unit}", kind, "Median"),
        Column(f"minimum{unit}", kind, "Minimum"),
        Column(f"maximum{unit}", kind, "Maximum"),
        _SPEEDUP,
    ]
    scaling = sweep.scaling != "none"
    columns += [_EFFICIENCY] if scaling else []
    rows = []
    for row in sweep.totals():
        cells: list[Cell] = [*row[:-1], *([_percent(row.efficiency)] if scaling else [])]
        rows.append(_rounded(_own(sweep, cells), columns, people))
    notes = [
        f"{_across(sweep)}; speed-up: median at {sweep.over}={sweep.baseline} divided by the "
        "median at this value" + (f" ({sweep.scaling} scaling)" if scaling else "")
    ]
    if not scaling and all(as_number(value) is not None for value in sweep.values):
        notes.append("no efficiency: add --scaling strong or weak if the parameter is a resource")
    return View(f"SWEEP over {sweep.over}: {_what(sweep)}", columns, rows, [*notes, *sweep.notes])


def _steps(sweep: Sweep, limit: int | None, people: bool) -> View:
    columns = [
        *_start(sweep),
        Column("runs", "int", "Runs"),
        Column("steps", "float", "Steps"),
        Column("step_ns", "time_ns", "Step"),
        Column("samples_per_second", "rate", "Samples/s"),
        Column("tokens_per_second", "rate", "Tokens/s"),
        Column("memory_bytes", "bytes", "Memory\nat most"),
        Column("gpu_memory_bytes", "bytes", "GPU memory\nat most"),
    ]
    notes = ["medians over the runs of what `taupy steps` shows of a training, after its warm-up"]
    shown = View(
        f"STEPS over {sweep.over}", columns, [_own(sweep, row) for row in sweep.steps()], notes
    )
    return shown.filled(len(_start(sweep)) + 3) if people else shown


def _across(sweep: Sweep) -> str:
    """How the threads of a trial are combined."""
    return {
        "max": "the longest thread of each run",
        "mean": "the mean over threads of each run",
        "total": "the sum over threads of each run",
    }[sweep.across]


def _rounded(cells: list[Cell], columns: Sequence[Column], people: bool) -> list[Cell]:
    """Ratios with three decimals, for people."""
    if not people:
        return cells
    ratios = ("speedup", "pearson", "spearman", "explained", "score")
    return [
        _short(cell) if isinstance(cell, float) and column.name in ratios else cell
        for cell, column in zip(cells, columns, strict=True)
    ]


def _short(ratio: float) -> float:
    return round(ratio, 3) if abs(ratio) >= 0.01 else float(f"{ratio:.2g}")


def _routines(sweep: Sweep, limit: int | None, people: bool) -> View:
    return _timers(sweep, sweep.routines(), "ROUTINES, exclusive", "routine", limit, people)


def _phases(sweep: Sweep, limit: int | None, people: bool) -> View:
    return _timers(sweep, sweep.phases(), "PHASES, inclusive", "phase", limit, people)


def _timers(
    sweep: Sweep, rows: list[TimerRow], what: str, name: str, limit: int | None, people: bool
) -> View:
    title = f"{what} {_what(sweep)} over {sweep.over}"
    names = list(dict.fromkeys((row.where, row.timer) for row in rows))
    notes = []
    if limit is not None and len(names) > limit:
        notes.append(f"{limit} of {len(names)} {name}s; --limit shows more")
        kept = set(names[:limit])
        rows = [row for row in rows if (row.where, row.timer) in kept]
    if not rows:
        notes.append(f"no {name} was measured")
    if people and len(sweep.values) <= SIDE_BY_SIDE:
        return _side_by_side(sweep, rows, title, name, notes)
    kind, unit = _value(sweep)
    columns = [
        *_start(sweep)[:-1],
        Column(name, heading=name.capitalize()),
        Column("where", heading="Where"),
        *_start(sweep)[-1:],
        Column("runs", "int", "Runs"),
        Column("calls", "float", "Calls"),
        Column(f"median{unit}", kind, "Median"),
        Column(f"minimum{unit}", kind, "Minimum"),
        Column(f"maximum{unit}", kind, "Maximum"),
        Column("share_percent", "percent", "Share\n%"),
        _SPEEDUP,
        _EFFICIENCY,
    ]
    cells: list[list[Cell]] = [
        _own(sweep, [*row[:9], _percent(row.share), row.speedup, _percent(row.efficiency)], 3)
        for row in rows
    ]
    return View(title, columns, [_rounded(row, columns, people) for row in cells], notes)


def _side_by_side(
    sweep: Sweep, rows: list[TimerRow], title: str, name: str, notes: list[str]
) -> View:
    kind, _ = _value(sweep)
    last = sweep.values[-1] if sweep.values[-1] != sweep.baseline else sweep.values[0]
    scaling = sweep.scaling != "none"
    columns = [
        *_start(sweep)[:-1],
        *(Column(value, kind, f"{sweep.over}\n{value}") for value in sweep.values),
        Column("share_percent", "percent", f"Share %\nat {last}"),
        Column("speedup", "float", f"Speed-up\nat {last}"),
        *([Column("efficiency", "percent", f"Eff. %\nat {last}")] if scaling else []),
        Column(name, heading=name.capitalize()),
    ]
    by_timer: dict[tuple[str, str, str], dict[str, TimerRow]] = {}
    for row in rows:
        by_timer.setdefault((row.series, row.where, row.timer), {})[row.value] = row
    lines = []
    for (series, where, timer), at in by_timer.items():
        end = at.get(last)
        cells: list[Cell] = [series] if sweep.series != [""] else []
        cells += [at[value].median if value in at else None for value in sweep.values]
        cells += [_percent(end.share) if end else None, end.speedup if end else None]
        cells += [_percent(end.efficiency) if end else None] if scaling else []
        cells.append(timer if where == "host" else f"{timer} (GPU)")
        lines.append(_rounded(cells, columns, people=True))
    return View(title, columns, lines, notes)


def _imbalance(sweep: Sweep, limit: int | None, people: bool) -> View:
    kind, unit = _value(sweep)
    columns = [
        *_start(sweep),
        Column("trial", "int", "Trial"),
        Column("over", heading="Over"),
        Column("routine", heading="Routine", audience="machines"),
        Column("parts", "int", "Parts"),
        Column(f"mean{unit}", kind, "Mean"),
        Column(f"minimum{unit}", kind, "Minimum"),
        Column(f"maximum{unit}", kind, "Maximum"),
        Column(f"stddev{unit}", kind, "Std. dev."),
        Column("imbalance_percent", "percent", "Imbalance\n%"),
        Column(f"lost{unit}", kind, "Max - mean"),
        Column("name", heading="Routine", audience="people"),
    ]
    rows: list[list[Cell]] = []
    shown: dict[tuple[str, str], int] = {}
    left = 0
    for row in sweep.imbalance():
        shown[row.series, row.value] = shown.get((row.series, row.value), 0) + 1
        if limit is not None and shown[row.series, row.value] > limit:
            left += 1
            continue
        name = row.timer or "(the program)"
        cells: list[Cell] = [*row[:4], name, *row[5:10], _percent(row.imbalance), row.lost, name]
        rows.append(_own(sweep, cells))
    notes = [
        "imbalance: maximum / mean - 1, over the threads (nodes, GPUs) that ran it, in the "
        "middle run of each value; (the program): inclusive of whole threads"
    ]
    if left:
        notes.append(f"{left} more rows; --limit shows more")
    if not rows:
        notes = ["nothing ran on two threads, nodes or GPUs"]
    return View(f"LOAD IMBALANCE, exclusive {_what(sweep)}", columns, rows, notes)


def _correlation(sweep: Sweep, limit: int | None, people: bool) -> View:
    columns = [
        Column("fact", heading="Fact"),
        Column("quantity", heading="Goes with"),
        Column("trials", "int", "Trials"),
        Column("pearson", "float", "Pearson r"),
        Column("spearman", "float", "Spearman"),
        Column("explained", "float", "Explained"),
    ]
    pairs = sweep.correlation()
    kept = pairs if limit is None else pairs[:limit]
    notes = [
        "explained: share of the variance; correlation is not causation, and with many facts "
        "some correlate by chance"
    ]
    if len(kept) < len(pairs):
        notes.append(f"{len(kept)} of {len(pairs)} pairs; --limit shows more")
    if not pairs:
        notes = ["too few trials, or nothing varies: a correlation needs at least 4 trials"]
    rows = [_rounded(list(row), columns, people) for row in kept]
    return View(f"CORRELATION of exclusive {_what(sweep)} with metadata", columns, rows, notes)


def _outliers(sweep: Sweep, limit: int | None, people: bool) -> View:
    kind, unit = _value(sweep)
    columns = [
        *_start(sweep),
        Column("trial", "int", "Trial"),
        Column("what", heading="What"),
        Column("among", "int", "Among"),
        Column(f"measured{unit}", kind, "Measured"),
        Column(f"median{unit}", kind, "Median"),
        Column("score", "float", "z-score"),
    ]
    rows = [_rounded(_own(sweep, list(row)), columns, people) for row in sweep.outliers()]
    notes = ["modified z-score above 3.5, among at least 5 runs or threads"]
    if not rows:
        notes.append("none")
    return View(f"OUTLIERS, {_what(sweep)}", columns, rows, notes)


def _top(sweep: Sweep, limit: int | None, people: bool) -> View:
    kind, unit = _value(sweep)
    columns = [
        *_start(sweep),
        Column("rank", "int", "Rank"),
        Column("routine", heading="Routine", audience="machines"),
        Column("where", heading="Where", audience="machines"),
        Column("calls", "float", "Calls"),
        Column(f"median{unit}", kind, "Median"),
        Column("share_percent", "percent", "Share\n%"),
        Column("cumulative_percent", "percent", "Cumul.\n%"),
        Column("name", heading="Routine", audience="people"),
    ]
    rows: list[list[Cell]] = []
    for row in sweep.top(limit):
        name = row.timer if row.where == "host" else f"{row.timer} (GPU)"
        shares = [_percent(row.share), _percent(row.cumulative)]
        rows.append(_own(sweep, [*row[:7], *shares, name]))
    notes = ["medians over runs, summed over threads; share: of the total over all threads"]
    return View(f"TOP ROUTINES, exclusive {_what(sweep)}", columns, rows, notes)
