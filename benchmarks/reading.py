"""What reading commands cost in several versions of taupy.

    python benchmarks/reading.py NEW/bin/taupy OLD/bin/taupy
    python benchmarks/reading.py --paths 100000 NEW/bin/taupy OLD/bin/taupy

Each argument is the `taupy` of an installation. The same two files of collapsed stacks are
imported into a database of each; then the commands run in turns. The table shows the median CPU
time of the whole process, in milliseconds, and that of an interpreter that does nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tools

SMALL = {
    "trials": ["trials"],
    "pprof": ["pprof"],
    "pprof --tree": ["pprof", "--tree"],
    "compare": ["compare", "1", "2", "--metric", "samples"],
    "pivot": ["pivot", "--cell", "samples"],
    "--help": ["--help"],
}
LARGE = {
    "pprof": ["pprof", "--limit", "25"],
    "compare by routine": ["compare", "1", "2", "--metric", "samples"],
    "compare by callpath": ["compare", "1", "2", "--metric", "samples", "--by", "callpath"],
}


def stacks(path: Path, count: int, step: int) -> None:
    """Write `count` call paths, in which 1,000 routines call others; `step` varies the times."""
    with path.open("w") as file:
        for number in range(count):
            outer, inner = divmod(number, 1_000)
            file.write(f"main;outer{outer % 1_000};inner{inner} {1 + (number * step) % 997}\n")


def cpu_ms(command: list[str], folder: Path) -> float:
    """CPU time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        command, cwd=folder, env=tools.environment(folder), capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {process.stderr}")
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def in_turns(
    taupies: list[str], commands: dict[str, list[str]], folder: Path, size: int, rounds: int
) -> None:
    databases = [str(folder / f"{size}-{number}.db") for number in range(len(taupies))]
    for step in (7, 11):
        file = folder / f"{size}-{step}.folded"
        stacks(file, size, step)
        for taupy, database in zip(taupies, databases, strict=True):
            cpu_ms([taupy, "import", str(file), "--db", database], folder)
    for name, arguments in commands.items():
        times: list[list[float]] = [[] for _ in taupies]
        for again in range(rounds + 1):
            for at, (taupy, database) in enumerate(zip(taupies, databases, strict=True)):
                more = [] if name == "--help" else ["--db", database]
                took = cpu_ms([taupy, *arguments, *more], folder)
                if again:  # the first round warms up
                    times[at].append(took)
        medians = " | ".join(f"{statistics.median(of_one):.0f}" for of_one in times)
        print(f"| {size:,} | {name} | {medians} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reading commands of several versions, in turns.")
    parser.add_argument("taupy", nargs="+", help="the command of an installation")
    parser.add_argument("--paths", type=int, default=1_000_000, help="call paths of large trials")
    parser.add_argument("--rounds", type=int, default=21, help="for small trials; large ones: 3")
    arguments = parser.parse_args()
    taupies = [os.path.abspath(path) for path in arguments.taupy]
    print(f"{tools.machine()}; load {os.getloadavg()[0]:.1f}\n")
    print(f"| call paths | ms of CPU | {' | '.join(arguments.taupy)} |")
    print(f"| ---: | --- |{' ---: |' * len(taupies)}")
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        times = [cpu_ms([sys.executable, "-c", ""], folder) for _ in range(arguments.rounds)]
        print(f"| | an interpreter, nothing else | {statistics.median(times):.0f} |")
        in_turns(taupies, SMALL, folder, 100, arguments.rounds)
        in_turns(taupies, LARGE, folder, arguments.paths, 3)


if __name__ == "__main__":
    main()
