"""What looks at lines cost, and how far the shares of lines are from known ones.

    python benchmarks/lines.py [--pairs N]
    python benchmarks/lines.py --accuracy [--runs N] [--seconds S]

The cost: CPU time of a program with and without looks, in pairs of runs in turn, as the median
of the ratios with its interval (95 %); and what its watch took, as a part of a core. The accuracy:
shares of four lines of a program that measures them itself, and in how many rows the estimate
is within two of its standard errors.
"""

from __future__ import annotations

import argparse
import math
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import tools

CALLS = """
import resource
def f(n): return n * n
for _ in range({rounds}): sum(map(f, range(1000)))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
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
OF_WORK = """
SELECT line.line, sum(seen_ns), sum(squares) FROM line JOIN timer ON timer.id = timer_id
 WHERE timer.short_name LIKE 'work%' GROUP BY line.line"""
FACTS = "SELECT value FROM metadata WHERE name IN ('taupy.lines', 'taupy.watch') ORDER BY name"


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


def cost(root: Path, pairs: int, rounds: int) -> None:
    ratios = []
    for number in range(pairs):
        options = ["--lines", "--no-lines"]
        used = {}
        for option in options if number % 2 else reversed(options):
            (printed,), database = run(root, CALLS.format(rounds=rounds), option)
            used[option] = float(printed)
            if option == "--lines":
                facts = [text for (text,) in rows(database, FACTS)]
        ratios.append(used["--lines"] / used["--no-lines"])
        print(f"{ratios[-1]:.3f}  {used['--lines']:.2f} s; {'; '.join(facts)}", flush=True)
    ratios.sort()
    away = round(0.98 * math.sqrt(pairs))  # of order statistics around the median
    low = ratios[max(0, pairs // 2 - away)]
    high = ratios[min(pairs - 1, (pairs - 1) // 2 + away)]
    print(f"CPU time with looks: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})")


def accuracy(root: Path, runs: int, seconds: float) -> None:
    within = total = 0
    farthest = 0.0
    for _ in range(runs):
        printed, database = run(root, KNOWN.format(seconds=seconds))
        spent = [int(word) for word in printed]
        lines = {line: (seen, squares) for line, seen, squares in rows(database, OF_WORK)}
        whole = sum(seen for seen, _ in lines.values())
        all_squares = sum(squares for _, squares in lines.values())
        begin = KNOWN.split("\n").index("    sorted(data, reverse=True).index(4000)") + 1
        for at, took in enumerate(spent):
            seen, squares = lines.get(begin + 2 * at, (0, 0.0))
            share, true = seen / whole, took / sum(spent)
            error = math.sqrt((1 - share) ** 2 * squares + share**2 * (all_squares - squares))
            total += 1
            within += abs(share - true) <= 2 * error / whole
            farthest = max(farthest, abs(share - true))
            print(
                f"line {begin + 2 * at}: {share:.3f} +-{error / whole:.3f}, {true:.3f}", flush=True
            )
    print(
        f"{within} of {total} rows within two standard errors; farthest {100 * farthest:.1f} points"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20_000, help="of 1,000 calls in each run")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if args.accuracy:
            accuracy(Path(root), args.runs, args.seconds)
        else:
            cost(Path(root), args.pairs, args.rounds)


if __name__ == "__main__":
    main()
