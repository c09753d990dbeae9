"""The database for notebooks and scripts: trials and values as pandas frames.

    db = taupy.open("taupy.db")
    db.trials(gpu="H200")
    trial = db.trial("latest")
    trial.profile().nlargest(10, "exclusive")
    trial.kernels()

`taupy.open` returns a `Database` that also compares trials (`taupy/notebook.py`). Values are in
the metric's unit, which is in the frame's `attrs["unit"]`: `time` is in nanoseconds. Each call
opens the file, reads, and closes it. pandas is imported with the first frame.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from taupy.escaping import html, visible
from taupy.frames import frame
from taupy.model.answer import flat_rows, tree_rows
from taupy.model.gpu_rows import SiteRow
from taupy.model.rows import EventRow, FlatRow, ThreadRow, TimelineRow, TreeRow, TrialRow
from taupy.profiledb import gpu_query, metrics, query, selector
from taupy.profiledb.address import is_address
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.sql import run_sql
from taupy.state.places import DEFAULT_DATABASE, usual_database

if TYPE_CHECKING:
    import pandas as pd

_ROWS_IN_A_NOTEBOOK = 20


def usual() -> str:
    """The database that no argument names. A warning says so if it is not `./taupy.db`."""
    name, why = usual_database()
    if why:
        warnings.warn(f"{why}; {DEFAULT_DATABASE!r} as an argument names the other", stacklevel=3)
    return name


class Database:
    """A trial database."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fsdecode(path)
        self.path = name if is_address(name) else os.path.abspath(name)

    def __repr__(self) -> str:
        return f"taupy.open({self.path!r})"

    def _repr_html_(self) -> str:
        """The list of trials, for notebooks."""
        trials = self.trials()
        columns = ["id", "application", "experiment", "name", "started_at", "duration_ns"]
        shown = trials[[*columns, "state", "tags"]].tail(_ROWS_IN_A_NOTEBOOK)
        many = len(trials) > len(shown)
        title = f"{len(trials)} trials" + (f", the last {len(shown)}" if many else "")
        return f"<p><b>{html(self.path)}</b>: {title}</p>" + _html(shown)

    def trials(
        self,
        *selectors: str,
        application: str | None = None,
        experiment: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        gpu: str | None = None,
        state: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> pd.DataFrame:
        """One row per trial: all, or those that match any selector and all conditions.

        Columns: id, uuid, application, experiment, name, started_at [UTC timestamp],
        duration_ns [ns], exit_code, state, source, tags [tuple].

        Args:
            selectors: texts as on the command line: "latest", "mnist/*", "tag:base".
            gpu: part of a GPU's name. Other conditions are whole values, or patterns with * and ?.
            meta: metadata, name -> value.

        Raises:
            taupy.errors.NoSuchTrial: no trial matches; the message lists the trials.
        """
        conditions = _conditions((application, experiment, name, tag, gpu, state), meta)
        with self._opened() as db:
            rows = selector.many(db, selectors) if selectors else db.trials()
            if conditions:
                ids = {trial.id for trial in selector.together(db, conditions)}
                rows = [row for row in rows if row.id in ids]
        return frame(rows, TrialRow._fields, {"started_at": "time"})

    def trial(
        self,
        which: str | int = selector.LATEST,
        *,
        application: str | None = None,
        experiment: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        gpu: str | None = None,
        state: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Trial:
        """One trial: `latest`, an id, `app/experiment/name`, `tag:x`, `gpu=H200` ...

        With conditions (as for `trials`), the last trial that meets all of them.

        Raises:
            taupy.errors.NoSuchTrial: no trial matches.
        """
        conditions = _conditions((application, experiment, name, tag, gpu, state), meta)
        with self._opened() as db:
            if conditions:
                return Trial(self, selector.together(db, [str(which), *conditions])[-1])
            return Trial(self, selector.trial(db, str(which)))

    def sql(self, statement: str, parameters: Mapping[str, object] | None = None) -> pd.DataFrame:
        """The result of one read-only statement; `:name` in it is `parameters["name"]`."""
        with self._opened() as db:
            names, rows = run_sql(db, statement, parameters)
            return frame(rows, names, documented=False)

    def _opened(self) -> ProfileDB:
        return opened(self.path)


class Trial:
    """One trial of a database. `row` identifies it."""

    def __init__(self, database: Database, row: TrialRow) -> None:
        self.row = row
        self._database = database

    @property
    def id(self) -> int:
        """Its number in the database."""
        return self.row.id

    @property
    def name(self) -> str:
        """Its name in its experiment."""
        return self.row.name

    def __repr__(self) -> str:
        row = self.row
        return visible(f"<trial {row.id} {row.application}/{row.experiment}/{row.name}>")

    def _repr_html_(self) -> str:
        """Metadata and the largest routines, for notebooks."""
        row = self.row
        title = f"trial {row.id}: {row.application}/{row.experiment}/{row.name}"
        about = f"{row.started_at}, {row.duration_ns / 1e9:.3f} s, {row.state}"
        head = f"<p><b>{html(title)}</b> {html(about)}</p>"
        names = self.metrics()["name"].tolist()
        if not names:
            return head
        profile = self.profile("time" if "time" in names else names[0])
        sums = profile.groupby("timer", as_index=False)[["calls", "exclusive"]].sum()
        largest = sums.nlargest(10, "exclusive")
        unit = profile.attrs["unit"]
        if unit == "ns":
            unit, largest["exclusive"] = "ms", (largest["exclusive"] / 1e6).round(3)
        metric = profile.attrs["metric"]
        return head + _html(largest.rename(columns={"exclusive": f"exclusive {metric} [{unit}]"}))

    def metrics(self, derived: bool = False) -> pd.DataFrame:
        """Columns: name, unit.

        Args:
            derived: include metrics that can be computed from measured ones.
        """
        with self._database._opened() as db:
            if derived:
                rows = [(metric.name, metric.unit) for metric in metrics.available(db, self.row.id)]
            else:
                rows = [(metric.name, metric.unit) for metric in query.metrics(db, self.row.id)]
        return frame(rows, ("name", "unit"))

    def derived_metrics(self) -> pd.DataFrame:
        """The derived metrics available in this trial; `profile` accepts each of them.

        Columns: name, unit, expression, description, source, additive (false for ratios, whose
        parts do not add up to the whole).
        """
        with self._database._opened() as db:
            metrics_here = metrics.available(db, self.row.id)
        rows = [
            (
                metric.name,
                metric.unit,
                metric.expression,
                metric.description,
                metric.source,
                metric.additive,
            )
            for metric in metrics_here
            if metric.expression is not None
        ]
        names = ("name", "unit", "expression", "description", "source", "additive")
        return frame(rows, names)

    def threads(self) -> pd.DataFrame:
        """Columns: node, context, thread, kind, name; threads, least_ns, most_ns: of how many
        threads that were added up the row is, and the shortest and longest time of one."""
        with self._database._opened() as db:
            return frame(query.threads(db, self.row.id), ThreadRow._fields)

    def profile(self, metric: str = "time") -> pd.DataFrame:
        """The flat profile of a measured or derived metric, one row per timer and thread.

        Columns: node, context, thread, timer, short_name, file, line, groups, calls,
        subroutines, inclusive, exclusive [both in the metric's unit].

        Raises:
            taupy.errors.MissingMetric: the trial does not have the metric.
        """
        with self._database._opened() as db:
            rows = flat_rows(metrics.flat_profile(db, self.row.id, metric))
            return self._values(db, rows, FlatRow._fields, metric)

    def callpaths(self, metric: str = "time", *, largest: int | None = None) -> pd.DataFrame:
        """The call paths, one row per call path and thread, parents before children.

        Args:
            largest: only this many, those with the largest exclusive values, in decreasing order.

        Columns: node, context, thread, callpath_id, parent_id [missing for a root],
        depth, timer, short_name, file, line, groups, calls, subroutines, inclusive,
        exclusive [both in the metric's unit].

        Raises:
            taupy.errors.MissingMetric: the trial does not have the metric.
        """
        with self._database._opened() as db:
            rows = (
                tree_rows(metrics.call_tree(db, self.row.id, metric))
                if largest is None
                else metrics.largest_callpaths(db, self.row.id, metric, largest)
            )
            return self._values(db, rows, TreeRow._fields, metric)

    def launches(self) -> pd.DataFrame:
        """One row per kernel or copy, configuration, stream and launching call path.

        Columns: those of `taupy.model.gpu_rows.SiteRow`, among them routine and callpath
        [where it was launched], calls, time_ns, grid, block, registers and shared memory.

        Raises:
            taupy.errors.TaupyError: nothing of the trial ran on a GPU.
        """
        with self._database._opened() as db:
            return frame(gpu_query.sites(gpu_query.launched(db, self.row.id)), SiteRow._fields)

    def user_events(self) -> pd.DataFrame:
        """One row per event, thread and call path.

        Columns: node, context, thread, event, unit, callpath, count, minimum, maximum,
        mean, stddev [in the event's unit].
        """
        with self._database._opened() as db:
            return frame(query.user_events(db, self.row.id), EventRow._fields)

    def timeline(self) -> pd.DataFrame:
        """User events over time, one row per sample: counters of GPUs, with `--pm-sampling`.

        Columns: node, context, thread, event, unit, start_s, end_s [since the trial's start],
        mean, minimum, maximum [in the event's unit], count [samples].
        """
        with self._database._opened() as db:
            return frame(query.timeline(db, self.row.id), TimelineRow._fields)

    def metadata(self) -> pd.DataFrame:
        """Columns: node [missing for facts of the trial as a whole], name, value."""
        with self._database._opened() as db:
            return frame(query.trial_metadata(db, self.row.id), query.MetadataRow._fields)

    def _values(
        self, db: ProfileDB, rows: Iterable[tuple[Any, ...]], columns: Iterable[str], metric: str
    ) -> pd.DataFrame:
        values = frame(rows, columns)
        resolved = metrics.resolve(db, self.row.id, metric)
        values.attrs.update(trial=self.row.id, metric=resolved.name, unit=resolved.unit)
        return values


_PREFIXES = ("application=", "experiment=", "trial=", "tag:", "gpu=", "state=")


def _conditions(texts: Sequence[str | None], meta: Mapping[str, object] | None) -> list[str]:
    """The conditions as selectors; `texts` in the order of `_PREFIXES`, None for no condition."""
    pairs = zip(_PREFIXES, texts, strict=True)
    conditions = [prefix + text for prefix, text in pairs if text is not None]
    return conditions + [f"meta.{key}={value}" for key, value in (meta or {}).items()]


def _html(rows: pd.DataFrame) -> str:
    """A frame as HTML: pandas escapes markup, this function invisible characters."""

    def shown(cell: object) -> object:
        text = ", ".join(map(str, cell)) if isinstance(cell, tuple) else cell
        return visible(text) if isinstance(text, str) else text

    rows = rows.apply(lambda column: column.map(shown))  # `map` of frames came with pandas 2.1
    return str(rows.rename(columns=visible).to_html(index=False, border=0))
