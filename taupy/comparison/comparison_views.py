"""A comparison as views: the trials, obstacles to comparing them, and the rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from taupy import units
from taupy.analysis.comparable import Difference
from taupy.analysis.compare import Row, Rows
from taupy.comparison.comparison import ComparedTable
from taupy.comparison.operators import BY as OPERATORS
from taupy.comparison.operators import SIGNATURE
from taupy.comparison.sides import Side
from taupy.comparison.verdicts import Verdict
from taupy.model.metric import Metric
from taupy.model.rows import TimerRow
from taupy.pprof.figures import value_name
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.profiledb.dimensions import heading

Verdicts = Mapping[Hashable, Verdict]

_TITLES = {
    ("routine", "host"): "ROUTINES",
    ("routine", "gpu"): "ON THE GPU",
    ("kernel", "gpu"): "ON THE GPU",
    ("event", None): "USER EVENTS",
    ("line", "host"): "LINES",
    ("operator", "gpu"): "GPU WORK BY OPERATOR",
    ("outer_operator", "gpu"): "GPU WORK BY OUTERMOST OPERATOR",
    (SIGNATURE, "gpu"): "GPU WORK BY OPERATOR AND INPUTS",
}

LAST_ROUTINES = 3
"""Number of routines shown of a call path; CSV and JSON contain all."""


LONGEST_KERNEL = 28
"""Maximum length of a kernel's name beside its operator; CSV and JSON have the full ones."""

SORTS = ("impact", "difference", "ratio", "value", "name")


@dataclass(frozen=True, slots=True)
class Shown:
    """Number and order of rows.

    Attributes:
        sort: of `SORTS`.
        limit: number of rows; the others are summed below them. None for all.
        confidence: of the intervals of ratios.
    """

    sort: str = "impact"
    reverse: bool = False
    limit: int | None = None
    confidence: float = 0.95


def sides_view(sides: Sequence[Side], answers: Sequence[ComparedTable]) -> View:
    """The trials of each side, with their totals."""
    columns = [
        Column("side", "text", "Side"),
        Column("trials", audience="machines"),
        Column("first_trials", "text", "Trial", "people"),
        Column("runs", "int", "Runs"),
        Column("name", "text", "Name"),
        Column("started_at", "text", "Started (UTC)", spare=True),
    ]
    wholes = [answer for answer in answers if answer.comparison.whole is not None]
    for answer in wholes:
        where = {"host": "Host", "gpu": "GPU", None: "Total"}[answer.where]
        name = {"host": "host", "gpu": "gpu", None: "total"}[answer.where]
        columns += [
            Column(
                value_name(name, answer.metric), _kind(answer.metric), f"{where}\n{_of(answer)}"
            ),
            Column(f"{name}_ratio", "tau_count", f"{where}\nto A"),
        ]  # fmt: skip
    rows = []
    for at, side in enumerate(sides):
        cells: list[Cell] = [
            side.letter,
            ", ".join(str(trial.id) for trial in side.trials),
            _ids(side),
            len(side.trials),
            _names(side),
            side.trials[0].started_at[:19].replace("T", " "),
        ]
        for answer in wholes:
            whole = answer.comparison.whole
            assert whole is not None
            cells += [whole.values[at], whole.ratio(at)]
        rows.append(cells)
    return View("TRIALS", columns, rows)


def _ids(side: Side) -> str:
    ids = [str(trial.id) for trial in side.trials]
    return ", ".join(ids if len(ids) <= 10 else [*ids[:8], "...", ids[-1]])


def _names(side: Side) -> str:
    names = [f"{trial.application}/{trial.experiment}/{trial.name}" for trial in side.trials]
    if len(names) == 1:
        return names[0]
    folders = dict.fromkeys(f"{trial.application}/{trial.experiment}" for trial in side.trials)
    return ", ".join(folders)


def obstacles_view(sides: Sequence[Side], differences: Sequence[Difference]) -> View:
    """Differences in how the sides were measured."""
    columns = [Column("kind", "text", "Other"), Column("name", "text", "Fact")]
    columns += [Column(side.letter.lower(), "text", side.letter, side=True) for side in sides]
    rows = [
        (difference.kind, difference.name, *(value or None for value in difference.values))
        for difference in differences
    ]
    return View("NOT THE SAME", columns, rows)


def metadata_view(
    sides: Sequence[Side], sides_facts: Sequence[Sequence[Mapping[str, str]]], everything: bool
) -> View:
    """Metadata of all sides; by default only entries that differ."""
    names = sorted(
        {name for side in sides_facts for facts in side for name in facts}, key=str.lower
    )
    columns = [Column("name", "text", "Name")]
    columns += [Column(side.letter.lower(), "text", side.letter, side=True) for side in sides]
    columns.append(Column("same", "text", "Same"))
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        values = [
            list(dict.fromkeys(facts[name] for facts in side if name in facts)) or [""]
            for side in sides_facts
        ]
        same = all(set(value) == set(values[0]) for value in values)
        if everything or not same:
            cells = (" | ".join(value) or None for value in values)
            rows.append((name, *cells, "yes" if same else "no"))
    notes = () if rows else ("no metadata differ",)
    return View("METADATA", columns, rows, notes)


def rows_view(
    answer: ComparedTable,
    sides: Sequence[Side],
    verdicts: Sequence[Verdicts],
    shown: Shown,
    notes: Sequence[str] = (),
) -> View:
    """The rows of a comparison.

    Args:
        verdicts: one mapping for each side but the first; empty without repeated runs.
    """
    rows = _ordered(answer, shown)
    chosen = rows[: shown.limit] if shown.limit is not None else rows
    rest = rows[len(chosen) :]
    layout = _Layout(answer, sides, verdicts, shown.confidence)
    cells = [layout.cells(row) for row in chosen]
    left = [*notes, *answer.notes]
    if not answer.has_imports:
        left.append("without imports, which are in the whole: --group IMPORT shows them")
    if rest and answer.sums:
        cells.append(layout.others(rows, chosen))
    elif rest:
        rows_word = "row" if len(rest) == 1 else "rows"
        left.insert(0, f"{units.count(len(rest))} more {rows_word}: --limit N or --all shows them")
    noun = heading(answer.by).upper()
    plural = f"{noun}ES" if noun.endswith("S") else f"{noun}S"
    title = _TITLES.get((answer.by, answer.where), plural)
    title = f"{title}: {_what(answer)}, {_order(answer, shown)}"
    view = View(title, layout.columns, cells, left, answer.remarks)
    return _names_first(view) if answer.by in (*OPERATORS, SIGNATURE) else view


def _names_first(view: View) -> View:
    """The table with the names before the numbers, and those that tell most before others."""
    last = ("share_", "difference")
    ranks = {"name": 0, "timer": 0, "match": 1, "where": 3, "in": 3}

    def rank(at: int) -> float:
        name = view.columns[at].name
        return ranks.get(name, 2.5 if name.startswith(last) else 3.5 if "kernels" in name else 2)

    order = sorted(range(len(view.columns)), key=rank)
    return replace(
        view,
        columns=[view.columns[at] for at in order],
        rows=[[row[at] for at in order] for row in view.rows],
    )


def _order(answer: ComparedTable, shown: Shown) -> str:
    if shown.sort != "impact":
        return f"by {shown.sort}"
    if answer.by == "event":
        return "by ratio"
    return "by impact on the whole" if answer.comparison.additive else "by difference"


def _what(answer: ComparedTable) -> str:
    if answer.by == "event":
        return answer.value
    if answer.value in ("calls", "subroutines"):
        return answer.value
    unit = "" if answer.metric.unit in ("ns", "B", "") else f" [{answer.metric.unit}]"
    return f"{answer.value.replace('-', ' ')} {answer.metric.name}{unit}"


def _of(answer: ComparedTable) -> str:
    return answer.value if answer.value in ("calls", "subroutines") else answer.metric.name


def _ordered(answer: ComparedTable, shown: Shown) -> Rows[Hashable]:
    rows = answer.comparison.rows
    keys = answer.keys
    others = range(1, answer.comparison.sides)
    if shown.sort == "name":
        rows = rows.by(lambda row: keys[row.key].timer)
    elif shown.sort == "ratio":
        rows = rows.by(lambda row: -max((_apart(row.ratio(at)) for at in others), default=0))
    elif shown.sort == "difference":
        rows = rows.by(lambda row: -max(row.difference(at) or 0 for at in others))
    elif shown.sort == "value":
        rows = rows.by(lambda row: -max(value or 0 for value in row.values))
    return rows[::-1] if shown.reverse else rows


def _apart(ratio: float | None) -> float:
    """Sort by distance from 1, up or down; rows of only one side come last."""
    if ratio is None:
        return 0.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


class _Layout:
    """The columns of a comparison of these sides, and the cells of a row."""

    def __init__(
        self,
        answer: ComparedTable,
        sides: Sequence[Side],
        verdicts: Sequence[Verdicts],
        confidence: float,
    ) -> None:
        self.confidence = confidence
        self.answer = answer
        self.sides = sides
        # Determined by the sides, so that all tables of a comparison have the same columns.
        repeated = [len(side.trials) > 1 for side in sides]
        self.judged = repeated[0] and any(repeated[1:])
        self.verdicts = [*verdicts] if self.judged else [{} for _ in sides[1:]]
        self.shares = bool(answer.comparison.totals)
        self.counts = answer.value != "calls" and bool(answer.calls)  # stored: it reads all rows
        self.roofs = any(answer.roofs)
        self.columns = self._columns()

    def _columns(self) -> list[Column]:
        answer = self.answer
        metric, kind = answer.metric, _kind(answer.metric)
        percent: Kind = "percent"
        ratio: Kind = "tau_count"
        about = ""
        if answer.estimated:
            kind, percent, ratio, about = "about_ns", "about_percent", "about_count", "~"
        letters = [side.letter for side in self.sides]
        pair = len(letters) == 2
        columns = [
            Column("table", audience="machines"),
            Column("in", audience="machines"),
            Column("match", audience="machines"),
        ]
        columns += [
            Column(value_name(letter.lower(), metric), kind, about + letter, side=True)
            for letter in letters
        ]
        for letter in letters[1:]:
            name = "" if pair else f"_{letter.lower()}"
            columns.append(
                Column(value_name(f"difference{name}", metric), kind, f"{about}{letter} - A",
                       "all" if pair else "machines")
            )  # fmt: skip
            columns.append(Column(f"ratio{name}", ratio, f"{about}{letter} / A"))
            outcome = "Verdict" if pair else f"{letter} is"
            interval = f"{100 * self.confidence:g} %\nof {about}ratio"
            if self.judged:
                columns += [
                    Column(f"interval{name}", "range", interval, "people"),
                    Column(f"outcome{name}", "text", outcome, "people"),
                ]
            columns += [
                Column(f"ratio_low{name}", "float", audience="machines"),
                Column(f"ratio_high{name}", "float", audience="machines"),
                Column(f"p{name}", "float", audience="machines"),
                Column(f"p_adjusted{name}", "float", audience="machines"),
                Column(f"verdict{name}", "text", audience="machines"),
                Column(f"untested{name}", "text", audience="machines"),
            ]
        if answer.per_call:
            columns += [
                Column(value_name(f"per_call_{letter.lower()}", metric), kind,
                       f"{letter}\n/ call") for letter in letters
            ]  # fmt: skip
        columns.append(Column(value_name("impact", metric), kind, audience="machines"))
        if self.shares:
            columns += [
                Column(f"share_{letter.lower()}", percent, f"{about}%{letter}")
                for letter in letters
            ]
        if self.counts:
            what = "#Samples" if answer.by == "event" else "#Call"
            columns += [
                Column(f"calls_{letter.lower()}", "float", f"{what}\n{letter}")
                for letter in letters
            ]
        columns += [
            Column(f"runs_{letter.lower()}", "int", audience="machines") for letter in letters
        ]
        if answer.by == "event":
            columns.append(Column("unit", "text", "Unit"))
        columns += [
            Column("where", "text", "In", "people"),
            Column("name", "text", "Name", "people"),
            Column("timer", "text", audience="machines"),
            Column("short_name", audience="machines"),
            Column("file", audience="machines"),
            Column("line", "int", audience="machines"),
            Column("groups", audience="machines"),
        ]
        if self.roofs:
            columns += [
                Column(f"roof_{letter.lower()}", "percent", f"% of roof\n{letter}")
                for letter in letters
            ]
        for letter in letters[: len(answer.kernels)]:
            name = f"kernels_{letter.lower()}"
            columns += [
                Column(f"largest_{name}", "text", f"Kernels\n{letter}", "people", spare=True),
                Column(name, audience="machines"),
            ]
        return columns

    def cells(self, row: Row[Hashable]) -> list[Cell]:
        answer = self.answer
        key = answer.keys[row.key]
        letters = [self.sides[at].letter for at in row.sides]
        where = "" if len(letters) == len(self.sides) else "only " + ", ".join(letters)
        cells: list[Cell] = [self._table(), where or "all", key.rule, *row.values]
        for at in range(1, len(self.sides)):
            cells += [row.difference(at), row.ratio(at)]
            verdict = self.verdicts[at - 1].get(row.key)
            if self.judged:
                cells += _people_cells(verdict, answer.metric, "~" if answer.estimated else "")
            cells += _verdict_cells(verdict, answer.metric)
        if answer.per_call:
            cells += self._per_call(row.values, answer.calls[row.key])
        cells.append(row.impact)
        if self.shares:
            cells += [answer.comparison.share(row, at) for at in range(len(self.sides))]
        if self.counts:
            cells += answer.calls[row.key]
        cells += [row.present(at) for at in range(len(self.sides))]
        if answer.by == "event":
            cells.append(key.groups)
        name = _last_routines(key.timer) if answer.by == "callpath" else key.timer
        note = f" ({key.rule})" if key.rule not in ("same", "table") else ""
        cells += [where, name + note, key.timer, key.short_name, key.file, key.line, key.groups]
        if self.roofs:
            cells += [side.get(row.key) for side in answer.roofs]
        for side in answer.kernels:
            kernels = side.get(row.key, ())
            cells += [_largest(kernels), " | ".join(kernel.timer for kernel in kernels) or None]
        return cells

    @staticmethod
    def _per_call(
        values: Sequence[float | None], calls: Sequence[float | None]
    ) -> list[float | None]:
        return [
            value / number if value is not None and number else None
            for value, number in zip(values, calls, strict=True)
        ]

    def others(self, rows: Rows[Hashable], shown: Rows[Hashable]) -> list[Cell]:
        """One row for all rows that are not shown."""
        at_all = range(len(self.sides))
        sums = [rows.others(shown, at, rows.sides[at]) for at in at_all]
        summed: Row[Hashable] = Row("others", tuple(sums), ())
        cells: list[Cell] = [self._table(), "", "", *sums]
        for at in range(1, len(self.sides)):
            cells += [summed.difference(at), summed.ratio(at)]
            cells += [None] * (8 if self.judged else 6)
        if self.answer.per_call:
            cells += [None] * len(self.sides)
        cells.append(None)
        if self.shares:
            cells += [self.answer.comparison.share(summed, at) for at in range(len(self.sides))]
        if self.counts:
            calls = self.answer.calls
            cells += [rows.others(shown, at, calls.trials(at)) for at in at_all]
        cells += [None] * len(self.sides)
        left = len(rows) - len(shown)
        name = f"-others- ({units.count(left)} {'row' if left == 1 else 'rows'})"
        empty = len(self.sides) * self.roofs + 2 * len(self.answer.kernels)
        return [*cells, None, name, name, name, None, None, "", *[None] * empty]

    def _table(self) -> str:
        return self.answer.where or self.answer.by


def _largest(kernels: Sequence[TimerRow]) -> str | None:
    """The first of these kernels, and how many there are besides."""
    if not kernels:
        return None
    name = kernels[0].short_name.rpartition("::")[2]
    if len(name) > LONGEST_KERNEL:
        name = f"{name[: LONGEST_KERNEL - 13]}...{name[-10:]}"
    return f"{name} (+{len(kernels) - 1})" if len(kernels) > 1 else name


def _people_cells(verdict: Verdict | None, metric: Metric, about: str) -> list[Cell]:
    """The interval; the verdict, or why there is none. `about`: what marks estimates."""
    if verdict is None:
        return [None, None]
    low, high = (verdict.interval[:2]) if verdict.interval else (None, None)
    outcome = word(verdict.word, metric) or (f"({verdict.untested})" if verdict.untested else None)
    interval = interval_text(low, high)
    return [interval and f"{about}{interval}", outcome]


def _verdict_cells(verdict: Verdict | None, metric: Metric) -> list[Cell]:
    if verdict is None:
        return [None] * 6
    low, high = (verdict.interval[:2]) if verdict.interval else (None, None)
    return [low, high, verdict.p, verdict.adjusted, word(verdict.word, metric), verdict.untested]


def interval_text(low: float | None, high: float | None) -> str:
    """An interval for people; "" if it is not known."""
    if low is None or high is None:
        return ""
    return f"{units.tau_count(low)} .. {units.tau_count(high)}"


def word(verdict: str, metric: Metric) -> str:
    """The word for an increase or decrease; for times, slower or faster."""
    timed = {"more": "slower", "less": "faster"}
    return timed.get(verdict, verdict) if metric.unit == "ns" else verdict


def _last_routines(path: str) -> str:
    steps = path.split(" => ")
    if len(steps) <= LAST_ROUTINES:
        return path
    return " => ".join(["...", *steps[-LAST_ROUTINES:]])


def _kind(metric: Metric) -> Kind:
    if metric.unit == "ns":
        return "time_ns"
    if metric.unit == "call":
        return "float"
    return "bytes" if metric.unit == "B" else "tau_count"
