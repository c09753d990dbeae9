"""What reading commands cost in several versions of taupy.

    python benchmarks/reading.py NEW/bin/taupy OLD/bin/taupy
    python benchmarks/reading.py --paths 100000 NEW/bin/taupy OLD/bin/taupy
    python benchmarks/reading.py --paths 20000 --rounds 3 --bound 1.5 NEW OLD

Each argument is the `taupy` of an installation, or the folder of a checkout, whose Python code this
interpreter runs. The same two files of collapsed stacks are imported into a database of each; then
the commands run in turns. The table shows the median CPU time of the whole process, in
milliseconds, and that of an interpreter that does nothing.

With --bound, a command of the first is slower if it takes longer than the second's by this factor
in every round; if it does in some, it is undecided, as on a busy machine. If one is slower, the
exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


class Taupy(NamedTuple):
    words: list[str]
    variables: dict[str, str]
    """Of the environment."""


def taupy_at(path: str) -> Taupy:
    path = os.path.abspath(path)
    if os.path.isdir(path):
        return Taupy([sys.executable, "-m", "taupy"], {"PYTHONPATH": path})
    return Taupy([path], {})


def cpu_ms(taupy: Taupy, arguments: list[str], folder: Path) -> float:
    """CPU time of a command and its children."""
    command = [*taupy.words, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        command,
        cwd=folder,
        env={**tools.environment(folder), **taupy.variables},
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {process.stderr}")
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def verdict(ratios: Sequence[float], bound: float) -> str:
    """What the ratios of all rounds say, of which a busy machine disturbs some."""
    slower = sum(ratio > bound for ratio in ratios)
    return "slower" if slower == len(ratios) else "undecided" if slower else "no slower"


def in_turns(
    taupies: list[Taupy],
    commands: dict[str, list[str]],
    folder: Path,
    size: int,
    rounds: int,
    bound: float | None,
) -> list[str]:
    """Print a row for each command; return the verdicts."""
    databases = [str(folder / f"{size}-{number}.db") for number in range(len(taupies))]
    for step in (7, 11):
        file = folder / f"{size}-{step}.folded"
        stacks(file, size, step)
        for taupy, database in zip(taupies, databases, strict=True):
            cpu_ms(taupy, ["import", str(file), "--db", database], folder)
    verdicts = []
    for name, arguments in commands.items():
        times: list[list[float]] = [[] for _ in taupies]
        for again in range(rounds + 1):
            for at, (taupy, database) in enumerate(zip(taupies, databases, strict=True)):
                more = [] if name == "--help" else ["--db", database]
                took = cpu_ms(taupy, [*arguments, *more], folder)
                if again:  # the first round warms up
                    times[at].append(took)
        cells = [f"{statistics.median(of_one):.0f}" for of_one in times]
        if bound:
            ratios = [new / old for new, old in zip(times[0], times[1], strict=True)]
            verdicts.append(verdict(ratios, bound))
            cells.append(f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}: {verdicts[-1]}")
        print(f"| {size:,} | {name} | {' | '.join(cells)} |", flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description="Reading commands of several versions, in turns.")
    parser.add_argument("taupy", nargs="+", help="the command of an installation, or a checkout")
    parser.add_argument("--paths", type=int, default=1_000_000, help="call paths of large trials")
    parser.add_argument("--rounds", type=int, default=21, help="for small trials; large ones: 3")
    parser.add_argument("--bound", type=float, help="a slower command's ratio in every round")
    arguments = parser.parse_args()
    taupies, bound, rounds = list(map(taupy_at, arguments.taupy)), arguments.bound, arguments.rounds
    if bound and len(taupies) != 2:
        parser.error("--bound compares two")
    titles = [*arguments.taupy, *(["ratios"] if bound else [])]
    print(f"{tools.machine()}\n")
    print(f"| call paths | ms of CPU | {' | '.join(titles)} |")
    print(f"| ---: | --- |{' ---: |' * len(titles)}")
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        python = Taupy([sys.executable, "-c", ""], {})
        times = [cpu_ms(python, [], folder) for _ in range(rounds)]
        print(f"| | an interpreter, nothing else | {statistics.median(times):.0f} |")
        verdicts = in_turns(taupies, SMALL, folder, 100, rounds, bound)
        verdicts += in_turns(taupies, LARGE, folder, arguments.paths, 3, bound)
    return "slower" in verdicts


if __name__ == "__main__":
    sys.exit(main())
