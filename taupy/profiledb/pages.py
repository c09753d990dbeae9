"""Descriptions, units and prepared queries for `taupy serve`.

Datasette shows them with the tables. Every query takes trials by number; an empty field means the
latest trial. `commands/serve.py` runs the server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from taupy.escaping import visible
from taupy.profiledb.database import ProfileDB


class Page(NamedTuple):
    """A query with its own address in Datasette."""

    title: str
    description: str
    sql: str


_LAST = "coalesce(nullif(:{}, ''), (SELECT max(id) FROM trial))"

_WHICH = f"""
   AND trial_id = {_LAST.format("trial")}
   AND metric = coalesce(nullif(:metric, ''), 'time')"""


def _listed(together: str) -> str:
    return f"""
    WITH listed AS (
        SELECT max(trial.id) AS last, count(*) AS runs
          FROM trial LEFT JOIN metadata AS together
               ON together.trial_id = trial.id AND together.node IS NULL
                  AND together.name IN ('gate', 'sweep')
         GROUP BY {together})
    SELECT trial_id, application, experiment, trial, started_at, duration_s, exit_code, state,
           nodes, threads, tags, runs,
           (SELECT group_concat(name, ', ') FROM (SELECT DISTINCT name FROM device
             WHERE device.trial_id = trials.trial_id)) AS gpus
      FROM trials JOIN listed ON last = trial_id ORDER BY trial_id DESC
"""


LATEST_TRIALS = _listed("coalesce(together.value, CAST(trial.id AS TEXT))")
"""The contents of the start page; the runs of one gate or sweep are one row."""

EVERY_TRIAL = _listed("trial.id")
"""The same with each run of a gate or sweep in its own row."""

PAGES = {
    "top_routines": Page(
        "Top routines",
        "The largest exclusive values of a trial over all threads. metric: time if empty.",
        f"""
SELECT trial_id, timer, "groups", threads, calls, exclusive_ms, inclusive_ms,
       round(100.0 * exclusive / nullif(sum(exclusive) OVER (), 0), 2) AS exclusive_percent,
       exclusive, inclusive, unit
  FROM function_summary
 WHERE true{_WHICH}
 ORDER BY exclusive DESC LIMIT 100""",
    ),
    "call_paths": Page(
        "Call paths",
        "The call paths of a trial with the largest exclusive value. metric: time if empty.",
        f"""
SELECT trial_id, node, context, thread, exclusive_ms, inclusive_ms, calls, path, exclusive, unit
  FROM callpaths
 WHERE callpath_id IN (
       SELECT value.callpath_id FROM interval_value AS value
         JOIN metric ON metric.id = value.metric_id
        WHERE value.trial_id = {_LAST.format("trial")}
          AND metric.name = coalesce(nullif(:metric, ''), 'time')
        ORDER BY value.exclusive DESC LIMIT 50){_WHICH}
 ORDER BY exclusive DESC LIMIT 50""",
    ),
    "gpu_kernels": Page(
        "GPU kernels and copies",
        "A trial's GPU work by kernel: launches, time, range of grid sizes, registers, "
        "occupancy. Times are GPU time.",
        f"""
SELECT launch.trial_id, coalesce(timer.short_name, timer.name) AS kernel,
       sum(launch.count) AS launches,
       sum(launch.time_ns) / 1e6 AS time_ms,
       round(100.0 * sum(launch.time_ns) / nullif(sum(sum(launch.time_ns)) OVER (), 0), 2)
           AS percent,
       sum(launch.time_ns) / 1e3 / nullif(sum(launch.count - launch.untimed), 0) AS mean_us,
       min(iif(launch.count > launch.untimed, launch.minimum_ns, NULL)) / 1e3 AS minimum_us,
       max(iif(launch.count > launch.untimed, launch.maximum_ns, NULL)) / 1e3 AS maximum_us,
       min(launch.grid_x * launch.grid_y * launch.grid_z) AS blocks_least,
       max(launch.grid_x * launch.grid_y * launch.grid_z) AS blocks_most,
       max(launch.block_x * launch.block_y * launch.block_z) AS threads_a_block,
       max(launch.registers) AS registers,
       round(sum(launch.occupancy * launch.time_ns)
             / nullif(sum(iif(launch.occupancy IS NULL, 0, launch.time_ns)), 0), 3) AS occupancy,
       group_concat(DISTINCT launch.limiter) AS limited_by, sum(launch.bytes) AS bytes,
       timer.name AS full_name
  FROM launch
  JOIN callpath ON callpath.id = launch.callpath_id
  JOIN timer ON timer.id = callpath.timer_id
 WHERE launch.trial_id = {_LAST.format("trial")}
 GROUP BY timer.id ORDER BY sum(launch.time_ns) DESC""",
    ),
    "compare_two_trials": Page(
        "Compare two trials",
        "Routines of trial a (before) and trial b (after), the largest difference first. b: the "
        "last trial if empty. `taupy compare` shows more, and tells changes from noise.",
        f"""
WITH a AS (SELECT timer, calls, exclusive, unit FROM function_summary
            WHERE trial_id = :a AND metric = coalesce(nullif(:metric, ''), 'time')),
     b AS (SELECT timer, calls, exclusive, unit FROM function_summary
            WHERE trial_id = {_LAST.format("b")}
              AND metric = coalesce(nullif(:metric, ''), 'time'))
SELECT names.timer, iif(ifnull(a.unit, b.unit) = 'ns', a.exclusive / 1e6, NULL) AS a_ms,
       iif(ifnull(a.unit, b.unit) = 'ns', b.exclusive / 1e6, NULL) AS b_ms,
       iif(ifnull(a.unit, b.unit) = 'ns', (b.exclusive - a.exclusive) / 1e6, NULL)
           AS difference_ms,
       round(1.0 * b.exclusive / nullif(a.exclusive, 0), 4) AS ratio,
       a.calls AS calls_a, b.calls AS calls_b, a.exclusive AS a, b.exclusive AS b,
       b.exclusive - a.exclusive AS difference, ifnull(a.unit, b.unit) AS unit,
       iif(a.timer IS NULL, 'only b', iif(b.timer IS NULL, 'only a', 'both')) AS "in"
  FROM (SELECT timer FROM a UNION SELECT timer FROM b) AS names
  LEFT JOIN a ON a.timer = names.timer
  LEFT JOIN b ON b.timer = names.timer
 ORDER BY abs(ifnull(b.exclusive, 0) - ifnull(a.exclusive, 0)) DESC LIMIT 200""",
    ),
    "sweep": Page(
        "Sweep",
        "The longest thread of every trial with metadata of this name (over), relative to the "
        "first value. `taupy sweep` shows more: medians of repeats, routines, load imbalance.",
        """
SELECT trial.id AS trial_id, application.name AS application, experiment.name AS experiment,
       trial.name AS trial, metadata.value AS parameter,
       max(thread_metric.largest_inclusive) / 1e6 AS time_ms,
       round(1.0 * first_value(max(thread_metric.largest_inclusive)) OVER (
             PARTITION BY experiment.id
             ORDER BY CAST(metadata.value AS REAL), metadata.value, trial.id)
           / nullif(max(thread_metric.largest_inclusive), 0), 3) AS speedup
  FROM metadata
  JOIN trial ON trial.id = metadata.trial_id
  JOIN experiment ON experiment.id = trial.experiment_id
  JOIN application ON application.id = experiment.application_id
  JOIN thread_metric ON thread_metric.trial_id = trial.id
  JOIN metric ON metric.id = thread_metric.metric_id AND metric.name = 'time'
  JOIN thread ON thread.id = thread_metric.thread_id AND thread.kind = 'host'
 WHERE metadata.name = :over AND metadata.node IS NULL AND trial.state = 'complete'
 GROUP BY trial.id
 ORDER BY application.name, experiment.name, CAST(metadata.value AS REAL), metadata.value,
          trial.id""",
    ),
    "routine_over_trials": Page(
        "One routine over all trials",
        "A routine in every trial that has it. routine: a part of its name.",
        """
SELECT trial.id AS trial_id, application.name AS application, experiment.name AS experiment,
       trial.name AS trial, timer.name AS timer, sum(thread.count) AS threads,
       sum(timer_call.calls) AS calls, sum(value.exclusive) / 1e6 AS exclusive_ms,
       sum(value.inclusive) / 1e6 AS inclusive_ms, trial.started_at
  FROM timer
  CROSS JOIN trial
  JOIN experiment ON experiment.id = trial.experiment_id
  JOIN application ON application.id = experiment.application_id
  JOIN metric ON metric.name = 'time'
  JOIN thread ON thread.trial_id = trial.id
  JOIN timer_value AS value
    ON value.trial_id = trial.id AND value.metric_id = metric.id
   AND value.thread_id = thread.id AND value.timer_id = timer.id
  JOIN timer_call
    ON timer_call.trial_id = trial.id AND timer_call.thread_id = thread.id
   AND timer_call.timer_id = timer.id
 WHERE timer.id IN (SELECT id FROM timer WHERE instr(name, :routine) AND :routine <> '' LIMIT 20)
 GROUP BY trial.id, timer.id ORDER BY timer.name, trial.id LIMIT 1000""",
    ),
    "load_imbalance": Page(
        "Load imbalance",
        "Routines run by several host threads, by potential gain from balancing: maximum - mean.",
        f"""
SELECT value.trial_id, timer.name AS timer, sum(thread.count) AS threads,
       1.0 * sum(value.exclusive) / sum(thread.count) / 1e6 AS mean_ms,
       min(value.exclusive / thread.count) / 1e6 AS minimum_ms,
       max(value.exclusive / thread.count) / 1e6 AS maximum_ms,
       round(100.0 * max(value.exclusive / thread.count)
             / nullif(1.0 * sum(value.exclusive) / sum(thread.count), 0) - 100, 1)
           AS imbalance_percent,
       (max(value.exclusive / thread.count)
        - 1.0 * sum(value.exclusive) / sum(thread.count)) / 1e6 AS lost_ms
  FROM timer_value AS value
  JOIN metric ON metric.id = value.metric_id AND metric.name = 'time'
  JOIN thread ON thread.id = value.thread_id AND thread.kind = 'host'
  JOIN timer ON timer.id = value.timer_id
 WHERE value.trial_id = {_LAST.format("trial")}
 GROUP BY timer.id HAVING sum(thread.count) > 1 ORDER BY lost_ms DESC LIMIT 100""",
    ),
    "user_events_of_a_trial": Page(
        "User events",
        "Values that a trial sampled: memory, losses, bytes copied.",
        f"""
SELECT trial_id, node, context, thread, event, unit, count, minimum, maximum, mean, stddev, path
  FROM user_events WHERE trial_id = {_LAST.format("trial")} LIMIT 1000""",
    ),
    "metadata_that_differ": Page(
        "What differs between two trials",
        "Metadata of trial a and trial b that are not the same. b: the last trial if empty.",
        f"""
WITH a AS (SELECT node, name, value FROM metadata WHERE trial_id = :a),
     b AS (SELECT node, name, value FROM metadata WHERE trial_id = {_LAST.format("b")})
SELECT names.node, names.name, a.value AS a, b.value AS b
  FROM (SELECT node, name FROM a UNION SELECT node, name FROM b) AS names
  LEFT JOIN a ON a.name = names.name AND a.node IS names.node
  LEFT JOIN b ON b.name = names.name AND b.node IS names.node
 WHERE a.value IS NOT b.value ORDER BY names.node, names.name""",
    ),
    "ceilings_of_processors": Page(
        "Ceilings",
        "Limits of each processor: peaks and bandwidths, measured or from datasheets.",
        """
SELECT processor, kind, name, pattern, threads, value, unit, source, reference, measured_at
  FROM ceiling ORDER BY processor, kind, name, value DESC""",
    ),
}
"""Name in the address -> page."""

TABLES = {
    "trials": "Trials: one run of a program each. Start here.",
    "pprof": "The flat profile of every thread, as TAU's pprof shows it. Ask for one trial_id.",
    "function_summary": "The flat profile with all threads together. Ask for one trial_id.",
    "callpaths": "Every call path on every thread, spelled out. Ask for one trial_id.",
    "kernels": "Kernels and copies by GPU. Ask for one trial_id.",
    "operators": "Work of GPUs by the operators that launched it. Ask for one trial_id.",
    "comparison": "Routines of two trials. Always ask for one trial_id and one other_trial_id.",
    "user_events": "Sampled values (TAU's atomic events).",
    "timeline": "User events over time: counters of GPUs that were sampled.",
    "lines": "Lines of programs: their times, estimated from looks.",
    "steps": "Steps of trainings: their times, and what was logged in them.",
    "trial_metadata": "Metadata of trials and of their nodes (processes).",
    "application": "Programs.",
    "experiment": "Series of trials that investigate one question.",
    "trial": "One run with everything measured in it.",
    "tag": "Words that users attach to trials.",
    "metadata": "Name and value.",
    "thread": "Host threads, and streams of GPUs. Printed node.context.thread.",
    "timer": "Named intervals: routines, kernels, phases. Ids are made from their content.",
    "timer_group": "Kinds of timers: PYTHON, PHASE, GPU_KERNEL ...",
    "trial_timer": "The timers of a trial, with the paths of their files.",
    "callpath": "A timer under its caller's call path. Ids are made from their content.",
    "metric": "Quantities: time in nanoseconds, counters.",
    "thread_metric": "The metrics of a thread, with the value of 100 %.",
    "call": "Calls and subroutines of each call path on each thread.",
    "interval_value": "Values of each metric for each call path on each thread.",
    "timer_call": "Calls of each timer on each thread: the sum over its call paths.",
    "timer_value": "Values of each timer on each thread: the sum over its call paths.",
    "user_event": "Names and units of user events.",
    "user_event_value": "User events by thread and call path.",
    "device": "GPUs of a trial.",
    "device_fact": "Properties of a GPU.",
    "layer": "Layers of networks: parameters, shapes, operations.",
    "module": "Code that was loaded onto GPUs.",
    "line": "Times of the program's lines, estimated from looks.",
    "source": "The program's own files: their text, deflated, if it was kept.",
    "step": "Iterations of trainings, with the time in each kind of phase.",
    "step_value": "What programs logged in steps.",
    "communicator": "Groups of processes, as each of their processes knew them.",
    "operator_input": "Calls of operators by the sizes and types of their inputs.",
    "collective": "Collectives of each process: when they were requested, began and ended.",
    "sample": "User events that were sampled, over time.",
    "launch": "Sums of a kernel or copy with one configuration under one call path.",
    "activity": "Single launches, copies, waits, API calls, layers and phases of traced trials.",
    "derived_metric": "Metrics computed from others on demand.",
    "ceiling": "Limits of a processor, measured or from datasheets.",
    "kernel_code": "Machine code of GPU kernels: registers, memory, control flow.",
    "kernel_code_count": "Instructions of a kernel's code by kind and depth of loops.",
    "kernel_code_access": "Memory accesses of a kernel's code by space, width and pattern.",
    "kernel_code_loop": "Loops of a kernel's code.",
    "kernel_code_line": "Instructions of a kernel's code by source line.",
}

COLUMNS = {
    "trial_id": "the trial's number in this file",
    "application": "the program",
    "experiment": "the series that the trial belongs to",
    "trial": "the trial's name in its experiment",
    "started_at": "UTC",
    "duration_s": "s, wall-clock",
    "duration_ns": "wall-clock",
    "exit_code": "as in a shell; negative: killed by that signal; empty: unknown",
    "state": "complete or incomplete",
    "nodes": "processes",
    "threads": "threads; of a ceiling, CPU threads, 0 for a whole GPU",
    "tags": "words that users attached to it",
    "source": "where it comes from",
    "uuid": "identity, kept when trials are moved or merged",
    "metric": "the quantity; time is in nanoseconds",
    "metric_id": "the quantity; time is in nanoseconds",
    "unit": "of the values in this row",
    "node": "process, from 0; empty for metadata of the whole trial",
    "context": "0 the host, 1 + ordinal a GPU",
    "thread": "host thread or stream, from 0",
    "percent": "inclusive, relative to the largest inclusive on the same thread",
    "exclusive": "without the timers entered from it, in the metric's unit",
    "inclusive": "from entry to exit, in the metric's unit; recursion counts once",
    "exclusive_ms": "ms; empty for metrics other than times",
    "inclusive_ms": "ms; empty for metrics other than times",
    "calls": "times it was entered",
    "subroutines": "times other timers were entered directly from it",
    "usec_per_call": "us, inclusive",
    "timer": "name with file and first line",
    "groups": "kinds of the timer, joined by |",
    "calls_mean": "over all threads that have the metric",
    "path": "of a call path: its routines, root first; of a timer: its file when measured",
    "depth": "0 for the root",
    "callpath_id": "derived from content: the same in every trial and file",
    "timer_id": "derived from content: the same in every trial and file",
    "parent_id": "the caller's call path, empty for a root",
    "event": "name of the user event",
    "count": "of samples, of launches, or of threads that were added up",
    "least_ns": "shortest time of a thread that was added up",
    "most_ns": "longest time of a thread that was added up",
    "minimum": "smallest sample",
    "maximum": "largest sample",
    "mean": "of the samples",
    "stddev": "of the samples",
    "sum_squares": "of the samples",
    "kind": "of a thread: host or stream; of a ceiling: compute, bandwidth, latency",
    "native_id": "the operating system's thread id, or the stream's number",
    "short_name": "without file and line, or template arguments",
    "file": "relative to the program, site-packages or the standard library",
    "line": "first line of the routine",
    "largest_inclusive": "100 % on this thread",
    "ordinal": "CUDA's number of the GPU in that process",
    "compute_capability": "such as 9.0",
    "position": "in reading order",
    "untimed": "launches without times",
    "registers": "for each thread",
    "occupancy": "theoretical, 0 to 1",
    "limiter": "what limits occupancy",
    "correlation": "links an API call with the work it started",
    "graph_node": "the node of a CUDA graph",
    "expression": "over names of metrics",
    "characterization": "shared by all ceilings measured together",
    "processor": "the CPU's model or the GPU's name",
    "device_uuid": "of the GPU, empty for CPUs and datasheets",
    "pattern": "how it was measured",
    "median": "of the samples",
    "spread": "of the middle half, relative to the median",
    "reference": "where the value comes from",
    "measured_at": "UTC",
    "other_trial_id": "the trial it is compared with",
    "other_exclusive": "in the other trial, in the metric's unit",
    "difference": "other - this; empty if one is missing",
    "ratio": "other / this",
    "impact": "other - this, with 0 for a missing value",
    "mean_ns": "of the launches that were timed",
    "value": "of metadata; of a ceiling, in its unit",
}
"""Descriptions of columns, in any table."""

UNITS = {
    "_ns": "ns",
    "_ms": "ms",
    "_us": "us",
    "_s": "s",
    "_bytes": "B",
    "_hz": "Hz",
}
"""Endings of columns whose unit never changes, for Datasette's `units`."""


LAST_SWEEP = """
    SELECT value FROM metadata WHERE name = 'sweep.over' ORDER BY trial_id DESC LIMIT 1
"""
"""The parameters of the last `taupy run --sweep`."""


def columns(db: ProfileDB) -> dict[str, list[str]]:
    """Table or view -> its columns."""
    names = db.rows(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    ask = "SELECT name FROM pragma_table_xinfo(?)"
    return {name: [column for (column,) in db.rows(ask, (name,))] for (name,) in names}


def metadata(database: str, title: str, columns: dict[str, list[str]]) -> dict[str, Any]:
    """Datasette's metadata for a trial database.

    Args:
        database: its name in Datasette; `title`: its name for people.
        columns: table or view -> its columns in the file.
    """
    tables: dict[str, dict[str, Any]] = {
        name: {
            "description": TABLES.get(name, ""),
            "columns": {column: COLUMNS[column] for column in own if column in COLUMNS},
            "units": {column: unit for column in own if (unit := _unit(column))},
            **({"sortable_columns": []} if name == "callpaths" else {}),
            **({"facets": ["application", "experiment", "state"]} if name == "trials" else {}),
        }
        for name, own in columns.items()
    }
    tables["sqlite_sequence"] = {"hidden": True}
    queries = {
        name: {
            "title": page.title,
            "description": page.description,
            "sql": page.sql.strip(),
            "hide_sql": True,
        }
        for name, page in PAGES.items()
    }
    return {
        "title": f"taupy: {visible(title)}",
        "description": "Profiles of Python and CUDA programs, kept as trials",
        "databases": {
            database: {
                "description": "Times are in nanoseconds unless a unit is given.",
                "tables": tables,
                "queries": queries,
            }
        },
    }


def _unit(column: str) -> str:
    if column == "bytes":
        return "B"
    return next((unit for ending, unit in UNITS.items() if column.endswith(ending)), "")
