"""Whether measuring distorts the result: two routines that take equally long natively.

    python benchmarks/bias.py

`calling` makes many tiny calls, `counting` makes none. A profiler that charges its own cost to the
program reports `calling` as slower. The table shows the ratio of their inclusive times: natively,
as stored by `taupy run --compensate` (metrics `time` and `time_compensated`), and as reported by
cProfile. Each figure is the median of interleaved rounds, divided by the native ratio, which
differs from 1 only by noise. Profilers read wall-clock time, so a run that shared its CPU with
other processes is repeated.
"""

from __future__ import annotations

import argparse
import pstats
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tools

CALLS = 20_000
ACTIVATIONS = 150
DISTURBED = 1.02
"""Ratio of wall time to CPU time above which a run is repeated."""
TRIES = 8


def tiny(value: int) -> int:
    return value + 1


def calling() -> int:
    value = 0
    for _ in range(CALLS):
        value = tiny(value)
    return value


def counting(steps: int) -> int:
    value = 0
    for step in range(steps):
        value += step & 7
    return value


def seconds(steps: int, activations: int = ACTIVATIONS) -> tuple[float, float]:
    """(calling, counting): the fastest activation of each, taken in turns."""
    calls, counts = [], []
    for _ in range(activations):
        start = time.perf_counter()
        calling()
        middle = time.perf_counter()
        counting(steps)
        calls.append(middle - start)
        counts.append(time.perf_counter() - middle)
    return min(calls), min(counts)


def equal_steps() -> int:
    """The number of steps for which `counting` takes as long as `calling`."""
    steps = CALLS
    for _ in range(4):
        calls, counts = seconds(steps, 200)
        steps = max(1, round(steps * calls / counts))
    return steps


# ------------------------------------------------------------------ one run under each


def run(command: list[str], folder: Path) -> tuple[list[float], float]:
    """What the program printed: (times, wall time over CPU time)."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=tools.environment(folder)
    )
    *times, disturbed = map(float, done.stdout.split())
    return times, disturbed


def native(program: list[str], folder: Path) -> tuple[dict[str, float], float]:
    (calls, counts), disturbed = run([sys.executable, *program], folder)
    return {"native": calls / counts}, disturbed


def taupy(program: list[str], folder: Path) -> tuple[dict[str, float], float]:
    _, disturbed = run([*tools.taupy_run(folder, "--compensate"), *program], folder)
    database = sqlite3.connect(folder / "taupy.db")
    rows = database.execute(
        """SELECT metric, timer, inclusive FROM pprof
            WHERE trial_id = (SELECT max(id) FROM trial)
              AND (timer GLOB 'calling *' OR timer GLOB 'counting *')"""
    ).fetchall()
    database.close()
    times = {(metric, timer.split()[0]): inclusive for metric, timer, inclusive in rows}
    ratios = {
        f"taupy, {metric}": times[metric, "calling"] / times[metric, "counting"]
        for metric in ("time", "time_compensated")
    }
    return ratios, disturbed


def cprofile(program: list[str], folder: Path) -> tuple[dict[str, float], float]:
    output = str(folder / "cprofile")
    _, disturbed = run([sys.executable, "-m", "cProfile", "-o", output, *program], folder)
    stats = pstats.Stats(output).stats  # type: ignore[attr-defined]
    times = {name: row[3] for (_, _, name), row in stats.items() if name in ("calling", "counting")}
    return {"cProfile": times["calling"] / times["counting"]}, disturbed


def main() -> None:
    parser = argparse.ArgumentParser(description="Does measuring distort what it measures?")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--run", type=int, metavar="STEPS", help="be the measured program")
    arguments = parser.parse_args()
    if arguments.run:
        wall, cpu = time.perf_counter(), time.process_time()
        times = seconds(arguments.run)
        print(*times, (time.perf_counter() - wall) / (time.process_time() - cpu))
        return
    print(f"{tools.machine()}; {arguments.rounds} rounds\n")
    program = [__file__, "--run", str(equal_steps())]
    results: dict[str, list[float]] = {}
    still_disturbed = 0
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        for _ in range(arguments.rounds):
            for tool in (native, taupy, cprofile):
                tries = []
                while len(tries) < TRIES and (not tries or tries[-1][1] > DISTURBED):
                    tries.append(tool(program, Path(name)))
                ratios, disturbed = min(tries, key=lambda attempt: attempt[1])
                still_disturbed += disturbed > DISTURBED
                for key, ratio in ratios.items():
                    results.setdefault(key, []).append(ratio)
    true = statistics.median(results["native"])
    goals = {"native": "1", "taupy, time_compensated": "0.90 to 1.10"}
    print("| measured by | calling / counting | lowest, highest | goal |")
    print("| --- | ---: | ---: | ---: |")
    for key, measured_ratios in results.items():
        middle, low, high = (f(measured_ratios) / true for f in (statistics.median, min, max))
        print(f"| {key} | {middle:.2f} | {low:.2f}, {high:.2f} | {goals.get(key, '')} |")
    if still_disturbed:
        print(f"\n{still_disturbed} of {3 * arguments.rounds} runs had to share their CPU.")


if __name__ == "__main__":
    main()
