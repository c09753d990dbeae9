"""Statements over values, answered where the values are stored: DuckDB reads the files,
PostgreSQL the flat profiles.

They are used only where the result is exact: for metrics whose values are integers in all requested
trials, so that sums do not depend on the order of rows. Rows are in SQLite's order. Everything else
is left to SQLite (`reading.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from functools import cache, cached_property, partial
from secrets import token_hex
from typing import Any, NamedTuple

from taupy.errors import DatabaseError
from taupy.profiledb.reading import Reading
from taupy.store import cluster
from taupy.store.catalogue import Store
from taupy.store.files import is_joint
from taupy.store.manifest import StoredFile, checked_file
from taupy.store.needs import THREAD_BITS

Columns = list[Sequence[Any]]

_IN_FILES = {
    "call": "callpath_id, calls, subroutines, timer_id, parent_id, depth",
    "interval_value": "metric_id, callpath_id, inclusive, exclusive",
}
_CALLPATHS = "SELECT DISTINCT callpath_id AS id, timer_id, parent_id, depth FROM call"
_FLAT = {
    "timer_call": "timer_id, calls, subroutines",
    "timer_value": "metric_id, timer_id, inclusive, exclusive",
}


_FEW = 1000
"""Number of rows fetched without NumPy, whose import takes longer than most questions."""


class Engines:
    """The engines that hold a store's values.

    Args:
        scheduler: of a Dask cluster; "" for none.
    """

    def __init__(self, store: Store, scheduler: str = "") -> None:
        self._store, self._scheduler = store, scheduler
        self._open = ExitStack()
        self._files_of: dict[int, list[_File]] = {}

    def close(self) -> None:
        """Close DuckDB, which deletes its temporary files."""
        self._open.close()

    def columns(self, reading: Reading) -> Columns | None:
        """The answer, column by column; None if SQLite has to compute it."""
        trials = sorted(reading.trials)
        if not (reading.elsewhere and trials and self._are_integers(trials, reading.metrics)):
            return None
        if reading.level == "timer":
            return self._of_catalogue(reading, trials)
        if len(trials) > 1 and self._scheduler:
            address = self._store.catalogue.address
            answer = partial(_on_a_worker, self._store.folder.place)
            return cluster.columns(self._scheduler, answer, address, reading)
        return self.of_files(reading)

    def _are_integers(self, trials: Sequence[int], metrics: Sequence[int]) -> bool:
        """Whether all values of these metrics are integers; unknown if an older taupy wrote
        them."""
        reals_of = self._reals
        return all(
            (reals := reals_of.get(trial)) is not None and reals.isdisjoint(metrics)
            for trial in trials
        )

    @cached_property
    def _reals(self) -> dict[int, set[int] | None]:
        rows = self._store.catalogue.rows("SELECT id, real_metrics FROM trial")
        return {trial: None if reals is None else {*reals} for trial, reals in rows}

    def _of_catalogue(self, reading: Reading, trials: Sequence[int]) -> Columns | None:
        threads = f"(trial_id << {THREAD_BITS}) + thread_id AS thread_id"
        tables = ", ".join(
            f"{name} AS NOT MATERIALIZED (SELECT trial_id, {columns}, {threads}"
            f" FROM taupy.{name} WHERE trial_id = ANY(%s))"
            for name, columns in _FLAT.items()
        )
        sql = f"WITH {tables} {_ordered(reading)}"
        try:
            rows = self._store.catalogue.rows(sql, [trials] * len(_FLAT))
        except DatabaseError:  # a sum exceeds SQLite's integers: SQLite reports it
            return None
        return list(zip(*rows, strict=True))

    def of_files(self, reading: Reading, *, again: bool = False) -> Columns | None:
        """DuckDB's answer; None if it cannot answer."""
        duckdb = _duckdb()
        if duckdb is None:
            return None
        try:
            files = self._files(sorted(reading.trials))
        except DatabaseError:
            self._files_of.clear()
            if again:  # SQLite will report it
                return None
            return self.of_files(reading, again=True)  # the files may have been replaced
        if not all(files.values()):
            return None
        tables = [
            f"{name} AS NOT MATERIALIZED ({_table(name, mine)})" for name, mine in files.items()
        ]
        sql = f"WITH {', '.join(tables)}, callpath AS ({_CALLPATHS}) {_ordered(reading)}"
        try:
            answer = self._connection.execute(sql)
            first = answer.fetchmany(_FEW)
            rest = answer.fetchnumpy() if len(first) == _FEW else {}
        except duckdb.Error:
            if again:  # a file is lost, or from an older taupy: SQLite will report it
                return None
            self._files_of.clear()  # the files may have been replaced
            return self.of_files(reading, again=True)
        columns = [list(column) for column in zip(*first, strict=True)]
        if rest:
            for column, more in zip(columns, rest.values(), strict=True):
                column += more.tolist()
        return list(columns)

    def have_files(self, trials: Sequence[int]) -> bool:
        """Whether any of these trials has a file that DuckDB would read."""
        return any(self._files(trials).values())

    def _files(self, trials: Sequence[int]) -> dict[str, list[_File]]:
        """Table -> the files of these trials."""
        if lacking := [trial for trial in trials if trial not in self._files_of]:
            self._files_of |= {trial: [] for trial in lacking}
            folder = self._store.folder
            for trial, uuid, application, *row in self._store.catalogue.rows(
                "SELECT trial_id, uuid, application, file.name, holds, rows, bytes, sha256"
                "  FROM file JOIN trial ON trial.id = trial_id"
                " WHERE holds = ANY(%s) AND trial_id = ANY(%s) ORDER BY file.name",
                ([*_IN_FILES], lacking),
            ):
                file = checked_file(StoredFile(*row), uuid, application)
                folder.verify(file, uuid)
                path = folder.path_for_duckdb(file.name)
                joint = is_joint(file.name)
                self._files_of[trial].append(_File(file.holds, trial, uuid, path, joint))
        return {
            table: [file for trial in trials for file in self._files_of[trial] if file.of == table]
            for table in _IN_FILES
        }

    @cached_property
    def _connection(self) -> Any:
        duckdb = _duckdb()
        spill = os.path.join(tempfile.gettempdir(), f"taupy-duckdb-{token_hex(8)}")
        config = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # DuckDB creates it if needed. Its default is the current folder.
            "temp_directory": spill,
        }
        connection = duckdb.connect(config=config)
        self._open.callback(connection.close)
        self._store.folder.register(connection)
        return connection


class _File(NamedTuple):
    """A file with rows of a trial.

    Attributes:
        of: the table.
        joint: whether it also holds rows of other trials.
    """

    of: str
    trial: int
    uuid: str
    path: str
    joint: bool


def _on_a_worker(files: str, address: str, reading: Reading) -> Columns | None:
    """The answer for some trials, computed on a worker of a cluster."""
    with Store.open(address, files) as store, closing(Engines(store)) as engines:
        return engines.of_files(reading) if engines.have_files(reading.trials) else []


def _table(name: str, files: Sequence[_File]) -> str:
    """A table read from its files, with trials and threads numbered as in a database."""
    own = [file for file in files if not file.joint]
    joint = [file for file in files if file.joint]
    parts = []
    if own:
        numbers = [file.trial for file in own]
        of_file = f"{numbers}[(file_index + 1)::BIGINT]" if len({*numbers}) > 1 else f"{numbers[0]}"
        parts.append(f"{_numbered(name, of_file)} FROM {_read(file.path for file in own)}")
    if joint:
        trials = f"SELECT unnest([{_texts(file.uuid for file in joint)}]) AS uuid,"
        trials += f" unnest({[file.trial for file in joint]}) AS number"
        paths = _read(dict.fromkeys(file.path for file in joint))
        parts.append(
            f"{_numbered(name, 'number')} FROM {paths} JOIN ({trials}) AS asked ON uuid = trial"
        )
        if len(joint) == 1:  # DuckDB then reads only its row groups
            parts[-1] += f" WHERE trial = {_texts([joint[0].uuid])}"
    return " UNION ALL ".join(parts)


def _numbered(name: str, trial: str) -> str:
    return (
        f"SELECT {trial}::BIGINT AS trial_id, {_IN_FILES[name]},"
        f" ({trial}::BIGINT << {THREAD_BITS}) + thread_id AS thread_id"
    )


def _read(paths: Iterable[str]) -> str:
    return f"read_parquet([{_texts(paths)}], hive_partitioning = false)"


def _texts(values: Iterable[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def _ordered(reading: Reading) -> str:
    """The statement, with rows in SQLite's order and integers limited to SQLite's range."""
    names = [f"c{number}" for number in range(reading.columns)]
    cells = [
        name if number < reading.keys else f"CAST({name} AS BIGINT)"
        for number, name in enumerate(names)
    ]
    sql = f"SELECT {', '.join(cells)} FROM ({reading.elsewhere}) AS answer ({', '.join(names)})"
    order = ", ".join(f"{name} NULLS FIRST" for name in names[: reading.keys])
    return f"{sql} ORDER BY {order}" if order else sql


@cache
def _duckdb() -> Any:
    """The package; None if it is not installed, since SQLite can answer everything."""
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb
