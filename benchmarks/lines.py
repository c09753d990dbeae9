"""What looks at lines cost, and how far the shares of lines are from known ones.

    python benchmarks/lines.py [--sessions N] [--rounds N] [--only WORKLOAD ...] [--inside]
    python benchmarks/lines.py --accuracy [--pool THREADS] [--runs N] [--seconds S]

The cost: CPU time of the workloads of `workloads.py`, trainings among them, with and without looks,
by two processes in turn; of each workload and session the median of the ratios, and of these the
median with its interval (95 %). The goal is met if the interval has 1.00 and ends below 1.02;
otherwise it is undecided. Also what the watch took, as a part of a core, and the share of torn
looks. With --inside, looks are those of a thread in the program, whose CPU time is part of the
program's. The accuracy:
shares of four lines of a program that measures them itself, and in how many rows the estimate
is within two of its standard errors. With --pool, so many threads do the same, first in step, at a
barrier, then having only begun together.
"""

from __future__ import annotations

import argparse
import math
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import tools
import workloads

import taupy

KNOWN = """
import sys, time
data = list(range(5000))
spent = dict.fromkeys(range(4), 0)
def work():
    now = time.perf_counter_ns
    a = now()
    sorted(data, reverse=True).index(4000)
    b = now()
    [value for value in data if value % 7 == 0].reverse()
    c = now()
    sum(data); max(data)
    d = now()
    str(data)
    e = now()
    for at, took in enumerate((b - a, c - b, d - c, e - d)):
        spent[at] += took
end = time.perf_counter() + {seconds}
while time.perf_counter() < end:
    work()
print(*spent.values())
"""
POOL = """
import hashlib, sys, threading, time
spent = [0] * 4
barrier = threading.Barrier({threads})
rounds = int({seconds} / 0.02)
def work():
    now = time.perf_counter_ns
    for _ in range(rounds):
        a = now()
        time.sleep(0.004)
        b = now()
        hashlib.pbkdf2_hmac("sha256", b"known", b"shares", 400)
        c = now()
        {meet}
        d = now()
        time.sleep(0.008)
        e = now()
        for at, took in enumerate((b - a, c - b, d - c, e - d)):
            spent[at] += took
threads = [threading.Thread(target=work) for _ in range({threads})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*spent)
"""
FACTS = """
SELECT value FROM metadata WHERE name IN ('taupy.lines', 'taupy.watch') AND trial_id =
 (SELECT trial_id FROM metadata WHERE name = 'taupy.lines' AND value LIKE '%look%' LIMIT 1)
 ORDER BY name"""


def run(root: Path, source: str, *options: str) -> tuple[list[str], Path]:
    """What the program prints, and its database."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "prog.py").write_text(source)
    environment = {**tools.environment(folder), "TAUPY_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "run", "-q", "--db", "t.db", *options, "prog.py"],
        cwd=folder, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split(), folder / "t.db"


def rows(database: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()


BY_WATCH, INSIDE = (
    tools.Tool("lines", f"taupy {option}", taupy_options=(option,))
    for option in ("--lines", "--lines=inside")
)
WITHOUT = tools.Tool("no-lines", "taupy --no-lines", taupy_options=("--no-lines",))


def cost(names: list[str], looking: tools.Tool, sessions: int, rounds: int) -> None:
    print(f"{tools.machine()}; {sessions} sessions, {rounds} rounds", flush=True)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(sessions):
        began = time.monotonic()
        with tools.Session([looking, WITHOUT]) as session:
            for name in names:
                taken = session.rounds(name, rounds)
                ratios[name].append(
                    statistics.median(took["lines"] / took["no-lines"] for took in taken)
                )
            for worker in session.workers:
                worker.end()
            took = time.monotonic() - began
            database = session.workers[0].folder / "taupy.db"
            facts = [text for (text,) in rows(database, FACTS)]
        print(f"session of {took:.1f} s: {'; '.join(facts)}", flush=True)
    for name, here in ratios.items():
        print(f"{name:20s} {' '.join(f'{ratio:.3f}' for ratio in here)}")
    every = sorted(ratio for here in ratios.values() for ratio in here)
    number = len(every)
    away = round(0.98 * math.sqrt(number))  # of order statistics around the median
    low = every[max(0, number // 2 - away)]
    high = every[min(number - 1, (number - 1) // 2 + away)]
    verdict = "met" if low <= 1 <= high < 1.02 else "undecided"
    print(
        f"CPU time with looks: {statistics.median(every):.4f} ({low:.4f} to {high:.4f}): {verdict}"
    )


def accuracy(root: Path, runs: int, program: str) -> None:
    within = total = 0
    farthest = 0.0
    for _ in range(runs):
        printed, database = run(root, program)
        spent = [int(word) for word in printed]
        begin = next(at for at, line in enumerate(program.split("\n")) if "a = now()" in line) + 2
        frame = taupy.open(database).trial(1).lines()
        frame = frame[frame["routine"].str.startswith("work")]
        whole = frame["time_ns"].sum()
        for line, time_ns, error_ns in zip(
            frame["line"], frame["time_ns"], frame["error_ns"], strict=True
        ):
            at, odd = divmod(line - begin, 2)
            if odd or not 0 <= at < len(spent):
                continue  # what measures
            true = spent[at] / sum(spent)
            share, error = time_ns / whole, error_ns / whole
            total += 1
            within += abs(share - true) <= 2 * error
            farthest = max(farthest, abs(share - true))
            print(f"line {line}: {share:.3f} +-{error:.3f}, {true:.3f}", flush=True)
    print(
        f"{within} of {total} rows within two standard errors; farthest {100 * farthest:.1f} points"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="of each workload in a session")
    names = [workload.name for workload in workloads.ALL]
    parser.add_argument("--only", nargs="+", choices=names, help="default: all that can be run")
    parser.add_argument("--inside", action="store_true", help="by a thread in the program")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--pool", type=int, help="accuracy in a pool of so many threads")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    if not args.accuracy:
        here = [workload.name for workload in workloads.available()]
        looking = INSIDE if args.inside else BY_WATCH
        cost(args.only or here, looking, args.sessions, args.rounds)
        return
    with tempfile.TemporaryDirectory() as root:
        if not args.pool:
            accuracy(Path(root), args.runs, KNOWN.format(seconds=args.seconds))
            return
        for meet in ("barrier.wait()", "sum(range(20))"):
            print(f"{args.pool} threads, {meet}")
            facts = {"threads": args.pool, "seconds": args.seconds, "meet": meet}
            accuracy(Path(root), args.runs, POOL.format(**facts))


if __name__ == "__main__":
    main()
