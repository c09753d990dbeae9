"""What a team's store costs, compared with a file and with bare DuckDB on its Parquet files.

    python benchmarks/team_store.py postgresql://me@host/empty --paths 100000 --trials 20

The store is created in that database (in the schema `taupy`, which must not exist yet) and in a
temporary folder. Each line is the median elapsed time of interleaved rounds (shortest and longest
in brackets), and its ratio to bare DuckDB, which returns plain rows. There are no goals.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.model.question import Condition, Question
from taupy.model.table import Table
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.store.create import create
from taupy.store.pull import pull
from taupy.store.push import push
from tests.builders import wide_profile

TOP = "SELECT callpath_id, exclusive FROM {files} ORDER BY exclusive DESC LIMIT {most}"
ALL = "SELECT callpath_id, exclusive FROM {files}"
ONE = "SELECT trial, exclusive FROM {files} WHERE callpath_id = {path}"
SUM = "SELECT sum(exclusive) FROM {files}"
BY_PATH = "SELECT callpath_id, sum(exclusive) FROM {files} GROUP BY callpath_id"
UUID = "01900000-0000-7000-8000-{:012d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--paths", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), args)


def measure(place: Path, args: argparse.Namespace) -> None:
    database, files = str(place / "taupy.db"), place / "files"
    with ProfileDB.open(database, create=True) as db:
        for number in range(1, args.trials + 1):
            profile = wide_profile(args.paths, seed=number)
            profile.uuid = UUID.format(number)
            add_profile(db, profile)
    create(args.address, str(files))
    began = time.perf_counter()
    for _ in push(database, args.address):
        pass
    seconds = time.perf_counter() - began
    rows = args.paths * args.trials
    size = sum(file.stat().st_size for file in files.rglob("*.parquet"))
    print(
        f"push: {args.trials / seconds:.2f} trials/s, {size / rows:.1f} bytes a call path in files"
    )
    began = time.perf_counter()
    pull(args.address, str(place / "pulled.db"), ["*"])
    print(f"pull: {args.trials / (time.perf_counter() - began):.2f} trials/s")
    ask_all(database, args, f"{files}/app=*/month=*", opened(args.address))


def ask_all(database: str, args: argparse.Namespace, folder: str, store: ProfileDB) -> None:
    """Ask bare DuckDB, a file, and the store: open, and opened for the question."""
    every = f"'{folder}/*.interval_value.*.parquet'"
    of_one = f"'{folder}/{UUID.format(1)}.interval_value.*.parquet'"
    trials = tuple(range(1, args.trials + 1))
    ((path, _),) = duckdb.sql(TOP.format(files=of_one, most=1)).fetchall()
    questions = {
        "top 20 of a trial": (
            TOP.format(files=of_one, most=20),
            Question((1,), by=("callpath",), largest=20),
        ),
        "all call paths of a trial": (ALL.format(files=of_one), Question((1,), by=("callpath",))),
        "one call path in all trials": (
            ONE.format(files=every, path=path),
            Question(trials, by=("trial",), where=(Condition("callpath", (path,)),)),
        ),
        "sum over all trials": (SUM.format(files=every), Question(trials)),
        "sums over all trials by call path": (
            BY_PATH.format(files=every),
            Question(trials, by=("callpath",)),
        ),
    }
    with store, ProfileDB.open(database) as file:
        for title, (sql, question) in questions.items():
            report(title, args.rounds, {
                "bare DuckDB": lambda sql=sql: duckdb.sql(sql).fetchall(),
                "a file": lambda question=question: values(file, question),
                "the store": lambda question=question: values(store, question),
                "the store, opened": lambda question=question: anew(args.address, question),
            })  # fmt: skip


def anew(name: str, question: Question) -> Table:
    with opened(name) as db:
        return values(db, question)


def report(title: str, rounds: int, ways: dict[str, Callable[[], object]]) -> None:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    print(title)
    for name, median in medians.items():
        least, most = min(times[name][1:]) * 1e3, max(times[name][1:]) * 1e3
        ratio = median / medians["bare DuckDB"]
        print(f"  {name:18}{median * 1e3:9.1f} ms ({least:.1f} to {most:.1f}) {ratio:7.2f} x")


if __name__ == "__main__":
    main()
