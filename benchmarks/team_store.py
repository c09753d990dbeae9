"""What a team's store costs, beside a file, and beside DuckDB alone on its Parquet files.

    python benchmarks/team_store.py postgresql://me@host/empty --paths 100000 --trials 20

The store is made in that database (in the schema `taupy`, which must not be there) and in a
temporary folder. Each line is the median time by the clock of rounds in turns, and its ratio to
the line that is marked `bare`. Nothing is judged here.
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

from taupy.model.question import Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.store.create import create
from taupy.profiledb.store.pull import pull
from taupy.profiledb.store.push import push
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import wide_profile

TOP = """
    SELECT callpath_id, exclusive FROM read_parquet('{files}')
     WHERE trial = '{trial}' ORDER BY exclusive DESC LIMIT 20
"""
FLEET = "SELECT sum(exclusive) FROM read_parquet('{files}')"
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
    pattern = f"{files}/app=*/month=*/*.interval_value.*.parquet"
    of_one = f"{files}/app=*/month=*/{UUID.format(1)}.interval_value.*.parquet"
    top_of_one = TOP.format(files=of_one, trial=UUID.format(1))
    top = Question((1,), by=("callpath",))
    fleet = Question(tuple(range(1, args.trials + 1)))
    report("top 20 of a trial", args.rounds, {
        "bare DuckDB": lambda: duckdb.sql(top_of_one).fetchall(),
        "a file": lambda: ask(database, top),
        "the store": lambda: ask(args.address, top),
    })  # fmt: skip
    report("sum over all trials", args.rounds, {
        "bare DuckDB": lambda: duckdb.sql(FLEET.format(files=pattern)).fetchall(),
        "a file": lambda: ask(database, fleet),
        "the store": lambda: ask(args.address, fleet),
    })  # fmt: skip


def ask(name: str, question: Question) -> list[float]:
    with opened(name) as db:
        return sorted(values(db, question).column("exclusive", "time"), reverse=True)[:20]


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
        print(f"  {name:12} {median * 1e3:9.1f} ms {median / medians['bare DuckDB']:7.1f} x")


if __name__ == "__main__":
    main()
