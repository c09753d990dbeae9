"""How a team's store scales: simultaneous pushes, and questions about more and more trials.

    python benchmarks/team_store_growth.py postgresql://me@host/empty --trials 100 1000 3000

The store is created in that database and in a temporary folder. Trials have few call paths, so that
the cost of a trial is measured, not that of its rows. Figures are elapsed times, medians of rounds.
There are no goals.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.model.question import Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.store.catalogue import Store
from taupy.store.compact import compact
from taupy.store.create import create
from taupy.store.push import push
from tests.builders import random_profile

UUID = "01900000-0000-7000-8000-{:012d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1000, 3000])
    parser.add_argument("--at-once", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        create(args.address, f"{folder}/files")
        at_once(args.address, Path(folder), args.at_once)
        so_far = args.at_once
        for trials in args.trials:
            grown(args.address, Path(folder), so_far, trials)
            so_far = max(trials, so_far)


def at_once(address: str, place: Path, count: int) -> None:
    """Push each trial from its own process, all at once."""
    for number in range(1, count + 1):
        add(place / f"{number}.db", [number])
    command = [sys.executable, "-m", "taupy", "push", "--to", address, "--db"]
    began = time.perf_counter()
    pushing = [
        subprocess.Popen([*command, str(place / f"{number}.db")], stderr=subprocess.DEVNULL)
        for number in range(1, count + 1)
    ]
    failed = sum(process.wait() != 0 for process in pushing)
    seconds = time.perf_counter() - began
    with Store.open(address) as store:
        (stored,) = store.catalogue.row("SELECT count(*) FROM trial")
    print(f"{count} pushes at once: {seconds:.1f} s, {failed} failed, {stored} trials stored")


def grown(address: str, place: Path, before: int, after: int) -> None:
    """Push more trials from one process, then ask questions about all."""
    database = place / f"to {after}.db"
    add(database, range(before + 1, after + 1))
    began = time.perf_counter()
    for _ in push(str(database), address):
        pass
    rate = (after - before) / (time.perf_counter() - began)
    print(f"{after} trials: {rate:.1f} pushed a second")
    ask(address, "many files")
    with Store.open(address) as store:
        for _ in compact(store):
            pass
    ask(address, "joined files")


def ask(address: str, what: str) -> None:
    with opened(address) as db:
        trials = tuple(trial.id for trial in db.trials())
        flat, paths = Question(trials, by=("trial",)), Question(trials, by=("callpath",))
        print(
            f"  {what}: sums by trial {median(lambda: values(db, flat)):.0f} ms, "
            f"sums by call path {median(lambda: values(db, paths)):.0f} ms, "
            f"opened {median(lambda: opened(address).close()):.0f} ms"
        )


def median(way: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        way()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:]) * 1e3


def add(path: Path, numbers: range | list[int]) -> None:
    with ProfileDB.open(path, create=True) as db:
        for number in numbers:
            profile = random_profile(Random(number), 1)
            profile.uuid = UUID.format(number)
            add_profile(db, profile)


if __name__ == "__main__":
    main()
