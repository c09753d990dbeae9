"""How long comparisons and pivots take, compared with bare SQLite, DuckDB and pandas.

    python benchmarks/compare.py                5 million values
    python benchmarks/compare.py --trials 10    fewer
    python benchmarks/compare.py --gate         false alarms in 1,000 A/A comparisons, and power

The data are 50 trials x 10 threads x 2,000 call paths x 5 metrics. The same questions are asked in
turns: of taupy's database, through the functions that the commands call (including names, calls and
matching); of one bare SQLite table in the best layout for them; and of DuckDB and pandas if they
are installed. There are no goals.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.comparison import comparison
from taupy.comparison.comparison import ComparisonOptions
from taupy.comparison.sides import sides
from taupy.model.profile import CallTree, Metric, Profile, Thread, ThreadProfile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.study import pivot
from taupy.study.pivot import Layout
from tests.builders import wide_profile

METRICS = ("time", "inst_executed", "cycles", "bytes_dram", "gld")
TOP = 25

BARE = """
    CREATE TABLE value (
        trial INTEGER, metric INTEGER, path INTEGER, thread INTEGER,
        inclusive INTEGER, exclusive INTEGER, calls INTEGER,
        PRIMARY KEY (trial, metric, path, thread)
    ) WITHOUT ROWID"""
PATHS = "CREATE TABLE path (id INTEGER PRIMARY KEY, timer INTEGER, name TEXT)"

DIFF = """
    SELECT path.name, a.value, b.value, b.value - a.value, a.calls, b.calls
      FROM (SELECT path, sum(exclusive) AS value, sum(calls) AS calls FROM value
             WHERE trial = 1 AND metric = 1 GROUP BY path) AS a
      JOIN (SELECT path, sum(exclusive) AS value, sum(calls) AS calls FROM value
             WHERE trial = 2 AND metric = 1 GROUP BY path) AS b ON b.path = a.path
      JOIN path ON path.id = a.path
     ORDER BY abs(b.value - a.value) DESC LIMIT 25"""
ROUTINES = """
    SELECT a.timer, a.value, b.value, b.value - a.value, a.calls, b.calls
      FROM (SELECT timer, sum(exclusive) AS value, sum(calls) AS calls
              FROM value JOIN path ON path.id = value.path
             WHERE trial = 1 AND metric = 1 GROUP BY timer) AS a
      JOIN (SELECT timer, sum(exclusive) AS value, sum(calls) AS calls
              FROM value JOIN path ON path.id = value.path
             WHERE trial = 2 AND metric = 1 GROUP BY timer) AS b ON b.timer = a.timer
     ORDER BY abs(b.value - a.value) DESC LIMIT 25"""
TOTALS = "SELECT trial, sum(exclusive) FROM value WHERE metric = 1 GROUP BY trial"
PIVOT = """
    SELECT timer, trial, sum(exclusive) FROM value JOIN path ON path.id = value.path
     WHERE metric = 1 GROUP BY timer, trial"""


# --- the data --------------------------------------------------------------------


def profile(number: int, threads: int, paths: int) -> Profile:
    """A wide tree on every thread, with all metrics derived from the same values."""
    trial = wide_profile(paths, timers=400, number=1)
    tree = trial.threads[0].tree
    measured = []
    for thread in range(threads):
        columns = {
            name: array("q", [value * (at + 2) + thread for value in tree.exclusive["time"]])
            for at, name in enumerate(METRICS)
        }
        inclusive = {}
        for name, column in columns.items():
            sums = column[:]
            for row in range(paths - 1, 0, -1):
                sums[tree.parent[row]] += sums[row]
            inclusive[name] = sums
        own_tree = CallTree(
            tree.timer, tree.parent, tree.calls, tree.subroutines, inclusive, columns
        )
        measured.append(ThreadProfile(Thread(0, 0, thread), own_tree))
    trial.uuid = f"01900000-0000-7000-8000-{number:012d}"
    trial.threads = measured
    trial.metrics = [Metric(name, "ns" if name == "time" else "count") for name in METRICS]
    trial.application = f"app{number % 5}"
    trial.metadata = {"GPU Name": f"GPU {number % 3}"}
    return trial


def build(path: Path, trials: int, threads: int, paths: int) -> None:
    with ProfileDB.open(path, create=True) as db:
        for number in range(1, trials + 1):
            trial = profile(number, threads, paths)
            for thread in trial.threads:  # every trial a little different
                for column in thread.tree.exclusive.values():
                    for row in range(number, paths, 97):
                        column[row] += column[row] * number // 50
            add_profile(db, trial)


def copy_bare(source: Path, target: Path) -> None:
    """The same values in the bare layout, rows in the order of its key."""
    with sqlite3.connect(target) as connection:
        connection.execute(BARE)
        connection.execute(PATHS)
        connection.execute("ATTACH ? AS taupy", (str(source),))
        connection.execute(
            "INSERT INTO value SELECT v.trial_id, m.rank, v.callpath_id, v.thread_id,"
            " v.inclusive, v.exclusive, c.calls FROM taupy.interval_value AS v"
            " JOIN (SELECT id, row_number() OVER (ORDER BY name <> 'time', name) AS rank"
            "         FROM taupy.metric) AS m ON m.id = v.metric_id"
            " JOIN taupy.call AS c ON c.trial_id = v.trial_id AND c.callpath_id = v.callpath_id"
            "  AND c.thread_id = v.thread_id ORDER BY 1, 2, 3, 4"
        )
        connection.execute(
            "INSERT INTO path SELECT p.id, p.timer_id, t.name FROM taupy.callpath AS p"
            " JOIN taupy.timer AS t ON t.id = p.timer_id"
        )


# --- taupy's answers ---------------------------------------------------------------


def shown(db: ProfileDB, **question: Any) -> list[tuple[str, ...]]:
    """The first rows of the command's table, with names, values and calls."""
    (answer,) = comparison.answers(db, sides(db, ["1", "2"]), ComparisonOptions(**question))
    rows = []
    for row in answer.comparison.rows[:TOP]:
        name = answer.keys[row.key].timer
        rows.append((name, *row.values, row.difference(1), *answer.calls[row.key]))
    return rows


def table(db: ProfileDB, *rows: str, columns: str = "gpu") -> int:
    result = pivot.pivot_table(db, [], Layout(rows=rows, columns=(columns,)))
    return len(result.table.cells)


# --- measuring ---------------------------------------------------------------------


def measured(questions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median CPU time of each question, in seconds.

    Questions take turns, and each is asked four times in a row, the first time to warm the caches.
    Garbage collection is off, as in taupy's commands.
    """
    gc.disable()
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            for again in range(4):
                began = time.process_time()
                ask()
                if again:
                    times[name].append(time.process_time() - began)
        gc.collect()
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def compare(trials: int, threads: int, paths: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, bare = Path(folder) / "taupy.db", Path(folder) / "bare.db"
        began = time.perf_counter()
        build(source, trials, threads, paths)
        copy_bare(source, bare)
        values = trials * threads * paths * len(METRICS)
        print(
            f"{values:,} values stored in {time.perf_counter() - began:.0f} s; "
            f"taupy {source.stat().st_size / 1e6:.0f} MB, bare {bare.stat().st_size / 1e6:.0f} MB"
        )
        plain = sqlite3.connect(bare)
        frame = _frame(bare)
        duck = _duck(bare)
        with ProfileDB.open(source) as db:
            benchmarks: dict[str, tuple[Callable[[], object], str, Callable[[Any], object]]] = {
                "two trials, call paths": (
                    lambda: shown(db, by="callpath"), DIFF, _diff_of("path"),
                ),
                "two trials, routines": (lambda: shown(db), ROUTINES, _diff_of("timer")),
                "pivot: application by GPU": (
                    lambda: table(db, "application"), TOTALS,
                    lambda f: f[f.metric == 1].groupby("trial").exclusive.sum(),
                ),
                "pivot: routine by trial": (
                    lambda: table(db, "routine", columns="id"), PIVOT,
                    lambda f: f[f.metric == 1].groupby(["timer", "trial"]).exclusive.sum(),
                ),
            }  # fmt: skip
            print(f"{'ms of CPU':28}{'taupy':>9}{'bare':>9}{'ratio':>7}{'DuckDB':>9}{'pandas':>9}")
            for name, (ours, sql, in_pandas) in benchmarks.items():
                questions: dict[str, Callable[[], object]] = {
                    "taupy": ours,
                    "bare": lambda sql=sql: plain.execute(sql).fetchall(),
                }
                if duck is not None:
                    questions["DuckDB"] = lambda sql=sql: duck.execute(sql).fetchall()
                if frame is not None:
                    questions["pandas"] = lambda work=in_pandas: work(frame)
                medians = measured(questions, rounds)
                line = f"{name:28}{1e3 * medians['taupy']:9.1f}{1e3 * medians['bare']:9.1f}"
                line += f"{medians['taupy'] / medians['bare']:7.2f}"
                for other in ("DuckDB", "pandas"):
                    line += f"{1e3 * medians[other]:9.1f}" if other in medians else f"{'-':>9}"
                print(line, flush=True)
        plain.close()
        start(source, rounds)


def _diff_of(column: str) -> Callable[[Any], object]:
    def work(frame: Any) -> object:
        time_ = frame[frame.metric == 1]
        first, second = (
            time_[time_.trial == trial].groupby(column)[["exclusive", "calls"]].sum()
            for trial in (1, 2)
        )
        both = first.merge(second, left_index=True, right_index=True, suffixes=("_a", "_b"))
        return (both.exclusive_b - both.exclusive_a).abs().nlargest(TOP)

    return work


def _frame(bare: Path) -> Any:
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return None
    with sqlite3.connect(bare) as connection:
        return pandas.read_sql(
            "SELECT value.*, path.timer FROM value JOIN path ON path.id = value.path", connection
        )


def _duck(bare: Path) -> Any:
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        return None
    connection = duckdb.connect()
    with sqlite3.connect(bare) as source:
        for name, columns in (("value", 7), ("path", 3)):
            schema = source.execute(
                "SELECT sql FROM sqlite_schema WHERE name = ?", (name,)
            ).fetchone()[0]
            connection.execute(
                schema.replace("WITHOUT ROWID", "").replace("INTEGER", "BIGINT").replace(
                    ", PRIMARY KEY (trial, metric, path, thread)", ""
                ).replace("calls BIGINT,", "calls BIGINT").replace(
                    "PRIMARY KEY (trial, metric, path, thread)", ""
                )
            )  # fmt: skip
            pandas = importlib.import_module("pandas")
            rows = pandas.read_sql(f"SELECT * FROM {name}", source)
            connection.register("rows", rows)
            connection.execute(f"INSERT INTO {name} SELECT * FROM rows")
            connection.unregister("rows")
            assert len(rows.columns) == columns
    return connection


def start(database: Path, rounds: int) -> None:
    """The time of a command in a shell, minus the interpreter's start."""
    bare = _command([sys.executable, "-c", "pass"], rounds)
    for arguments in (["trials", "1"], ["compare", "1", "2"], ["pivot"]):
        command = [sys.executable, "-m", "taupy", *arguments, "--db", str(database)]
        taken = _command(command, rounds)
        print(f"taupy {arguments[0]:22}{1e3 * (taken - bare):9.0f} ms beyond the interpreter's own")


def _command(arguments: list[str], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return min(times)


# --- the gate ----------------------------------------------------------------------


def gate(comparisons: int) -> None:
    """False alarms if nothing changed, and power if one routine did."""
    numpy = importlib.import_module("numpy")
    from taupy.study.conditions import RowRuns, judged, parse

    random = numpy.random.default_rng(2017)
    condition = parse("time > +5%")

    def noisy(routines: int, kind: str) -> Any:
        """Times with noise per run, which affects all routines alike, and noise per routine."""
        times = numpy.exp(random.normal(0, 0.02, (routines, 10)))
        if kind == "two speeds":  # like a CPU that sometimes boosts
            times *= numpy.where(random.random((routines, 10)) < 0.3, 1.1, 1.0)
        if kind == "hiccups":  # now and then a run takes much longer
            times *= 1 + numpy.abs(random.standard_cauchy((routines, 10))) * 0.005
        return 1e6 * times * numpy.exp(random.normal(0, 0.02, (1, 10)))

    def alarms(times: Any) -> set[str]:
        rows = [RowRuns(f"r{at}", tuple(row[:5]), tuple(row[5:])) for at, row in enumerate(times)]
        return {row.name for row in judged(condition, rows, "ns") if row.verdict == "fails"}

    print(f"condition 'time > +5%', 5 runs per side, {comparisons:,} comparisons per line")
    print(f"{'noise':12}{'routines':>9}{'false alarms':>14}" + "".join(
        f"{f'found +{percent} %':>14}" for percent in (10, 15, 20, 30)))  # fmt: skip
    for kind in ("plain", "two speeds", "hiccups"):
        for routines in (20, 100):
            false = sum(bool(alarms(noisy(routines, kind))) for _ in range(comparisons))
            line = f"{kind:12}{routines:9}{100 * false / comparisons:12.1f} %"
            for percent in (10, 15, 20, 30):
                detected, tries = 0, comparisons // 5
                for _ in range(tries):
                    times = noisy(routines, kind)
                    times[0, 5:] *= 1 + percent / 100
                    detected += "r0" in alarms(times)
                line += f"{100 * detected / tries:12.1f} %"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--paths", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gate", action="store_true", help="false alarms and power instead")
    parser.add_argument("--comparisons", type=int, default=1000)
    args = parser.parse_args()
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, SQLite {sqlite3.sqlite_version}"
    )
    if args.gate:
        gate(args.comparisons)
        return
    compare(args.trials, args.threads, args.paths, args.rounds)


if __name__ == "__main__":
    main()
