"""Programs whose profile is large or changes all the time, beside plain ones of the same size.

    python benchmarks/extremes.py [--quick] [--only NAME]

Each extreme program has a plain twin that does the same work with as many calls, but on a few
call paths of a few routines. Shown is what measuring slows either down (CPU time over native),
and what storing takes; storing is compared with that of as many call paths in a plain order (a
binary tree of calls). The goal is that no extreme costs more than three times its twin.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import tools

GOAL = 3.0

# ------------------------------------------------------------------ the measured programs


def random_paths(size: int, extreme: bool) -> None:
    """A routine that calls one of fifty at random, ten deep: nearly all call paths differ."""
    names: dict[str, Callable[[list[int], int], None]] = {}
    for i in range(50):
        exec(f"def f{i}(path, at):\n if at < 10: routines[path[at]](path, at + 1)", names)
    routines = names["routines"] = [names[f"f{i}"] for i in range(50)]  # type: ignore[assignment]
    state = 1
    paths = []
    for number in range(size // 10):
        path = []
        for level in range(10):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            path.append((state >> 33) % 50 if extreme else (number + level) % 50)
        paths.append(path)
    with timed():
        for path in paths:
            routines[path[0]](path, 1)


def left(level: int) -> None:
    if level:
        left(level - 1)
        right(level - 1)


def right(level: int) -> None:
    if level:
        left(level - 1)
        right(level - 1)


def tree(size: int, extreme: bool) -> None:
    """Two routines that call each other both ways: a binary tree of call paths."""
    levels = size.bit_length() - 1
    with timed():
        for _ in range(1 if extreme else 1 << levels - 4):
            left(levels if extreme else 4)


def down(levels: int) -> None:
    if levels:
        down(levels - 1)


def deep(size: int, extreme: bool) -> None:
    """Recursion as deep as there are calls."""
    sys.setrecursionlimit(size + 1000)
    with timed():
        for _ in range(1 if extreme else size // 100):
            down(size if extreme else 99)


def codes(size: int, extreme: bool) -> None:
    """As many code objects as calls, all kept; the twin's are all of one name, and freed."""
    kept = []
    with timed():
        for i in range(size):
            names: dict[str, Callable[[], int]] = {}
            exec(f"def routine{i if extreme else 0}(): return 1", names)
            (routine,) = (value for name, value in names.items() if name[0] == "r")
            routine()
            if extreme:
                kept.append(routine)


def lambdas(size: int, extreme: bool) -> None:
    """A lambda that is made, called and freed; the twin's is made once."""
    once = (lambda: 1).__code__
    with timed():
        for _ in range(size):
            code = compile("lambda: 1", "<string>", "eval").co_consts[0]
            FunctionType(code if extreme else once, {})()


class timed:
    """Prints the CPU seconds of what is inside."""

    def __enter__(self) -> None:
        self.began = time.process_time()

    def __exit__(self, *unused: object) -> None:
        print(time.process_time() - self.began, flush=True)


PROGRAMS = {
    "random call paths": (random_paths, 1_000_000),
    "tree of call paths": (tree, 1 << 17),
    "deep recursion": (deep, 900_000),
    "distinct code objects": (codes, 200_000),
    "lambdas made anew": (lambdas, 100_000),
}

# ------------------------------------------------------------------ the driver's side


class Cost(NamedTuple):
    """CPU seconds of the measured part, and of storing; what was stored."""

    measured: float
    storing: float
    callpaths: int


def run(command: list[str], folder: Path) -> Cost:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=tools.environment(folder)
    )
    assert process.stdout is not None
    measured, own = map(float, process.stdout.read().split())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Cost(measured, usage.ru_utime + usage.ru_stime - own, 0)


def under_taupy(arguments: list[str], folder: Path) -> Cost:
    cost = run([*tools.taupy_run(folder), __file__, *arguments], folder)
    database = sqlite3.connect(folder / "taupy.db")
    (paths,) = database.execute(
        "SELECT count(*) FROM call WHERE trial_id = (SELECT max(id) FROM trial)"
    ).fetchone()
    database.close()
    return cost._replace(callpaths=paths)


def program(name: str, size: int, extreme: bool) -> list[str]:
    return ["--run", name, str(size), "extreme" if extreme else "plain"]


def slowdown(name: str, size: int, extreme: bool, rounds: int, folder: Path) -> tuple[float, float]:
    """(CPU time over native, native seconds): medians of rounds in turns."""
    ratios, natives = [], []
    for _ in range(rounds):
        native = run([sys.executable, __file__, *program(name, size, extreme)], folder).measured
        measured = under_taupy(program(name, size, extreme), folder).measured
        ratios.append(measured / native)
        natives.append(native)
    return statistics.median(ratios), statistics.median(natives)


def main() -> None:
    parser = argparse.ArgumentParser(description="What extreme programs cost beside plain ones.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round")
    parser.add_argument("--only", choices=list(PROGRAMS), help="one of the programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, help="be the measured program")
    arguments = parser.parse_args()
    if arguments.run:
        name, size, kind = arguments.run
        PROGRAMS[name][0](int(size), kind == "extreme")
        print(time.process_time())
        return
    print(f"{tools.machine()}\n")
    print(
        "| program | native, s | x under taupy | plain twin | ratio | call paths "
        "| stored, us a path | in plain order | ratio |"
    )
    print("| --- |" + " ---: |" * 8)
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as temporary:
        folder = Path(temporary)
        for name, (_, whole) in PROGRAMS.items():
            if arguments.only not in (None, name):
                continue
            size = whole // 10 if arguments.quick else whole
            extreme, native = slowdown(name, size, True, rounds, folder)
            twin, _ = slowdown(name, size, False, rounds, folder)
            stored = under_taupy(program(name, size, True), folder)
            plain = under_taupy(
                program("tree of call paths", 1 << stored.callpaths.bit_length() - 2, True), folder
            )
            per_path = stored.storing * 1e6 / stored.callpaths
            in_order = plain.storing * 1e6 / plain.callpaths
            print(
                f"| {name} | {native:.3f} | {extreme:.2f} | {twin:.2f} | {extreme / twin:.2f} "
                f"| {stored.callpaths:,} | {per_path:.1f} | {in_order:.1f} "
                f"| {per_path / in_order:.2f} |",
                flush=True,
            )
    print(f"\ngoal: ratios of at most {GOAL:g}")


if __name__ == "__main__":
    main()
