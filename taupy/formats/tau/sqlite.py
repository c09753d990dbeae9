"""Read the database of TAU's own SQLite plugin (`tau_exec -sqlite3`, tauprofile.db).

Timers form a tree: those without a parent are routines, those with one are call paths. Each value
is a row of (timer, metric, thread), with six significant digits; calls are a separate metric. There
are no groups. Numbers of subroutines are computed from call paths; without any, they are 0.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from taupy.formats import foreign_sqlite
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.names import ARROW
from taupy.formats.tau.rows import Number, Rows
from taupy.formats.tau.text import Event
from taupy.formats.tau.thread import CONTEXT, Place
from taupy.formats.tau.tree import TauTimers
from taupy.model.profile import Metric, Profile
from taupy.model.progress import Progress

CALLS = "Number of Calls"
_TABLES = {"trial", "thread", "metric", "timer", "timer_value", "counter_value", "metadata"}
_SIX_DIGITS = 2e-5

_NOTE = "TAU's SQLite plugin keeps six significant digits, and no groups"
_NO_PATHS = "without call paths it has no numbers of subroutines: they are shown as 0"

_THREADS = """
    SELECT id, node_rank, context_rank, thread_rank FROM thread
     WHERE trial = ? ORDER BY node_rank, context_rank, thread_rank, id
"""

_VALUES = """
    SELECT timer, metric, value FROM timer_value WHERE thread = ? ORDER BY timer, metric
"""

_EVENTS = """
    SELECT counter.name, value.timer, value.sample_count, value.maximum_value,
           value.minimum_value, value.mean_value, value.sum_of_squares
      FROM counter_value AS value JOIN counter ON counter.id = value.counter
     WHERE value.thread = ?
"""


def recognises(path: Path, first_bytes: bytes) -> bool:
    return first_bytes.startswith(foreign_sqlite.MAGIC) and _is_taus(foreign_sqlite.tables(path))


def _is_taus(tables: set[str]) -> bool:
    # Our own database and TAUdb have tables with some of these names, but also others.
    return tables >= _TABLES and "timer_callpath" not in tables and "callpath" not in tables


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    """Every trial of the file, one profile for each of its nodes."""
    with foreign_sqlite.opened(source) as connection:
        if not _is_taus(set(foreign_sqlite.table_columns(connection))):
            raise refusal(source, "", "not the database of TAU's SQLite plugin")
        foreign_sqlite.check(source, connection)
        reader = _Reader(source, connection)
        (values,) = connection.execute("SELECT count(*) FROM timer_value").fetchone()
        progress.begin(source.name, values)
        for id, name, created in connection.execute("SELECT id, name, created FROM trial"):
            yield from reader.trial(id, str(name), str(created), progress)


class _Reader:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection

    def trial(self, id: Any, name: str, created: str, progress: Progress) -> Iterator[Profile]:
        paths = self._paths(id)
        metrics, meaning = self._metrics(id)
        threads = self.connection.execute(_THREADS, (id,)).fetchall()
        metadata: dict[Place, dict[str, str]] = {
            self._place(row): self._metadata(id, row[0]) for row in threads
        }
        common, nodes = tau_thread.separated(metadata)
        has_paths = any(len(names) > 1 for names in paths.values())
        common[IMPORT_NOTES] = _NOTE if has_paths else f"{_NOTE}; {_NO_PATHS}"
        for node, rows_of_node in groupby(threads, key=lambda row: int(row[1])):
            timers = TauTimers()
            profiles = []
            for row in rows_of_node:
                place = self._place(row)
                rows, events = self._thread(row[0], paths, metrics, meaning, progress)
                profiles.append(
                    tau_thread.thread_profile(place, rows, events, metadata[place], timers)
                )
            profile = tau_thread.profile(
                self.path, metrics, timers, profiles, common, {node: nodes[node]}
            )
            profile.uuid = str(id)
            if "Starting Timestamp" not in {**common, **nodes[node]}:
                profile.started_at = _instant(created) or profile.started_at
            if name and "Executable" not in {**common, **nodes[node]}:
                profile.application = Path(name).name or profile.application
            yield profile

    def _place(self, row: tuple[Any, ...]) -> Place:
        place = row[1:4]
        if not all(isinstance(number, int) and 0 <= number < 1 << 31 for number in place):
            raise refusal(self.path, f"thread {row[0]}", "its rank is not a number")
        return place[0], place[1], place[2]

    def _metadata(self, trial: Any, thread: Any) -> dict[str, str]:
        rows = self.connection.execute(
            "SELECT name, value FROM metadata WHERE trial = ? AND thread = ?", (trial, thread)
        )
        return {str(name): "" if value is None else str(value) for name, value in rows}

    def _metrics(self, trial: Any) -> tuple[list[Metric], dict[Any, tuple[str, int]]]:
        """The metrics and, for each of the file's metrics, its kind ("calls", "inclusive" or
        "exclusive") and its position among them."""
        metrics: dict[str, Metric] = {}
        meaning: dict[Any, tuple[str, int]] = {}
        for id, name in self.connection.execute(
            "SELECT id, name FROM metric WHERE trial = ? ORDER BY id", (trial,)
        ):
            kind, _, metric = str(name).partition(" ")
            if name == CALLS:
                meaning[id] = ("calls", 0)
            elif kind in ("Inclusive", "Exclusive") and metric:
                metrics.setdefault(metric, tau_names.metric(metric))
                meaning[id] = (kind.lower(), list(metrics).index(metric))
        return list(metrics.values()), meaning

    def _paths(self, trial: Any) -> dict[Any, list[str]]:
        """The routines of each timer's path, starting at its head."""
        rows = {
            id: (parent, str(name))
            for id, parent, name in self.connection.execute(
                "SELECT id, parent, name FROM timer WHERE trial = ?", (trial,)
            )
        }
        paths: dict[Any, list[str]] = {}
        for id in rows:
            names: list[str] = []
            here = id
            while here is not None and here in rows:
                if len(names) > len(rows):
                    raise refusal(self.path, f"timer {id}", "it is its own caller")
                here, name = rows[here]
                names.append(name)
            paths[id] = names[::-1]
        return paths

    def _thread(
        self,
        thread: Any,
        paths: dict[Any, list[str]],
        metrics: list[Metric],
        meaning: dict[Any, tuple[str, int]],
        progress: Progress,
    ) -> tuple[Rows, list[Event]]:
        rows = Rows(metrics)
        rows.tolerance = _SIX_DIGITS
        values = self.connection.execute(_VALUES, (thread,))
        listed: list[tuple[tuple[str, ...], int, dict[str, list[Number]]]] = []
        entered: dict[tuple[str, ...], int] = {}  # from a path, or from a routine on all paths
        for timer, of_timer in groupby(values, key=lambda row: row[0]):
            names = paths.get(timer)
            if names is None:
                raise refusal(self.path, f"timer_value of thread {thread}", f"no timer {timer}")
            calls = 0
            values_of: dict[str, list[Number]] = {
                "inclusive": [0] * len(metrics), "exclusive": [0] * len(metrics)
            }  # fmt: skip
            for _, metric, value in of_timer:
                kind, place = meaning.get(metric, ("", 0))
                if kind == "calls":
                    calls = round(self._number(value, timer))
                elif kind:
                    values_of[kind][place] = rows.value(place, float(self._number(value, timer)))
                progress.advance()
            listed.append((tuple(names), calls, values_of))
            for caller in {tuple(names[:-1]), tuple(names[-2:-1])} - {()}:
                entered[caller] = entered.get(caller, 0) + calls
        for path, calls, values_of in listed:
            for place in range(len(metrics)):
                subroutines = entered.get(path, 0)
                exclusive, inclusive = values_of["exclusive"][place], values_of["inclusive"][place]
                row = (place, calls, subroutines, exclusive, inclusive)
                if len(path) == 1:
                    rows.add_flat(path[0], "TAU_DEFAULT", row)
                else:
                    rows.add_path(path, row)
        return rows, self._events(thread, paths)

    def _events(self, thread: Any, paths: dict[Any, list[str]]) -> list[Event]:
        events = []
        for name, timer, count, *values in self.connection.execute(_EVENTS, (thread,)):
            if timer is not None and timer in paths:
                name = f"{name}{CONTEXT}{ARROW.join(paths[timer])}"
            maximum, minimum, mean, squares = (
                math.nan if value is None else float(self._number(value, name)) for value in values
            )
            number = round(self._number(count, name))
            events.append(
                Event(
                    name=str(name),
                    count=number,
                    maximum=maximum,
                    minimum=minimum,
                    mean=mean,
                    sum_squares=squares,
                )
            )
        return events

    def _number(self, value: Any, what: Any) -> Number:
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise refusal(self.path, f"values of {str(what)[:100]}", "one is not a number")
        return value


def _instant(created: str) -> float | None:
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp() if 1970 < moment.year < 9999 else None


FORMAT = Format(
    name="tau-sqlite",
    title="TAU's SQLite plugin (tauprofile.db)",
    suffixes=(),
    recognises=recognises,
    read=read,
)
