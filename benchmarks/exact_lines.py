"""What exact lines cost, and how they compare with line_profiler's.

    python benchmarks/exact_lines.py [--rounds N]

The cost: CPU time of two programs, a loop whose lines do little and one whose lines do some work,
under `taupy run` with exact lines and without, and under line_profiler if it is installed, in turn;
medians of the ratios to `taupy run --no-lines` of the same round, and what each line event costs.
The comparison: of a program with a recursion, a generator and calls, in which lines the counts
differ, and their times: of a recursion, line_profiler adds up those of all calls.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import tools

TIGHT = """
def work():
    total = 0
    for i in range(400_000):
        total += i
        total -= 1
    return total
"""
TYPICAL = """
def work():
    seen = {}
    texts = [f"word {i % 97}" for i in range(1000)]
    for turn in range(60):
        for text in texts:
            parts = text.split()
            key = parts[1].zfill(4)
            seen[key] = seen.get(key, 0) + len(parts)
    return sorted(seen)
"""
MIXED = """
def squares(n):
    for i in range(n):
        value = sum(range(i % 50))
        yield value

def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)

def work():
    total = 0
    for value in squares(20_000):
        total += value
    for turn in range(20):
        data = sorted(range(20_000), key=abs)
        total += len(data)
    total += fib(15)
    return total
"""
EVENTS = {"tight": (TIGHT, 3 * 400_000), "typical": (TYPICAL, 4 * 60_000)}
"""Programs, and their line events: those of the loops."""
MEASURED = """
import json, time
{functions}
begin = time.process_time_ns()
work()
print(json.dumps(time.process_time_ns() - begin))
"""
PROFILED = """
import json, time
from line_profiler import LineProfiler
{functions}
more = [globals()[name] for name in ("squares", "fib") if name in globals()]
profiler = LineProfiler(work, *more)
begin = time.process_time_ns()
profiler.enable_by_count()
work()
profiler.disable_by_count()
took = time.process_time_ns() - begin
stats = profiler.get_stats()
lines = [line for of_code in stats.timings.values() for line in of_code]
print(json.dumps([took, [[at, hits, spent * stats.unit] for at, hits, spent in lines]]))
"""
OF_LINES = """
SELECT line, sum(count), sum(inclusive_ns) / 1e9 FROM line WHERE count IS NOT NULL GROUP BY line"""
CHOSEN = ("--lines=exact", "--include", "file:*prog.py")


def run(root: Path, source: str, *options: str) -> tuple[object, Path]:
    """What the program prints, and its database; without options, without taupy."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "prog.py").write_text(source)
    taupy = ("-m", "taupy", "run", "-q", "--no-watch", "--db", "t.db", *options) if options else ()
    environment = {**tools.environment(folder), "TAUPY_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, *taupy, "prog.py"],
        cwd=folder, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout), folder / "t.db"


def cost(root: Path, rounds: int, others: bool) -> None:
    for name, (functions, events) in EVENTS.items():
        measured, profiled = (
            text.replace("{functions}", functions) for text in (MEASURED, PROFILED)
        )
        took: dict[str, list[float]] = {}
        each_ns = []
        for _ in range(rounds):
            without, _ = run(root, measured, "--no-lines")
            exact, _ = run(root, measured, *CHOSEN)
            took.setdefault("taupy --lines=exact", []).append(exact / without)
            each_ns.append((exact - without) / events)
            if others:
                (theirs, _), _ = run(root, profiled)
                took.setdefault("line_profiler", []).append(theirs / without)
        for tool, ratios in took.items():
            print(
                f"{name:8} {tool:20} {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})"
            )
        print(f"{name:8} a line event costs {statistics.median(each_ns):.0f} ns", flush=True)


def compare(root: Path) -> None:
    """Both programs have as many lines before the functions."""
    (_, lines), _ = run(root, PROFILED.replace("{functions}", MIXED))
    _, database = run(root, MEASURED.replace("{functions}", "\n" + MIXED), *CHOSEN)
    with closing(sqlite3.connect(database)) as connection:
        ours = {line: sums for line, *sums in connection.execute(OF_LINES)}
    theirs = {line: (hits, spent) for line, hits, spent in lines}
    counts = [line for line, (hits, _) in theirs.items() if ours.get(line, [0])[0] != hits]
    print(f"counts differ in lines: {counts or 'none'} of {len(theirs)}")
    for line, (hits, spent) in sorted(theirs.items()):
        _, mine = ours.get(line, (0, 0.0))
        print(f"  line {line}: {hits} times, {mine:.4f} s, line_profiler {spent:.4f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    others = find_spec("line_profiler") is not None
    print(f"{tools.machine()}; {arguments.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        cost(Path(folder), arguments.rounds, others)
        if others:
            compare(Path(folder))


if __name__ == "__main__":
    main()
