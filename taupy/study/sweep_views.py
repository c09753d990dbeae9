"""A sweep as tables: long format for CSV and JSON, values side by side for people.

`_columns` declares the column of each field, which is the same in the rows of all operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from taupy.pprof.view import Cell, Column, Kind, View
from taupy.study.scaling import Correlation, Scaled
from taupy.study.sweep_rows import BalanceRow, OutlierRow, StepsRow, TimerRow, TopRow

if TYPE_CHECKING:
    from taupy.study.sweep import Part, Sweep

SIDE_BY_SIDE = 10
"""Maximum number of values side by side in a table for people."""

_ROUNDED = ("speedup", "pearson", "spearman", "explained", "score")
"""Ratios that have three decimals for people."""


def view(sweep: Sweep, part: Part, *, people: bool) -> View:
    """One operation as a table.

    Args:
        people: for text and Markdown, otherwise for CSV and JSON.
    """
    shown = _VIEWS[part](sweep, people)
    if part in ("totals", "steps") or not people:
        return shown
    of_gpus = {row.timer for row in sweep.routines() if row.where != "host"}
    return replace(shown, kernels=list(of_gpus))


# --- columns and cells -----------------------------------------------------------


def _columns(sweep: Sweep) -> dict[str, Column]:
    unit = sweep.metric.unit.replace("/", "_per_").replace(" ", "_")
    suffix, kind = f"_{unit}" if unit else "", _kind(sweep)
    of_metric = {
        "median": "Median",
        "minimum": "Minimum",
        "maximum": "Maximum",
        "mean": "Mean",
        "stddev": "Std. dev.",
        "lost": "Max - mean",
        "measured": "Measured",
    }
    return {
        "series": Column("series", heading="Series"),
        "value": Column("value", "any", sweep.over),
        "trial": Column("trial", "int", "Trial"),
        "runs": Column("runs", "int", "Runs"),
        "rank": Column("rank", "int", "Rank"),
        "timer": Column("routine", heading="Routine", audience="machines"),
        "where": Column("where", heading="Where", audience="machines"),
        "calls": Column("calls", "float", "Calls"),
        **{name: Column(name + suffix, kind, heading) for name, heading in of_metric.items()},
        "share": Column("share_percent", "percent", "Share\n%"),
        "cumulative": Column("cumulative_percent", "percent", "Cumul.\n%"),
        "speedup": Column("speedup", "float", "Speed-up"),
        "efficiency": Column("efficiency_percent", "percent", "Efficiency\n%"),
        "steps": Column("steps", "float", "Steps"),
        "step": Column("step_ns", "time_ns", "Step"),
        "samples_per_second": Column("samples_per_second", "rate", "Samples/s"),
        "tokens_per_second": Column("tokens_per_second", "rate", "Tokens/s"),
        "memory": Column("memory_bytes", "bytes", "Memory\nat most"),
        "gpu_memory": Column("gpu_memory_bytes", "bytes", "GPU memory\nat most"),
        "over": Column("over", heading="Over"),
        "parts": Column("parts", "int", "Parts"),
        "imbalance": Column("imbalance_percent", "percent", "Imbalance\n%"),
        "fact": Column("fact", heading="Fact"),
        "quantity": Column("quantity", heading="Goes with"),
        "trials": Column("trials", "int", "Trials"),
        "pearson": Column("pearson", "float", "Pearson r"),
        "spearman": Column("spearman", "float", "Spearman"),
        "explained": Column("explained", "float", "Explained"),
        "what": Column("what", heading="What"),
        "among": Column("among", "int", "Among"),
        "score": Column("score", "float", "z-score"),
    }


def _kind(sweep: Sweep) -> Kind:
    """How values of the metric are formatted for people."""
    return {"ns": "time_ns", "B": "bytes"}.get(sweep.metric.unit, "float")  # type: ignore[return-value]


def _what(sweep: Sweep) -> str:
    # Cells of times and bytes have units of their own.
    unit = sweep.metric.unit if _kind(sweep) == "float" else ""
    return sweep.metric.name + (f" [{unit}]" if unit else "")


class _Table(NamedTuple):
    """Makes tables of an operation's rows."""

    sweep: Sweep
    people: bool

    def view(
        self,
        title: str,
        fields: Sequence[str],
        rows: Sequence[NamedTuple],
        notes: Sequence[str],
        own: Mapping[str, Column] | None = None,
    ) -> View:
        """The rows with a column for each field, which may be one of these own columns."""
        column_of = {**_columns(self.sweep), **(own or {})}
        shown = {
            name: column_of[name]
            for name in fields
            if name != "series" or self.sweep.series != [""]
        }
        cells = [
            [self.cell(column, getattr(row, name)) for name, column in shown.items()]
            for row in rows
        ]
        return View(title, list(shown.values()), cells, notes)

    def named(self, shown: View, names: Sequence[str]) -> View:
        """With the routines' names for people in the last column."""
        columns = [*shown.columns, Column("name", heading="Routine", audience="people")]
        rows = [[*row, name] for row, name in zip(shown.rows, names, strict=True)]
        return replace(shown, columns=columns, rows=rows)

    def cell(self, column: Column, value: Cell) -> Cell:
        if column.name == "value" and self.sweep.is_numeric:
            try:
                return int(str(value))
            except ValueError:
                return float(str(value))
        if isinstance(value, float) and column.kind == "percent":
            return 100 * value
        if isinstance(value, float) and column.name in _ROUNDED and self.people:
            return round(value, 3) if abs(value) >= 0.01 else float(f"{value:.2g}")
        return value


# --- the operations --------------------------------------------------------------


def _totals(sweep: Sweep, people: bool) -> View:
    scaling = sweep.scaling != "none"
    notes = [
        f"{_ACROSS[sweep.across]} of each run; speed-up: median at {sweep.over}={sweep.baseline} "
        "divided by the median at this value" + (f" ({sweep.scaling} scaling)" if scaling else "")
    ]
    if not scaling and sweep.is_numeric:
        notes.append("no efficiency: add --scaling strong or weak if the parameter is a resource")
    fields = Scaled._fields if scaling else Scaled._fields[:-1]
    title = f"SWEEP over {sweep.over}: {_what(sweep)}"
    return _Table(sweep, people).view(title, fields, sweep.totals(), [*notes, *sweep.notes])


_ACROSS = {
    "max": "the longest thread",
    "mean": "the mean over threads",
    "total": "the sum over threads",
}


def _steps(sweep: Sweep, people: bool) -> View:
    notes = ["medians over the runs of what `taupy steps` shows of a training, after its warm-up"]
    title = f"STEPS over {sweep.over}"
    return _Table(sweep, people).view(title, StepsRow._fields, sweep.steps(), notes)


def _routines(sweep: Sweep, people: bool) -> View:
    return _timers(sweep, people, sweep.routines(), "ROUTINES, exclusive", "routine")


def _phases(sweep: Sweep, people: bool) -> View:
    return _timers(sweep, people, sweep.phases(), "PHASES, inclusive", "phase")


def _operators(sweep: Sweep, people: bool) -> View:
    return _timers(sweep, people, sweep.operators(), "OPERATORS, exclusive", "operator")


def _timers(sweep: Sweep, people: bool, rows: list[TimerRow], what: str, name: str) -> View:
    title = f"{what} {_what(sweep)} over {sweep.over}"
    names = list(dict.fromkeys((row.where, row.timer) for row in rows))
    notes = []
    if sweep.limit is not None and len(names) > sweep.limit:
        notes.append(f"{sweep.limit} of {len(names)} {name}s; --limit shows more")
        rows = [row for row in rows if (row.where, row.timer) in names[: sweep.limit]]
    if not rows:
        notes.append(f"no {name} was measured")
    timer, where = Column(name, heading=name.capitalize()), Column("where", heading="Where")
    if people and len(sweep.values) <= SIDE_BY_SIDE:
        return _side_by_side(sweep, rows, title, notes, timer)
    own = {"timer": timer, "where": where}
    return _Table(sweep, people).view(title, TimerRow._fields, rows, notes, own)


def _side_by_side(
    sweep: Sweep, rows: list[TimerRow], title: str, notes: list[str], named: Column
) -> View:
    last = sweep.values[-1] if sweep.values[-1] != sweep.baseline else sweep.values[0]
    scaled = {
        "share": Column("share_percent", "percent", f"Share %\nat {last}"),
        "speedup": Column("speedup", "float", f"Speed-up\nat {last}"),
        "efficiency": Column("efficiency", "percent", f"Eff. %\nat {last}"),
    }
    if sweep.scaling == "none":
        del scaled["efficiency"]
    several = sweep.series != [""]
    columns = [
        *([_columns(sweep)["series"]] if several else []),
        *(
            Column(value, _kind(sweep), f"{sweep.over}\n{value}", side=True)
            for value in sweep.values
        ),
        *scaled.values(),
        named,
    ]
    by_timer: dict[tuple[str, str, str], dict[str, TimerRow]] = {}
    for row in rows:
        by_timer.setdefault((row.series, row.where, row.timer), {})[row.value] = row
    table = _Table(sweep, people=True)
    lines: list[list[Cell]] = [
        [
            *([series] if several else []),
            *(at[value].median if value in at else None for value in sweep.values),
            *(
                table.cell(metric, getattr(at.get(last), name, None))
                for name, metric in scaled.items()
            ),
            _with_place(timer, where),
        ]
        for (series, where, timer), at in by_timer.items()
    ]
    return View(title, columns, lines, notes)


def _with_place(timer: str, where: str) -> str:
    return timer if where == "host" else f"{timer} (GPU)"


def _imbalance(sweep: Sweep, people: bool) -> View:
    rows: list[BalanceRow] = []
    at_value: dict[tuple[str, str], int] = {}
    balances = sweep.imbalance()
    for row in balances:
        place = (row.series, row.value)
        at_value[place] = at_value.get(place, 0) + 1
        if sweep.limit is None or at_value[place] <= sweep.limit:
            rows.append(row._replace(timer=row.timer or "(the program)"))
    notes = [
        "imbalance: maximum / mean - 1, over the threads (nodes, GPUs) that ran it, in the "
        "middle run of each value; (the program): inclusive of whole threads"
    ]
    if len(rows) < len(balances):
        notes.append(f"{len(balances) - len(rows)} more rows; --limit shows more")
    if not rows:
        notes = ["nothing ran on two threads, nodes or GPUs"]
    table, title = _Table(sweep, people), f"LOAD IMBALANCE, exclusive {_what(sweep)}"
    shown = table.view(title, BalanceRow._fields, rows, notes)
    return table.named(shown, [row.timer for row in rows])


def _correlation(sweep: Sweep, people: bool) -> View:
    pairs = sweep.correlation()
    kept = pairs[: sweep.limit]
    notes = [
        "explained: share of the variance; correlation is not causation, and with many facts "
        "some correlate by chance"
    ]
    if len(kept) < len(pairs):
        notes.append(f"{len(kept)} of {len(pairs)} pairs; --limit shows more")
    if not pairs:
        notes = ["too few trials, or nothing varies: a correlation needs at least 4 trials"]
    title = f"CORRELATION of exclusive {_what(sweep)} with metadata"
    return _Table(sweep, people).view(title, Correlation._fields, kept, notes)


def _outliers(sweep: Sweep, people: bool) -> View:
    rows = sweep.outliers()
    notes = ["modified z-score above 3.5, among at least 5 runs or threads"]
    title = f"OUTLIERS, {_what(sweep)}"
    notes += [] if rows else ["none"]
    return _Table(sweep, people).view(title, OutlierRow._fields, rows, notes)


def _top(sweep: Sweep, people: bool) -> View:
    rows = sweep.top(sweep.limit)
    notes = ["medians over runs, summed over threads; share: of the total over all threads"]
    table, title = _Table(sweep, people), f"TOP ROUTINES, exclusive {_what(sweep)}"
    shown = table.view(title, TopRow._fields, rows, notes)
    return table.named(shown, [_with_place(row.timer, row.where) for row in rows])


_VIEWS: Mapping[str, Callable[[Sweep, bool], View]] = {
    "totals": _totals,
    "steps": _steps,
    "routines": _routines,
    "phases": _phases,
    "operators": _operators,
    "imbalance": _imbalance,
    "correlation": _correlation,
    "outliers": _outliers,
    "top": _top,
}
