"""How costs grow: each row is a ratio of CPU times of one run, which linear growth keeps small.

    python benchmarks/growth.py [--size 8000] [--rounds 3]

Threads that come and go: storing that many threads with one call path each, over one thread with as
many call paths. Recursion and routines: a report on four times the levels or call paths, over a
report on the smaller trial, so linear growth gives at most 4. Answers that there are none: `layers`
and `phases` of a program without either, over a report on it. Times are the lowest of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools

from taupy.commands import main as taupy
from taupy.model.profile import CallTree, Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import wide_profile

TIMES_AS_LARGE = 4


def many_threads(count: int) -> Profile:
    """Threads with one call path each."""
    single = wide_profile(1)
    (measured,) = single.threads
    threads = [
        replace(measured, thread=replace(measured.thread, thread=number)) for number in range(count)
    ]
    return replace(single, threads=threads)


def recursion(levels: int) -> Profile:
    """One routine that calls itself."""
    profile = wide_profile(levels, timers=2)
    ones = array("q", [1] * levels)
    profile.threads[0].tree = CallTree(
        timer=array("q", [0] + [1] * (levels - 1)),
        parent=array("q", range(-1, levels - 1)),
        calls=ones,
        subroutines=array("q", [1] * (levels - 1) + [0]),
        inclusive={"time": array("q", range(levels, 0, -1))},
        exclusive={"time": ones[:]},
    )
    return profile


def store_s(profile: Profile, folder: Path) -> float:
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        ProfileDB.open(Path(place) / "taupy.db", create=True) as db,
    ):
        began = time.process_time()
        add_profile(db, profile)
        return time.process_time() - began


def stored(profile: Profile, path: Path) -> Path:
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    return path


def answer_s(words: list[str], database: Path) -> float:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        began = time.process_time()
        taupy([*words, "--db", str(database)])
        return time.process_time() - began


def row(what: str, work: Callable[[], float], over: Callable[[], float], rounds: int) -> None:
    """Print both times and their ratio; the first round only warms up."""
    pairs = [(work(), over()) for _ in range(rounds + 1)][1:]
    mine, others = map(min, zip(*pairs, strict=True))
    print(f"| {what} | {mine:.3f} | {others:.3f} | {mine / others:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=8_000, help="threads, levels, call paths")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    size, rounds = arguments.size, arguments.rounds
    print(f"{tools.machine()}\n")
    print("| size | CPU s | over, s | ratio |")
    print("| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        small, large = size // TIMES_AS_LARGE, size
        single, many = wide_profile(size), many_threads(size)
        row(
            f"store {size:,} threads of one call path / a thread of {size:,}",
            lambda: store_s(many, folder),
            lambda: store_s(single, folder),
            rounds,
        )
        for what, make in (("levels of recursion", recursion), ("call paths", wide_profile)):
            databases = [
                stored(make(count), folder / f"{what}-{count}.db") for count in (large, small)
            ]
            row(
                f"report on {large:,} {what} / {small:,}",
                lambda databases=databases: answer_s(["report"], databases[0]),
                lambda databases=databases: answer_s(["report"], databases[1]),
                rounds,
            )
        database = stored(wide_profile(TIMES_AS_LARGE * size), folder / "plain.db")
        for word in ("layers", "phases"):
            row(
                f"{word} of {TIMES_AS_LARGE * size:,} call paths without any / report",
                lambda word=word: answer_s([word], database),
                lambda: answer_s(["report"], database),
                rounds,
            )


if __name__ == "__main__":
    main()
