"""Tabulate many trials: applications, libraries and kernels by GPU.

    taupy pivot                                        time of every application on every GPU
    taupy pivot --rows application,library --columns gpu
    taupy pivot --rows application,kernel --cell warps_per_inst --cell gld_per_inst
    taupy pivot mnist --rows routine --columns meta.batch_size --baseline 16
    taupy pivot --rows kernel --cell bytes_dram --peak

Labels of trials: application, experiment, trial, id, gpu, tag, host, state, and any metadata by
name. Labels within a trial: routine, kernel, group, file, module.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

from taupy.analysis.match import LEVELS, Key, Level, NameTable
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
from taupy.model.rows import TimerRow, TrialRow
from taupy.profiledb import selector, trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import WITHIN, written
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

ROW_DIMENSIONS = ("routine", *WITHIN, "step")
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
    """

    table: Pivot
    layout: Layout
    metrics: dict[str, Metric]
    notes: list[str]
    warnings: Sequence[str] = ()


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
    labels = _Labels(db, trials, layout)
    of_metrics = [_Cells(db, trials, layout, labels, cell) for cell in layout.cells]
    entries = [entry for cells in of_metrics for entry in cells.entries()]
    table = pivoted(entries, layout.across)
    notes = [note for cells in of_metrics for note in cells.notes]
    metrics = {cells.name: cells.metric for cells in of_metrics}
    if not table.rows:
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
    return PivotTable(table, layout, metrics, notes, list(warnings))


# --- labels --------------------------------------------------------------------


class _Labels:
    """The labels of trials for the dimensions of a layout."""

    def __init__(self, db: ProfileDB, trials: Sequence[TrialRow], layout: Layout) -> None:
        self._of: dict[str, dict[int, str]] = {}
        for name in (*layout.rows, *layout.columns):
            if name not in (*ROW_DIMENSIONS, METRIC):
                self._of[name] = self._labels(db, trials, name)

    def _labels(self, db: ProfileDB, trials: Sequence[TrialRow], name: str) -> dict[int, str]:
        if name == "gpu":
            models = trial_facts.gpu_models(db, [trial.id for trial in trials])
            return {trial: model or "no GPU" for trial, model in models.items()}
        label_of: dict[str, Callable[[TrialRow], str]] = {
            "application": lambda trial: trial.application,
            "experiment": lambda trial: trial.experiment,
            "trial": lambda trial: trial.name,
            "id": lambda trial: str(trial.id),
            "state": lambda trial: trial.state,
            "tag": lambda trial: ", ".join(trial.tags) or NOTHING,
        }
        if name in label_of:
            return {trial.id: label_of[name](trial) for trial in trials}
        wanted = "Hostname" if name == "host" else name.removeprefix("meta.")
        values = trial_facts.metadata_values(db, wanted)
        with_value = {trial.id: values[trial.id] for trial in trials if trial.id in values}
        if not with_value:
            near = nearest(wanted, trial_facts.metadata_names(db), 4)
            more = f", metadata such as {', '.join(map(visible, near))}" if near else ""
            raise UsageError(
                f"'{name}' is not a label of these trials (labels: "
                f"{', '.join((*TRIAL_DIMENSIONS, *ROW_DIMENSIONS, METRIC))}{more})"
            )
        return {trial.id: with_value.get(trial.id, NOTHING) for trial in trials}

    def of_trial(self, names: Sequence[str], trial: int, metric: str) -> tuple[str | None, ...]:
        """The labels that follow from a trial; None where they follow from its timers."""
        return tuple(
            metric if name == METRIC else self._of[name][trial] if name in self._of else None
            for name in names
        )


# --- cells ---------------------------------------------------------------------


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
        labels: _Labels,
        name: str,
    ) -> None:
        self.db = db
        self.layout = layout
        self.labels = labels
        self.name = name
        self._notes: list[str] = []
        self._peaks: Peaks | None = None
        self.warnings: list[str] = []
        self.timer_names = [
            name for name in (*layout.rows, *layout.columns) if name in ROW_DIMENSIONS
        ]
        if name == DURATION:
            if self.timer_names or layout.group or layout.filter:
                raise UsageError("trials have a duration; routines and kernels do not: use time")
            self.trials = list(trials)
            self.metric = Metric(DURATION, "ns")
            return
        ids = [trial.id for trial in trials]
        of_steps = "step" in self.timer_names
        values = TrialValues.of(db, ids, name, layout.value, lenient=True, of_steps=of_steps)
        having = set(values.trials)
        self.trials = [trial for trial in trials if trial.id in having]
        self.metric = metric_shown(values.metric, layout.value)
        if missing := values.missing:
            self._notes.append(lacking_note(missing, f"{len(trials)} trials", name))
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
        if self.name == DURATION:
            for trial in self.trials:
                yield self._entry(trial.id, {}, float(trial.duration_ns))
        elif self.timer_names:
            yield from self._of_timers()
        else:
            yield from self._totals()

    def _entry(self, trial: int, of_timer: dict[str, str], value: float) -> Entry:
        def filled(names: Sequence[str]) -> Labels:
            own_labels = self.labels.of_trial(names, trial, self.name)
            return tuple(
                of_timer[name] if label is None else label
                for name, label in zip(names, own_labels, strict=True)
            )

        return Entry(filled(self.layout.rows), filled(self.layout.columns), value)

    def _totals(self) -> Iterator[Entry]:
        """The total of each trial, or of the selected routines: of its host threads or, if they
        have none, of its GPUs."""
        value: Value = self.layout.value if self.layout.value in COUNTS else "exclusive"
        whole = replace(self.values, value=value)
        numbers: dict[int, tuple[float, float | None]] = {}
        limits = self.values.limits(self.layout.group, self.layout.filter)
        kinds: tuple[Where, ...] = ("host", "gpu")
        for where in kinds:
            if len(numbers) == len(self.trials):
                break
            for answer in whole.answers(where=where, limits=limits, calls=False):
                for trial, runs in whole.runs(answer, [""] * len(answer), where).items():
                    for number in runs.values.values():
                        numbers.setdefault(trial, (number, runs.times.get("")))
        for row in self.trials:
            if row.id in numbers:
                yield self._entry(row.id, {}, self._share(row, *numbers[row.id]))

    def _of_timers(self) -> Iterator[Entry]:
        values, where = self.values, self._where
        limits = values.limits(self.layout.group, self.layout.filter)
        named = where is not None
        own = [name for name in self.timer_names if name not in ("routine", "kernel")]
        of_sides = values.answers(*(["timer"] if named else []), *own, where=where, limits=limits)
        names = self._names(of_sides) if named else {}
        layers = self._layers() if "layer" in self.timer_names else {}
        rows = {trial.id: trial for trial in self.trials}
        columns: dict[Labels, dict[Hashable, float]] = {}
        for answer in of_sides:
            keys = list(self._keys(answer, names, layers))
            for trial, runs in values.runs(answer, keys, where).items():
                column = columns.setdefault(self._columns(trial), {})
                for key, number in runs.values.items():
                    column[key] = column.get(key, 0.0) + number
                for key, number in runs.values.items():
                    labels = dict(zip(self.timer_names, key, strict=True))  # type: ignore[call-overload]
                    share = self._share(rows[trial], number, runs.times.get(key))
                    yield self._entry(trial, labels, share)
        if named and self.values.additive:
            self._warn_of_names(columns)

    def _warn_of_names(self, columns: Mapping[Labels, Mapping[Hashable, float]]) -> None:
        sides = {
            "/".join(labels): {
                key: value
                for key, value in rows.items()
                if NOT_ROUTINES.isdisjoint(key)  # type: ignore[arg-type]
            }
            for labels, rows in columns.items()
        }
        self.warnings += names_apart(sides, self.name)

    @property
    def _where(self) -> Where | None:
        if "kernel" in self.timer_names:
            return "gpu"
        return "host" if "routine" in self.timer_names else None

    def _keys(
        self,
        answer: Answer,
        names: dict[int, dict[TimerRow, str]],
        layers: dict[int, dict[str, Key]],
    ) -> Iterator[tuple[Hashable, ...]]:
        """Labels of each row's timer, in the order of the layout."""
        table = answer.table
        columns: list[Iterable[Hashable]] = []
        for name in self.timer_names:
            if name in ("routine", "kernel"):
                pairs = zip(table.row_labels("trial"), answer.timers, strict=True)
                columns.append([names[trial][timer] for trial, timer in pairs])
            elif name == "layer" and layers:
                rows = zip(table.row_labels("trial"), table.row_labels(name), strict=True)
                keyed = ((layers[trial].get(layer), layer) for trial, layer in rows)
                columns.append(
                    [key.short_name if key else written(name, own) for key, own in keyed]
                )
            else:
                columns.append([written(name, label) for label in table.row_labels(name)])
        return zip(*columns, strict=True)

    def _layers(self) -> dict[int, dict[str, Key]]:
        """Trial -> layer -> its key, the same for layers that match."""
        if self.layout.match == "exact":
            return {}
        keys = layer_keys(self.values, [{trial.id} for trial in self.trials])
        self._notes += remarks(keys)
        return {trial.id: of_trial for trial, of_trial in zip(self.trials, keys, strict=True)}

    def _names(self, of_sides: Sequence[Answer]) -> dict[int, dict[TimerRow, str]]:
        """Trial -> timer -> its name, matched across columns, so that equal names share a row."""
        sides: dict[Labels, list[int]] = {}
        for trial in self.trials:
            sides.setdefault(self._columns(trial.id), []).append(trial.id)
        side_of = {trial: at for at, ids in enumerate(sides.values()) for trial in ids}
        trials = [*sides.values()]
        timers = timers_of_sides(of_sides, trials)
        keys = matched(self.db, trials, timers, self.layout.match, self.layout.table)
        spelled = _spelled(key for side in keys for key in side.values())
        named = [{row: spelled[key.identity] for row, key in side.items()} for side in keys]
        return {trial: named[side_of[trial]] for trial in side_of}

    def _columns(self, trial: int) -> Labels:
        own_labels = self.labels.of_trial(self.layout.columns, trial, self.name)
        return tuple(label or "" for label in own_labels)

    def _share(self, trial: TrialRow, value: float, time_ns: float | None) -> float:
        """In percent of the device's peak, if requested; otherwise the value itself."""
        if self._peaks is None:
            return value
        return self._peaks.share(trial, value, time_ns)


def _spelled(keys: Iterable[Key]) -> dict[object, str]:
    """A name for every key: the short name if it is unique, and the full one of a kernel, which
    people see shortened."""
    distinct = {key.identity: key for key in keys}
    having: dict[str, int] = {}
    for key in distinct.values():
        having[key.short_name] = having.get(key.short_name, 0) + 1
    return {
        identity: key.short_name
        if having[key.short_name] == 1 and not is_kernel(key.groups)
        else key.timer
        for identity, key in distinct.items()
    }
