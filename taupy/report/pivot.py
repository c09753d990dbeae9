"""Pivots of the database's trials: applications, kernels and the like against GPUs.

Asks for the labels of trials and the values of their timers; `analysis/pivot.py` puts them
into cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from typing import NamedTuple

from taupy.analysis import match, pivot
from taupy.analysis.match import Key, Level, Table
from taupy.analysis.pivot import Across, Entry, Labels, Pivot
from taupy.errors import MissingMetric, UsageError
from taupy.model.profile import Metric
from taupy.model.rows import TrialRow
from taupy.pprof.selection import name_test
from taupy.profiledb import compare_query
from taupy.profiledb.compare_query import Over, TimerFacts, Where
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import shown
from taupy.report.comparison import NAMES, VALUE_OF, Value, metric_shown
from taupy.report.peaks import Peaks, gpus
from taupy.report.trial_values import TrialValues, added

ROW_DIMENSIONS = ("routine", "kernel", "group", "file", "module")
"""Labels of timers; all others are labels of trials."""

TRIAL_DIMENSIONS = ("application", "experiment", "trial", "id", "gpu", "tag", "host", "state")
METRIC = "metric"
DURATION = "duration"
NOTHING = "(none)"


@dataclass(frozen=True, slots=True)
class Layout:
    """What a pivot shows.

    Attributes:
        rows, columns: names of labels: of `TRIAL_DIMENSIONS`, `ROW_DIMENSIONS`, `metric`, or
            of metadata.
        cells: metrics, measured or derived, or `duration`.
        across: how trials that meet in a cell are summed up.
        baseline: a column that all others are divided by.
        peak: cells are shares of what each device can do at most.
        ceiling: the roof for that, None to go by the metric's name.
    """

    rows: tuple[str, ...] = ("application",)
    columns: tuple[str, ...] = ("gpu",)
    cells: tuple[str, ...] = ("time",)
    value: Value = "exclusive"
    over: Over = "total"
    across: Across = "median"
    baseline: str | None = None
    peak: bool = False
    ceiling: str | None = None
    level: Level = "auto"
    table: Table | None = None
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def with_metric(self) -> Layout:
        """Several cells need a place for their names: before the timers' labels."""
        if len(self.cells) < 2 or METRIC in (*self.rows, *self.columns):
            return self
        at = next((n for n, name in enumerate(self.rows) if name in ROW_DIMENSIONS), None)
        at = len(self.rows) if at is None else at
        return replace(self, rows=(*self.rows[:at], METRIC, *self.rows[at:]))


class Made(NamedTuple):
    """A pivot, and what its cells are.

    Attributes:
        layout: with the place of `metric`, where there are several.
        metrics: by the name that was asked for.
        notes: what the cells rest on.
    """

    table: Pivot
    layout: Layout
    metrics: dict[str, Metric]
    notes: list[str]


def made(db: ProfileDB, trials: Sequence[TrialRow], layout: Layout) -> Made:
    """Make the pivot of these trials.

    Raises:
        MissingMetric: none of the trials has one of the metrics.
        UsageError: a label is none, or there is no peak or baseline of that name.
    """
    layout = layout.with_metric()
    labels = _Labels(db, trials, layout)
    entries: list[Entry] = []
    metrics: dict[str, Metric] = {}
    notes: list[str] = []
    for cell in layout.cells:
        source = _Cells(db, trials, layout, labels, cell)
        entries += source.entries()
        metrics[cell] = source.metric
        notes += source.notes
    table = pivot.pivoted(entries, layout.across)
    if not table.rows:
        reasons = [note for note in notes if not note.startswith("peak ")]
        raise MissingMetric(
            f"these {len(trials)} trials have no values for such a table"
            + (f": {'; '.join(reasons)}" if reasons else "")
            + "; `taupy trials` and `taupy pprof -l` list what there is"
        )
    if layout.baseline is not None:
        table, column = pivot.relative_to(table, layout.baseline)
        notes.append(f"cells are relative to {', '.join(column)}")
        metrics = {cell: Metric(one.name, "ratio") for cell, one in metrics.items()}
    most = max(table.counts.values(), default=0)
    if most > 1:
        notes.append(f"up to {most} trials meet in a cell: their {layout.across}")
    return Made(table, layout, metrics, notes)


# --- labels --------------------------------------------------------------------


class _Labels:
    """The labels of trials under the names of a layout."""

    def __init__(self, db: ProfileDB, trials: Sequence[TrialRow], layout: Layout) -> None:
        self._of: dict[str, dict[int, str]] = {}
        for name in (*layout.rows, *layout.columns):
            if name not in (*ROW_DIMENSIONS, METRIC):
                self._of[name] = self._labels(db, trials, name)

    def _labels(self, db: ProfileDB, trials: Sequence[TrialRow], name: str) -> dict[int, str]:
        known: dict[str, Callable[[TrialRow], str]] = {
            "application": lambda trial: trial.application,
            "experiment": lambda trial: trial.experiment,
            "trial": lambda trial: trial.name,
            "id": lambda trial: str(trial.id),
            "state": lambda trial: trial.state,
            "tag": lambda trial: ", ".join(trial.tags) or NOTHING,
            "gpu": lambda trial: " + ".join(gpus(db, trial)) or "no GPU",
        }
        if name in known:
            return {trial.id: known[name](trial) for trial in trials}
        wanted = "Hostname" if name == "host" else name.removeprefix("meta.")
        values = compare_query.metadata_values(db, wanted)
        found = {trial.id: values[trial.id] for trial in trials if trial.id in values}
        if not found:
            there = compare_query.metadata_names(db)
            near = get_close_matches(wanted, there, n=4, cutoff=0.5)
            more = f", metadata such as {', '.join(map(shown, near))}" if near else ""
            raise UsageError(
                f"'{shown(name)}' is no label of these trials (there is: "
                f"{', '.join((*TRIAL_DIMENSIONS, *ROW_DIMENSIONS, METRIC))}{more})"
            )
        return {trial.id: found.get(trial.id, NOTHING) for trial in trials}

    def of_trial(self, names: Sequence[str], trial: int, metric: str) -> tuple[str | None, ...]:
        """The labels that a trial gives; None where its timers give them."""
        return tuple(
            metric if name == METRIC else self._of[name][trial] if name in self._of else None
            for name in names
        )


# --- cells ---------------------------------------------------------------------


class _Cells:
    """The values of one metric, trial by trial, under their labels."""

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
        self.notes: list[str] = []
        self.timer_names = [one for one in layout.rows + layout.columns if one in ROW_DIMENSIONS]
        if name == DURATION:
            if self.timer_names:
                raise UsageError("a duration is of a trial, not of its routines and kernels")
            self.trials = list(trials)
            self.metric = Metric(DURATION, "ns")
            return
        self.trials, missing = self._having(trials)
        ids = [trial.id for trial in self.trials]
        self.values = TrialValues(db, ids, name, layout.over)
        self.metric = metric_shown(self.values.metric, layout.value)
        if missing:
            self.notes.append(
                f"{len(missing)} of {len(trials)} trials have no {name}: "
                + ", ".join(map(str, missing[:8]))
                + (" ..." if len(missing) > 8 else "")
            )
        self._peaks = (
            Peaks(db, self.values.metric, layout.value, layout.ceiling) if layout.peak else None
        )
        if self._peaks is not None:
            self.metric = Metric(self.metric.name, "%")

    def _having(self, trials: Sequence[TrialRow]) -> tuple[list[TrialRow], list[int]]:
        having, missing, problem = [], [], None
        for trial in trials:
            try:
                TrialValues(self.db, [trial.id], self.name)
            except MissingMetric as error:
                missing.append(trial.id)
                problem = error
            else:
                having.append(trial)
        if not having and problem is not None:
            raise problem
        return having, missing

    def entries(self) -> Iterator[Entry]:
        if self.name == DURATION:
            for trial in self.trials:
                yield self._entry(trial.id, {}, float(trial.duration_ns))
            return
        if not self.timer_names:
            yield from self._totals()
            return
        names = self._names()
        for trial in self.trials:
            yield from self._of_timers(trial, names[trial.id])

    def _entry(self, trial: int, of_timer: dict[str, str], value: float) -> Entry:
        def filled(names: Sequence[str]) -> Labels:
            found = self.labels.of_trial(names, trial, self.name)
            return tuple(
                of_timer[name] if label is None else label
                for name, label in zip(names, found, strict=True)
            )

        return Entry(filled(self.layout.rows), filled(self.layout.columns), value)

    def _totals(self) -> Iterator[Entry]:
        """The whole of each trial: of its host's threads, or where they have none, its GPUs'."""
        for trial in self.trials:
            where: Where = "host" if self.values.threads(trial.id, "host") else "gpu"
            if self.layout.value in ("calls", "subroutines"):
                sums = self.values.timers(trial.id, where).values()
                take = VALUE_OF[self.layout.value]
                value: float | None = sum(take(one) or 0 for one in sums)
            else:
                value = self.values.total(trial.id, where)
            if value is not None:
                time = self._times(trial.id, where) if self._peaks else None
                whole = sum(time.values()) if time else None
                yield self._entry(trial.id, {}, self._share(trial, value, whole))

    def _where(self) -> Where | None:
        if "kernel" in self.timer_names:
            return "gpu"
        return "host" if "routine" in self.timer_names else None

    def _names(self) -> dict[int, dict[int, list[dict[str, str]]]]:
        """Trial -> timer id -> the labels it gives; several where it is in several groups.

        Names are matched between the columns, so that those of one row are one thing.
        """
        where = self._where()
        sides: dict[Labels, list[int]] = {}
        for trial in self.trials:
            key = self._columns(trial.id)
            sides.setdefault(key, []).append(trial.id)
        there = [self._timers(ids, where) for ids in sides.values()]
        keys = match.matched(there, self.layout.level, self.layout.table)
        spelled = _spelled(key for side in keys for key in side.values())
        found: dict[int, dict[int, list[dict[str, str]]]] = {}
        for ids, facts, known in zip(sides.values(), there, keys, strict=True):
            labels = {
                id: self._labels_of(named, spelled[known[id].identity])
                for id, named in facts.items()
            }
            found.update(dict.fromkeys(ids, labels))
        return found

    def _columns(self, trial: int) -> Labels:
        found = self.labels.of_trial(self.layout.columns, trial, self.name)
        return tuple(label or "" for label in found)

    def _timers(self, ids: Iterable[int], where: Where | None) -> dict[int, TimerFacts]:
        ids = list(ids)
        facts = compare_query.timer_facts(self.db, ids)
        having = {timer for id in ids for timer in self.values.timers(id, where)}
        wanted = {group.upper() for group in self.layout.groups}
        tests = [name_test(pattern) for pattern in self.layout.names]
        return {
            id: one
            for id, one in facts.items()
            if id in having
            and (not wanted or wanted & set(one.groups.upper().split("|")))
            and (not tests or any(test(one.timer, one.short_name) for test in tests))
        }

    def _labels_of(self, timer: TimerFacts, name: str) -> list[dict[str, str]]:
        choices = [
            (name,) if one in ("routine", "kernel") else NAMES[one](timer)
            for one in self.timer_names
        ]
        return [dict(zip(self.timer_names, chosen, strict=True)) for chosen in product(*choices)]

    def _of_timers(
        self, trial: TrialRow, names: dict[int, list[dict[str, str]]]
    ) -> Iterator[Entry]:
        value = VALUE_OF[self.layout.value]
        where = self._where()
        time_of = self._times(trial.id, where) if self._peaks else {}
        sums: dict[tuple[str, ...], compare_query.Sums] = {}
        times: dict[tuple[str, ...], float] = {}
        for id, one in self.values.timers(trial.id, where).items():
            for labels in names.get(id, ()):
                key = tuple(labels.values())
                sums[key] = added(sums[key], one, self.layout.over) if key in sums else one
                times[key] = times.get(key, 0.0) + time_of.get(id, 0.0)
        for key, summed in sums.items():
            number = value(summed)
            if number is not None and number == number:
                labels = dict(zip(self.timer_names, key, strict=True))
                yield self._entry(trial.id, labels, self._share(trial, number, times[key]))

    # --- peaks ---

    def _times(self, trial: int, where: Where | None) -> dict[int, float]:
        """Nanoseconds in which the metric was counted, by timer."""
        for name in ("counted_time", "time"):
            if compare_query.metric_of(self.db, trial, name) is not None:
                found = TrialValues(self.db, [trial], name).timers(trial, where)
                counted = self.values.timers(trial, where)
                return {id: one.exclusive for id, one in found.items() if id in counted}
        return {}

    def _share(self, trial: TrialRow, value: float, time_ns: float | None) -> float:
        """In percent of the device's peak; the value itself where that was not asked for."""
        if self._peaks is None:
            return value
        return self._peaks.share(trial, value, time_ns, self.notes)


def _spelled(keys: Iterable[Key]) -> dict[object, str]:
    """A name for every key: the short one, where only one key has it."""
    distinct = {key.identity: key for key in keys}
    having: dict[str, int] = {}
    for key in distinct.values():
        having[key.short_name] = having.get(key.short_name, 0) + 1
    return {
        identity: key.short_name if having[key.short_name] == 1 else key.timer
        for identity, key in distinct.items()
    }
