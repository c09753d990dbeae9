"""Store and read training steps."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from taupy.errors import UsageError
from taupy.model.metric import TIME
from taupy.model.profile import UNKNOWN, Steps
from taupy.model.rows import ThreadRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.network.phases import KINDS
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import listed
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_COLUMNS = ("number", "count", "start_ns", "time_ns", "longest_ns")
_PHASES = ", ".join(f"{kind}_ns" for kind in KINDS)
STRETCH = "stretch"
"""The kind of rows that are not steps, but stretches between two collectives."""
METRICS_OF = " metrics"
"""In `step_value`, metrics of steps of a kind have a kind of their own: `training metrics`. So no
name of a logged value can be taken for a metric."""
_READ = f"""
    SELECT thread_id, kind, {", ".join(_COLUMNS)}, samples, {_PHASES}
      FROM step WHERE trial_id = ? AND kind <> '{STRETCH}' ORDER BY thread_id, kind, number
"""
_VALUES = f"""
    SELECT thread_id, kind, number, name, value
      FROM step_value WHERE trial_id = ? AND kind <> '{STRETCH}'
"""
_NAMES = f"""
    SELECT DISTINCT trial_id, name FROM step_value
     WHERE kind IN ('training{METRICS_OF}', 'validation{METRICS_OF}') AND trial_id IN ({{trials}})
     ORDER BY trial_id, name"""
_HELD = """
    SELECT thread.node, user_event.name, sample.start_ns, sample.end_ns, sample.maximum
      FROM sample
      JOIN thread ON thread.id = sample.thread_id
      JOIN user_event ON user_event.id = sample.user_event_id
     WHERE sample.trial_id = ? AND sample.maximum IS NOT NULL
       AND (user_event.name = ? OR user_event.name LIKE ?)
     ORDER BY thread.node, user_event.name, sample.start_ns
"""
_KIB = 1024
_ByNumber = dict[str, dict[int, float]]
"""Name -> number of the step -> value."""


def add_steps(connection: sqlite3.Connection, key: tuple[int, int], steps: Steps) -> None:
    """Insert one series; `key` is the trial and the thread, which must exist."""
    columns = [getattr(steps, name) for name in _COLUMNS]
    phases = [steps.phases.get(kind) or [0] * len(steps) for kind in KINDS]
    samples = [None if count == UNKNOWN else count for count in steps.samples]
    times = ([time or None for time in column] for column in phases)
    rows = zip(*columns, samples, *times, strict=True)
    marks = ", ".join("?" * (len(_COLUMNS) + 1 + len(KINDS)))
    connection.executemany(
        f"INSERT INTO step (trial_id, thread_id, kind, {', '.join(_COLUMNS)}, samples, {_PHASES})"
        f" VALUES ({key[0]}, {key[1]}, ?, {marks})",
        ((steps.kind, *row) for row in rows),
    )
    _add_values(connection, key, steps, steps.kind, steps.values)
    _add_values(connection, key, steps, steps.kind + METRICS_OF, steps.metrics)


def _add_values(
    connection: sqlite3.Connection,
    key: tuple[int, int],
    steps: Steps,
    kind: str,
    named: Mapping[str, Sequence[float]],
) -> None:
    connection.executemany(
        "INSERT INTO step_value (trial_id, thread_id, kind, number, name, value)"
        f" VALUES ({key[0]}, {key[1]}, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            (kind, number, storable(name), value)
            for name, column in named.items()
            for number, value in zip(steps.number, column, strict=True)
            if not math.isnan(value)
        ),
    )


def join_metrics(
    connection: sqlite3.Connection,
    key: tuple[int, int],
    series: Iterable[Steps],
    others: Iterable[Steps],
    metrics: Iterable[str],
) -> None:
    """Add another run's metrics to the same steps of a thread that is stored; `key` as above.

    Rows that stand for different steps in the two runs are left out.
    """
    others_of = {other.kind: other for other in others}
    for steps in series:
        other = others_of.get(steps.kind, Steps(steps.kind))
        rows = {place: row for row, place in enumerate(zip(other.number, other.count, strict=True))}
        of_rows = [rows.get(place) for place in zip(steps.number, steps.count, strict=True)]
        named = {
            name: [math.nan if row is None else column[row] for row in of_rows]
            for name in metrics
            if (column := other.metrics.get(name)) is not None
        }
        _add_values(connection, key, steps, steps.kind + METRICS_OF, named)


def read_steps(db: ProfileDB, trial: int) -> Iterator[tuple[int, Steps]]:
    """Thread id and steps of each series of a trial."""
    values: dict[tuple[int, str], _ByNumber] = {}
    for thread, kind, number, name, value in db.stream(_VALUES, (trial,)):
        values.setdefault((thread, kind), {}).setdefault(name, {})[number] = value
    rows = db.stream(_READ, (trial,))
    for key, of_key in groupby(rows, lambda row: (row[0], row[1])):
        thread, kind = key
        named = (values.get((thread, name), {}) for name in (kind, kind + METRICS_OF))
        yield thread, _series(kind, [row[2:] for row in of_key], *named)


@of_a_sound_file
def steps_of(db: ProfileDB, trial: int) -> list[tuple[ThreadRow, Steps]]:
    """Each series of a trial with its thread: training before validation, the longest first.

    The values of a step include the largest observed memory of its process [bytes], as
    `RESIDENT` and `CUDA_ALLOCATED`, the latter summed over all GPUs.
    """
    threads = threads_by_id(db, trial)
    series = [(threads[id], steps) for id, steps in read_steps(db, trial)]
    for node, name, seen in _held(db, trial) if series else ():
        for thread, steps in series:
            if thread.node == node:
                before = steps.values.get(name) or [0.0] * len(steps)
                pairs = zip(before, _largest(steps, seen), strict=True)
                steps.values[name] = array("d", map(sum, pairs))
    return sorted(series, key=lambda pair: (pair[1].kind, -sum(pair[1].time_ns)))


def _held(db: ProfileDB, trial: int) -> Iterator[tuple[int, str, list[tuple[int, int, float]]]]:
    """The observed memory of each process, by kind and GPU: (start [ns], end [ns], bytes)."""
    rows = db.rows(_HELD, (trial, RESIDENT, f"{CUDA_ALLOCATED}%"))
    for (node, event), seen in groupby(rows, lambda row: row[:2]):
        name = RESIDENT if event == RESIDENT else CUDA_ALLOCATED
        yield node, name, [(start, end, most * _KIB) for _, _, start, end, most in seen]


def _largest(steps: Steps, seen: list[tuple[int, int, float]]) -> Iterator[float]:
    """The largest amount during each step; NaN if none was observed."""
    ends = [end for _, end, _ in seen]
    for begin, time in zip(steps.start_ns, steps.time_ns, strict=True):
        most, at = math.nan, bisect_right(ends, begin)
        while at < len(seen) and seen[at][0] < begin + time:
            most, at = max(seen[at][2], most), at + 1
        yield most


def metrics_of_steps(db: ProfileDB, trials: Sequence[int]) -> dict[int, list[str]]:
    """The metrics, besides the time, that are known of some step of each trial."""
    names: dict[int, list[str]] = {trial: [] for trial in trials}
    for trial, name in db.rows(_NAMES.replace("{trials}", listed(trials))):
        names[trial].append(name)
    return names


def not_of_steps(metric: str, measured: Iterable[str]) -> UsageError:
    """The error for a metric that no step has; `measured`: those that some step has."""
    return UsageError(
        f"'{metric}' was not measured step by step, only {', '.join([TIME.name, *measured])}; "
        "nothing of GPUs is: `taupy run --steps A:B` records all details of some steps"
    )


def _series(kind: Any, rows: list[Any], values: _ByNumber, metrics: _ByNumber) -> Steps:
    series = Steps(kind)
    columns = [*zip(*rows, strict=True)]
    for name, column in zip(_COLUMNS, columns, strict=False):
        setattr(series, name, array("q", column))
    samples, *phases = columns[len(_COLUMNS) :]
    series.samples = array("q", (UNKNOWN if count is None else count for count in samples))
    for name, times in zip(KINDS, phases, strict=True):
        if any(times):
            series.phases[name] = array("q", (time or 0 for time in times))
    for named, held in ((values, series.values), (metrics, series.metrics)):
        for name, by_number in sorted(named.items()):
            held[name] = array("d", (by_number.get(number, math.nan) for number in series.number))
    return series
