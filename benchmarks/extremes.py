"""Programs with unusually large or irregular profiles, compared with plain ones of their size.

    python benchmarks/extremes.py [--quick] [--only NAME]

Each extreme program has a plain twin that does the same work with as many calls, but on a few call
paths of a few routines. The table shows by how much measuring slows each down (CPU time over
native). Storing is compared with storing a plain tree of call paths of two routines, first of the
same number of bytes in the run's files (what storing reads), then of the same number of call paths.
The goal is that no extreme costs more than three times its twin of the same size in bytes.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import shutil
import signal
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

GOAL = 3.0
TREE = "tree of call paths"

# ------------------------------------------------------------------ the measured programs


def random_paths(size: int, extreme: bool) -> None:
    """Each routine calls one of fifty at random, ten deep, so nearly all call paths differ."""
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
    """As many code objects as calls, all kept; those of the twin have one name and are freed."""
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
    """A lambda that is created, called and freed each time; that of the twin is created once."""
    once = (lambda: 1).__code__
    with timed():
        for _ in range(size):
            code = compile("lambda: 1", "<string>", "eval").co_consts[0]
            FunctionType(code if extreme else once, {})()


class timed:
    """Prints the CPU seconds that its block takes."""

    def __enter__(self) -> None:
        self.began = time.process_time()

    def __exit__(self, *unused: object) -> None:
        print(time.process_time() - self.began, flush=True)


PROGRAMS = {
    "random call paths": (random_paths, 1_000_000),
    TREE: (tree, 1 << 17),
    "deep recursion": (deep, 900_000),
    "distinct code objects": (codes, 200_000),
    "new lambdas": (lambdas, 100_000),
}

# ------------------------------------------------------------------ the driver's side


class Stored(NamedTuple):
    """CPU seconds for storing a run, the bytes in its files, and the number of call paths."""

    seconds: float
    size: int
    callpaths: int


def run(command: list[str], folder: Path, expected: int = 0) -> float:
    """CPU seconds of the measured part of the program."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=tools.environment(folder))
    if done.returncode != expected:
        raise SystemExit(f"{command} ended with {done.returncode}")
    return float(done.stdout.split()[0])


def storing(name: str, size: int, rounds: int, folder: Path) -> Stored:
    """Kill a program at its end, so that its run is left, and store that several times."""
    arguments = [*program(name, size, True), "--leave"]
    run([*tools.taupy_run(folder, "--no-watch"), __file__, *arguments], folder, -signal.SIGKILL)
    state = Path(tools.environment(folder)["TAUPY_STATE_DIR"])
    (left,) = state.glob("run-*")
    costs = []
    for _ in range(rounds):
        store = [sys.executable, __file__, "--store", str(left)]
        answer = subprocess.run(store, check=True, capture_output=True, text=True).stdout
        costs.append(Stored(*json.loads(answer)))
    shutil.rmtree(left)
    return sorted(costs)[len(costs) // 2]


def store(left: Path) -> Stored:
    """Store an interrupted run in a new database, as the storer does."""
    import numpy  # noqa: F401 - importing it is not counted

    from taupy.instrument.runfolder import read_settings
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.writer import add_profile
    from taupy.record.host_part import read_part
    from taupy.record.host_profile import profile_of
    from taupy.state.folder import open_run

    gc.disable()  # as in all commands
    with tempfile.TemporaryDirectory() as folder, open_run(str(left)) as opened:
        settings = read_settings(opened)
        (file,) = opened.files(".snapshot")
        size = sum(part.stat().st_size for part in left.glob("*.snapshot"))
        began = time.process_time()
        profile = profile_of(settings, {0: read_part(file)}, finished=True)
        with ProfileDB.open(Path(folder, "taupy.db"), create=True) as db:
            add_profile(db, profile)
        seconds = time.process_time() - began
    return Stored(seconds, size, sum(len(thread.tree) for thread in profile.threads))


def program(name: str, size: int, extreme: bool) -> list[str]:
    return ["--run", name, str(size), "extreme" if extreme else "plain"]


def slowdown(name: str, size: int, extreme: bool, rounds: int, folder: Path) -> tuple[float, float]:
    """(CPU time over native, native seconds): medians of rounds in turns."""
    ratios, natives = [], []
    given = program(name, size, extreme)
    for _ in range(rounds):
        native = run([sys.executable, __file__, *given], folder)
        ratios.append(run([*tools.taupy_run(folder), __file__, *given], folder) / native)
        natives.append(native)
    return statistics.median(ratios), statistics.median(natives)


def main() -> None:
    parser = argparse.ArgumentParser(description="What extreme programs cost beside plain ones.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round")
    parser.add_argument("--only", choices=list(PROGRAMS), help="one of the programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, help="be the measured program")
    parser.add_argument("--leave", action="store_true", help="and leave the run behind")
    parser.add_argument("--store", type=Path, help="store what a run has left, and print the cost")
    arguments = parser.parse_args()
    if arguments.store:
        print(json.dumps(store(arguments.store)))
        return
    if arguments.run:
        name, size, kind = arguments.run
        PROGRAMS[name][0](int(size), kind == "extreme")
        if arguments.leave:
            import taupy

            taupy.snapshot("all")
            os.kill(os.getpid(), signal.SIGKILL)
        return
    print(f"{tools.machine()}\n")
    print(
        "| program | native, s | x under taupy | plain twin | ratio | call paths, MB "
        "| stored, s | a plain tree: call paths, MB | s | ratio by bytes | by call paths |"
    )
    print("| --- |" + " ---: |" * 10)
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as temporary:
        folder = Path(temporary)
        for name, (_, whole) in PROGRAMS.items():
            if arguments.only not in (None, name):
                continue
            size = whole // 10 if arguments.quick else whole
            extreme, native = slowdown(name, size, True, rounds, folder)
            twin, _ = slowdown(name, size, False, rounds, folder)
            stored = storing(name, size, rounds, folder)
            plain = of_the_same_bytes(stored.size, rounds, folder)
            seconds = stored.seconds / plain.seconds
            print(
                f"| {name} | {native:.3f} | {extreme:.2f} | {twin:.2f} | {extreme / twin:.2f} "
                f"| {stored.callpaths:,}, {stored.size / 1e6:.1f} | {stored.seconds:.2f} "
                f"| {plain.callpaths:,}, {plain.size / 1e6:.1f} | {plain.seconds:.2f} "
                f"| {seconds * plain.size / stored.size:.2f} "
                f"| {seconds * plain.callpaths / stored.callpaths:.2f} |",
                flush=True,
            )
    print(f"\ngoal: ratios of at most {GOAL:g}")


def of_the_same_bytes(size: int, rounds: int, folder: Path) -> Stored:
    """The cost of storing the plain tree that is closest in size, in bytes."""
    small = storing(TREE, 1 << 12, 1, folder)
    levels = round(math.log2(size / small.size * (1 << 12)))
    return storing(TREE, 1 << max(levels, 4), rounds, folder)


if __name__ == "__main__":
    main()
