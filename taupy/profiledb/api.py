"""The database for notebooks and scripts: trials and their values as pandas frames.

    db = taupy.open("taupy.db")
    db.trials()
    trial = db.trial("latest")
    trial.profile().nlargest(10, "exclusive")

Values are in the metric's unit, which stands in the frame's `attrs["unit"]`: `time`
is in nanoseconds. Each call opens the file, reads, and closes it, so that nothing
is held between calls. pandas is imported with the first frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from taupy.model.rows import EventRow, FlatRow, ThreadRow, TreeRow, TrialRow
from taupy.profiledb import metrics, query, selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sql import run_sql

if TYPE_CHECKING:
    import pandas as pd


def open(path: str | os.PathLike[str] = "taupy.db") -> Database:
    """Open a trial database for reading.

    Raises:
        taupy.errors.DatabaseError: there is none, or it cannot be read.
    """
    database = Database(path)
    with database._opened():
        pass
    return database


class Database:
    """A trial database."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fsdecode(path))

    def __repr__(self) -> str:
        return f"taupy.open({self.path!r})"

    def trials(self, *selectors: str) -> pd.DataFrame:
        """One row a trial, all or those that the selectors name.

        Columns: id, uuid, application, experiment, name, started_at [UTC timestamp],
        duration_ns [ns], exit_code, state, source, tags [tuple].
        """
        import pandas as pd

        with self._opened() as db:
            rows = selector.many(db, selectors) if selectors else db.trials()
        frame = _frame(rows, TrialRow._fields)
        frame["started_at"] = pd.to_datetime(frame["started_at"], utc=True, errors="coerce")
        return frame

    def trial(self, which: str | int = selector.LATEST) -> Trial:
        """One trial: `latest`, an id, `app/experiment/name`, `tag:x`, `gpu=H200` ...

        Raises:
            taupy.errors.NoSuchTrial: nothing answers to that.
        """
        with self._opened() as db:
            return Trial(self, selector.one(db, str(which)))

    def sql(self, statement: str, parameters: Mapping[str, object] | None = None) -> pd.DataFrame:
        """The answer to one reading statement; `:name` in it is `parameters["name"]`."""
        with self._opened() as db:
            names, rows = run_sql(db, statement, parameters)
            return _frame(list(rows), names)

    def _opened(self) -> ProfileDB:
        return ProfileDB.open(self.path)


class Trial:
    """One trial of a database. `row` holds its identity."""

    def __init__(self, database: Database, row: TrialRow) -> None:
        self.row = row
        self._database = database

    def __repr__(self) -> str:
        row = self.row
        return f"<trial {row.id} {row.application}/{row.experiment}/{row.name}>"

    def metrics(self) -> pd.DataFrame:
        """Columns: name, unit."""
        with self._database._opened() as db:
            found = query.metrics(db, self.row.id)
        return _frame([(metric.name, metric.unit) for metric in found], ("name", "unit"))

    def derived_metrics(self) -> pd.DataFrame:
        """The derived metrics that this trial can give; `profile` takes each.

        Columns: name, unit, expression, description, source, additive (values of parts add
        up to the value of the whole; of a ratio they do not).
        """
        with self._database._opened() as db:
            found = metrics.available(db, self.row.id)
        rows = [
            (one.name, one.unit, one.expression, one.description, one.source, one.additive)
            for one in found
            if one.expression is not None
        ]
        names = ("name", "unit", "expression", "description", "source", "additive")
        return _frame(rows, names)

    def threads(self) -> pd.DataFrame:
        """Columns: node, context, thread, kind, name."""
        with self._database._opened() as db:
            return _frame(query.threads(db, self.row.id), ThreadRow._fields)

    def profile(self, metric: str = "time") -> pd.DataFrame:
        """The flat profile, one row a timer and thread; of a measured or a derived metric.

        Columns: node, context, thread, timer, short_name, file, line, groups, calls,
        subroutines, inclusive, exclusive [both in the metric's unit].

        Raises:
            taupy.errors.MissingMetric: the trial does not have the metric.
        """
        with self._database._opened() as db:
            rows = metrics.flat_values(db, self.row.id, metric)
            return self._values(db, rows, FlatRow._fields, metric)

    def callpaths(self, metric: str = "time") -> pd.DataFrame:
        """The call paths, one row a path and thread, parents before children.

        Columns: node, context, thread, callpath_id, parent_id [missing for a root],
        depth, timer, short_name, file, line, groups, calls, subroutines, inclusive,
        exclusive [both in the metric's unit].

        Raises:
            taupy.errors.MissingMetric: the trial does not have the metric.
        """
        with self._database._opened() as db:
            rows = metrics.tree_values(db, self.row.id, metric)
            return self._values(db, rows, TreeRow._fields, metric)

    def user_events(self) -> pd.DataFrame:
        """One row an event, thread and call path.

        Columns: node, context, thread, event, unit, callpath, count, minimum, maximum,
        mean, stddev [in the event's unit].
        """
        with self._database._opened() as db:
            return _frame(query.user_events(db, self.row.id), EventRow._fields)

    def metadata(self) -> pd.DataFrame:
        """Columns: node [missing for facts of the trial as a whole], name, value."""
        with self._database._opened() as db:
            return _frame(query.trial_metadata(db, self.row.id), query.MetadataRow._fields)

    def _values(
        self, db: ProfileDB, rows: Iterable[tuple[Any, ...]], columns: Iterable[str], metric: str
    ) -> pd.DataFrame:
        frame = _frame(rows, columns)
        found = metrics.resolve(db, self.row.id, metric)
        frame.attrs.update(trial=self.row.id, metric=found.name, unit=found.unit)
        return frame


def _frame(rows: Iterable[tuple[Any, ...]], columns: Iterable[str]) -> pd.DataFrame:
    import pandas as pd

    names = list(columns)
    cells = [tuple(row) for row in rows]
    series = {place: _series([row[place] for row in cells]) for place in range(len(names))}
    frame = pd.DataFrame(series)
    frame.columns = pd.Index(names)
    return frame


def _series(values: list[Any]) -> pd.Series[Any]:
    """Whole numbers with gaps are `Int64`: ids must not pass through floats."""
    import pandas as pd

    kinds = set(map(type, values))
    if kinds == {int, type(None)}:
        return pd.Series(values, dtype="Int64")
    return pd.Series(values, dtype=object).infer_objects()
