"""Tabulate many trials: applications, libraries and kernels by GPU.

    taupy pivot                                        time of every application on every GPU
    taupy pivot --rows application,library --columns gpu
    taupy pivot --rows application,kernel --cell warps_per_inst --cell gld_per_inst
    taupy pivot mnist --rows routine --columns meta.batch_size --baseline 16
    taupy pivot --rows kernel --cell bytes_dram --peak

Labels of trials: application, experiment, trial, id, gpu, tag, host, state, and any metadata by
name. Labels within a trial: routine, kernel, group, file, module, line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

from taupy.analysis.match import LEVELS, Key, Level, NameTable
from taupy.analysis.operator_match import Nested, matched_operators
from taupy.comparison import line_names, operators
from taupy.comparison.comparison import metric_shown
from taupy.comparison.layer_names import layer_keys, remarks
from taupy.comparison.matching import matched, names_apart, timers_of_sides
from taupy.comparison.trial_values import VALUES, Over, TrialValues, Value, Where, lacking_note
from taupy.errors import MissingMetric, NoSuchTrial, UsageError
from taupy.escaping import visible
from taupy.model import options
from taupy.model.answer import Answer
from taupy.model.kernel_names import is_kernel
from taupy.model.metric import NOT_ROUTINES, Metric
from taupy.model.options import Asked, option, texts
from taupy.model.question import COUNTS
from taupy.model.rows import TrialRow
from taupy.profiledb import selector, trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import WITHIN, written
from taupy.profiledb.line_values import LINE
from taupy.study.peaks import Peaks
from taupy.study.pivot_cells import (
    ACROSS,
    Across,
    Entry,
    Labels,
    Pivot,
    pivoted,
    relative_to,
)
from taupy.units import nearest

ROW_DIMENSIONS = ("routine", *WITHIN, LINE, "step")
"""Labels of timers, threads and steps; all others are labels of trials."""

TRIAL_DIMENSIONS = ("application", "experiment", "trial", "id", "gpu", "tag", "host", "state")
METRIC = "metric"
DURATION = "duration"
NOTHING = "(none)"


PEOPLE_ROWS = 10
"""Default number of routines or kernels under each label of trials in tables for people."""

_TABLE, _SELECTION, _OUTPUT = "the table", "selection of routines and kernels", "output"


def _labels(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"{text!r} is not a list of different labels")
    return names


@dataclass(frozen=True)
class Layout(Asked):
    """Rows, columns and cells of a pivot.

    Attributes:
        rows, columns: names of labels: of `TRIAL_DIMENSIONS`, `ROW_DIMENSIONS`, `metric`, or
            of metadata.
        cells: metrics, measured or derived, or `duration`.
        across: how to combine trials that share a cell.
        baseline: column that all others are divided by.
        peak: show cells as shares of each device's peak.
        ceiling: the roof for `peak`, None to derive it from the metric.
    """

    rows: Sequence[str] = option(
        ("application",),
        "labels of rows, one or several, such as application,library,kernel (default: application)",
        names=("--by", "--rows"),
        read=_labels,
        metavar="DIMENSIONS",
        group=_TABLE,
    )
    columns: Sequence[str] = option(
        ("gpu",), "default: gpu", read=_labels, metavar="DIMENSIONS", group=_TABLE
    )
    cells: Sequence[str] = texts(
        "measured or derived, or duration (default: time); may be repeated",
        "METRIC",
        ("time",),
        names=("--cell",),
        group=_TABLE,
    )
    value: Value = option(
        "exclusive",
        ", ".join(VALUES) + " (default: exclusive)",
        choices=VALUES,
        metavar="WHICH",
        group=_TABLE,
    )
    over: Over = option(
        "total", "how to combine a trial's threads", choices=get_args(Over), group=_TABLE
    )
    across: Across = option(
        "median",
        "how to combine trials in one cell (default: median)",
        choices=ACROSS,
        group=_TABLE,
    )
    baseline: str | None = option(
        None,
        "divide by the cell in this column, such as K80",
        metavar="LABEL",
        is_text=True,
        group=_TABLE,
    )
    peak: bool = option(
        False, "in percent of each GPU's peak, measured or from its datasheet", group=_TABLE
    )
    ceiling: str | None = option(
        None,
        "peak for --peak: fp32, 'tensor bf16', DRAM ... (default: by the metric's name)",
        metavar="NAME",
        is_text=True,
        group=_TABLE,
    )
    group: Sequence[str] = texts(
        "only those in this group: PYTHON, PHASE, ...", "NAME", group=_SELECTION
    )
    filter: Sequence[str] = texts(
        "only those whose name contains TEXT, matches a pattern with * and ?, or /REGEX/",
        "PATTERN",
        group=_SELECTION,
    )
    match: Level = option(
        "auto",
        "how to match kernels on different GPUs, as in taupy compare",
        choices=LEVELS,
        group=_SELECTION,
    )
    table: NameTable | None = option(
        None,
        "a table of patterns, as in taupy compare",
        names=("--match-table",),
        metavar="FILE",
        is_text=True,
        group=_SELECTION,
    )
    limit: int | None = options.limit(
        f"routines or kernels under each label (default: {PEOPLE_ROWS} for people, all in CSV "
        "and JSON)",
        group=_OUTPUT,
    )
    whole: bool = options.whole("all rows", group=_OUTPUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if twice := {*self.rows} & {*self.columns}:
            raise UsageError(f"{', '.join(sorted(twice))} cannot be in both rows and columns")
        if self.ceiling and not self.peak:
            raise UsageError("--ceiling chooses the peak for --peak: add --peak")
        if self.peak and self.baseline is not None:
            raise UsageError("--peak and --baseline are two scales: choose one")

    def with_metric(self) -> Layout:
        """With several cells, the dimension `metric` is added before the timers' labels."""
        if len(self.cells) < 2 or METRIC in (*self.rows, *self.columns):
            return self
        at = next((n for n, name in enumerate(self.rows) if name in ROW_DIMENSIONS), None)
        at = len(self.rows) if at is None else at
        return replace(self, rows=(*self.rows[:at], METRIC, *self.rows[at:]))


class PivotTable(NamedTuple):
    """A pivot, and the metrics of its cells.

    Attributes:
        layout: including the position of `metric`, if there are several.
        metrics: by requested name.
        notes: remarks on the cells.
        warnings: where the names of two columns hardly match.
        estimated: there are estimates among the cells.
    """

    table: Pivot
    layout: Layout
    metrics: dict[str, Metric]
    notes: list[str]
    warnings: Sequence[str] = ()
    estimated: bool = False


def pivot_table(db: ProfileDB, selectors: Sequence[str], layout: Layout) -> PivotTable:
    """Build the pivot of these trials; without selectors, of all.

    Raises:
        NoSuchTrial: there are none.
        MissingMetric: none of the trials has one of the metrics.
        UsageError: a label, peak or baseline does not exist.
    """
    trials = selector.many(db, selectors) if selectors else db.trials()
    if not trials:
        raise NoSuchTrial(f"{db.path} has no trials; `taupy run SCRIPT` adds one")
    layout = layout.with_metric()
    labels = _labels_of(db, trials, (*layout.rows, *layout.columns))
    of_metrics = [_Cells(db, trials, layout, labels, cell) for cell in layout.cells]
    table = pivoted((entry for cells in of_metrics for entry in cells.entries()), layout.across)
    notes = [note for cells in of_metrics for note in cells.notes]
    metrics = {cells.name: cells.metric for cells in of_metrics}
    if not table.rows:
        if LINE in (*layout.rows, *layout.columns):
            raise line_names.missing(f"these {len(trials)} trials")
        if "step" in (*layout.rows, *layout.columns):
            raise MissingMetric("these trials have no steps: see docs/steps.md")
        reasons = [note for note in notes if not note.startswith("peak ")]
        raise MissingMetric(
            f"these {len(trials)} trials have no values for this table"
            + (f": {'; '.join(reasons)}" if reasons else "")
            + "; `taupy trials` and `taupy pprof -l` list trials and routines"
        )
    if layout.baseline is not None:
        table, column = relative_to(table, layout.baseline)
        notes.append(f"cells are relative to {', '.join(column)}")
        metrics = {cell: Metric(metric.name, "ratio") for cell, metric in metrics.items()}
    most = max(table.counts.values(), default=0)
    if most > 1:
        notes.append(f"a cell with several trials (up to {most}) shows their {layout.across}")
    warnings = dict.fromkeys(warning for cells in of_metrics for warning in cells.warnings)
    sampled = any(trial.is_sampled for trial in trials) and {*metrics} != {"duration"}
    estimated = sampled or LINE in (*layout.rows, *layout.columns)
    return PivotTable(table, layout, metrics, notes, list(warnings), estimated)


def _labels_of(
    db: ProfileDB, trials: Sequence[TrialRow], names: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Trial -> those of these labels that are its own -> their values."""
    models = trial_facts.gpu_models(db, [trial.id for trial in trials]) if "gpu" in names else {}
    labels: dict[int, dict[str, str]] = {}
    for trial in trials:
        labels[trial.id] = {
            "application": trial.application,
            "experiment": trial.experiment,
            "trial": trial.name,
            "id": str(trial.id),
            "state": trial.state,
            "tag": ", ".join(trial.tags) or NOTHING,
            "gpu": models.get(trial.id) or "no GPU",
        }
    for name in names:
        if name in (*ROW_DIMENSIONS, METRIC, *labels[trials[0].id]):
            continue
        wanted = "Hostname" if name == "host" else name.removeprefix("meta.")
        values = trial_facts.metadata_values(db, wanted)
        if values.keys().isdisjoint(labels):
            near = nearest(wanted, trial_facts.metadata_names(db), 4)
            more = f", metadata such as {', '.join(map(visible, near))}" if near else ""
            raise UsageError(
                f"'{name}' is not a label of these trials (labels: "
                f"{', '.join((*TRIAL_DIMENSIONS, *ROW_DIMENSIONS, METRIC))}{more})"
            )
        for id, own in labels.items():
            own[name] = values.get(id, NOTHING)
    return labels


class _Valued(NamedTuple):
    """A trial's value under these labels of its timers; `time_ns`: what a peak needs."""

    trial: TrialRow
    labels: dict[str, str]
    value: float
    time_ns: float | None = None


class _Cells:
    """The values of one metric by trial and label.

    Attributes:
        notes, warnings: complete after `entries`.
    """

    def __init__(
        self,
        db: ProfileDB,
        trials: Sequence[TrialRow],
        layout: Layout,
        labels: Mapping[int, Mapping[str, str]],
        name: str,
    ) -> None:
        self.db = db
        self.layout = layout
        self.name = name
        self.warnings: list[str] = []
        self._notes: list[str] = []
        self._peaks: Peaks | None = None
        self._trials = {trial.id: trial for trial in trials}
        self._labels = {trial: {**own, METRIC: name} for trial, own in labels.items()}
        self._within = [name for name in (*layout.rows, *layout.columns) if name in ROW_DIMENSIONS]
        if name == DURATION:
            if self._within or layout.group or layout.filter:
                raise UsageError("trials have a duration; routines and kernels do not: use time")
            self.metric = Metric(DURATION, "ns")
            return
        if LINE in self._within:
            line_names.check(name, layout.value)
        of_steps = "step" in self._within
        values = TrialValues.of(
            db, self._trials, name, layout.value, lenient=True, of_steps=of_steps
        )
        self.metric = metric_shown(values.metric, layout.value)
        for trial in values.missing:
            del self._trials[trial]
        if values.missing:
            self._notes.append(lacking_note(values.missing, f"{len(trials)} trials", name))
        if layout.peak:
            self._peaks = Peaks(db, values.metric, layout.value, layout.ceiling)
            self.metric = Metric(self.metric.name, "%")
        # A rate is already divided by its time.
        timed = self._peaks is not None and not self._peaks.is_rate
        self.values = replace(values, over=layout.over, timed=timed)

    @property
    def notes(self) -> list[str]:
        return [*self._notes, *(self._peaks.notes if self._peaks is not None else ())]

    def entries(self) -> Iterator[Entry]:
        for trial, of_timer, value, time_ns in self._valued():
            own = {**self._labels[trial.id], **of_timer}
            row, column = (
                tuple(own[name] for name in names)
                for names in (self.layout.rows, self.layout.columns)
            )
            share = value if self._peaks is None else self._peaks.share(trial, value, time_ns)
            yield Entry(row, column, share)

    def _valued(self) -> Iterable[_Valued]:
        if self.name == DURATION:
            return [_Valued(row, {}, float(row.duration_ns)) for row in self._trials.values()]
        return self._of_timers() if self._within else self._totals()

    def _totals(self) -> Iterator[_Valued]:
        """The total of each trial, or of the selected routines: of its host threads or, if they
        have none, of its GPUs."""
        value: Value = self.layout.value if self.layout.value in COUNTS else "exclusive"
        whole = replace(self.values, value=value)
        numbers: dict[int, tuple[float, float | None]] = {}
        limits = self.values.limits(self.layout.group, self.layout.filter)
        kinds: tuple[Where, ...] = ("host", "gpu")
        for where in kinds:
            if len(numbers) == len(self._trials):
                break
            for answer in whole.answers(where=where, limits=limits, calls=False):
                for trial, runs in whole.runs(answer, [""] * len(answer), where).items():
                    for number in runs.values.values():
                        numbers.setdefault(trial, (number, runs.times.get("")))
        return (_Valued(row, {}, *numbers[id]) for id, row in self._trials.items() if id in numbers)

    def _of_timers(self) -> Iterator[_Valued]:
        named = [name for name in self._within if name in ("routine", "kernel")]
        where: Where | None = ("gpu" if "kernel" in named else "host") if named else None
        by = [*(["timer"] if named else []), *(name for name in self._within if name not in named)]
        of_operators = [name for name in self._within if name in operators.BY]
        if of_operators:
            by = [*dict.fromkeys([*by, "outer_operator"])]  # matching needs it
            where = where or operators.place(self.values, [{trial} for trial in self._trials])
        limits = self.values.limits(self.layout.group, self.layout.filter)
        answers = self.values.answers(*by, where=where, limits=limits)
        if of_operators and where == "gpu" and self.layout.value in ("exclusive", "inclusive"):
            answers = [operators.of_gpu_work(answer, self.values.stored) for answer in answers]
        spelled: dict[str, dict[int, dict[Any, str]]] = {}
        if named:
            spelled |= dict.fromkeys(named, self._names(answers))
        if LINE in self._within:
            spelled[LINE] = self._lines(answers)
        if "layer" in self._within and self.layout.match != "exact":
            spelled["layer"] = self._layers()
        matched_names = {name: self._operators(name, answers) for name in of_operators}
        columns: dict[Labels, dict[Hashable, float]] = {}
        for answer in answers:
            labels = [
                matched_names[name](answer)
                if name in matched_names
                else _written(answer, name, spelled.get(name, {}))
                for name in self._within
            ]
            keys = list(zip(*labels, strict=True))
            for trial, runs in self.values.runs(answer, keys, where).items():
                column = columns.setdefault(self._column(trial), {})
                for key, number in runs.values.items():
                    column[key] = column.get(key, 0.0) + number
                    of_timer = dict(zip(self._within, key, strict=True))  # type: ignore[call-overload]
                    yield _Valued(self._trials[trial], of_timer, number, runs.times.get(key))
        if named and self.values.additive:
            sides = {
                "/".join(column): {
                    key: value
                    for key, value in of_keys.items()
                    if NOT_ROUTINES.isdisjoint(key)  # type: ignore[arg-type]
                }
                for column, of_keys in columns.items()
            }
            self.warnings += names_apart(sides, self.name)

    def _column(self, trial: int) -> Labels:
        """The labels of the trial's column, without those of its timers."""
        return tuple(self._labels[trial].get(name, "") for name in self.layout.columns)

    def _operators(self, by: str, answers: Sequence[Answer]) -> Callable[[Answer], list[str]]:
        """The name of each row's operator, matched across columns as `taupy compare` does."""
        columns: dict[Labels, dict[Nested, None]] = {}
        for answer in answers:
            trials = answer.table.row_labels("trial")
            for trial, pair in zip(trials, operators.nested(by, answer), strict=True):
                columns.setdefault(self._column(trial), {})[pair] = None
        exact = self.layout.match == "exact"
        keys = matched_operators([*columns.values()], exact=exact)
        of_column = dict(zip(columns, keys, strict=True))

        def names(answer: Answer) -> list[str]:
            trials = answer.table.row_labels("trial")
            rows = zip(trials, operators.nested(by, answer), strict=True)
            return [of_column[self._column(trial)][pair].timer for trial, pair in rows]

        return names

    def _lines(self, answers: Sequence[Answer]) -> dict[int, dict[Any, str]]:
        """Trial -> line -> its place and text, the same for lines that are the same."""
        exact = self.layout.match == "exact"
        keys = line_names.line_keys(self.db, answers, [*self._trials], exact=exact)
        if lacking := [trial for trial, own in keys.items() if not own]:
            self._notes.append(lacking_note(lacking, f"{len(keys)} trials", "times of lines"))
        last = {key.identity: key.timer for own in keys.values() for key in own.values()}
        return {
            trial: {line: last[key.identity] for line, key in own.items()}
            for trial, own in keys.items()
        }

    def _layers(self) -> dict[int, dict[Any, str]]:
        """Trial -> layer -> its name, the same for layers that match."""
        keys = layer_keys(self.values, [{trial} for trial in self._trials])
        self._notes += remarks(keys)
        return {
            trial: {layer: key.short_name for layer, key in own.items()}
            for trial, own in zip(self._trials, keys, strict=True)
        }

    def _names(self, answers: Sequence[Answer]) -> dict[int, dict[Any, str]]:
        """Trial -> timer -> its name, matched across columns, so that equal names share a row."""
        columns: dict[Labels, list[int]] = {}
        for trial in self._trials:
            columns.setdefault(self._column(trial), []).append(trial)
        sides = list(columns.values())
        timers = timers_of_sides(answers, sides)
        keys = matched(self.db, sides, timers, self.layout.match, self.layout.table)
        spelled = _spelled(key for side in keys for key in side.values())
        names = [{row: spelled[key.identity] for row, key in side.items()} for side in keys]
        return {trial: own for side, own in zip(sides, names, strict=True) for trial in side}


def _written(answer: Answer, name: str, spelled: Mapping[int, Mapping[Any, str]]) -> list[str]:
    """The label of each row, by trial the spelled ones, and others as they are."""
    by = "timer" if name in ("routine", "kernel") else name
    rows = zip(answer.table.row_labels("trial"), answer.table.row_labels(by), strict=True)
    return [spelled.get(trial, {}).get(label) or written(name, label) for trial, label in rows]


def _spelled(keys: Iterable[Key]) -> dict[object, str]:
    """A name for every key: the short name if it is unique, and the full one of a kernel, which
    people see shortened."""
    distinct = {key.identity: key for key in keys}
    having = Counter(key.short_name for key in distinct.values())
    return {
        identity: key.short_name
        if having[key.short_name] == 1 and not is_kernel(key.groups)
        else key.timer
        for identity, key in distinct.items()
    }
