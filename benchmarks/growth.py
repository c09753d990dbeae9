"""How costs grow: each row is a ratio of CPU times of one run, which linear growth keeps small.

    python benchmarks/growth.py [--size 8000] [--rounds 3]
    python benchmarks/growth.py --paths 1000000 --threads 10000 --trials 3000 --only report

Threads that come and go: storing that many threads with one call path each, over one thread with as
many call paths. Recursion and routines: a report on four times the levels or call paths, over a
report on the smaller trial, so linear growth gives at most 4. Answers that there are none: `layers`
and `phases` of a program without either, over a report on it. Times are the lowest of the rounds.

Then each command that reads is drawn over call paths, threads and trials, ten times as many in each
column. Its growth is the power of the size with which its time grows from the last but one size to
the last: 1 is linear, and what grows faster is marked, if it takes long enough to be seen.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
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
STEP = 10
USAGE = 2
"""Exit code of a command that was refused, or that has nothing to show."""
NOTHING = ("taupy: trial 1 has no ", "taupy: nothing of trial 1 ")
LINEAR = 1.15
"""Growth up to which a time counts as linear: large trials do not fit into caches."""
LEAST_S = 0.1
"""Shorter times are mostly those of what does not grow."""

READING = (
    ("report",), ("report", "--json"), ("report", "-o", "OUTPUT"), ("places",), ("pprof",),
    ("pprof", "--json"), ("pprof", "-s", "--limit", "4"), ("pprof", "--tree"), ("lines",),
    ("phases",), ("layers",), ("steps",), ("kernels",), ("memory",), ("waiting",), ("events",),
    ("candidates",), ("export", "1", "--format", "collapsed", "--force", "-o", "OUTPUT"),
    ("trials", "show"), ("compare", "1", "1"), ("compare", "1", "1", "--by", "callpath"),
)  # fmt: skip
"""Commands on a trial; a few show that there is nothing to show."""
READING_ALL = (
    ("trials",), ("trials", "show"), ("report",), ("pprof",), ("pivot",), ("compare", "1", "2"),
)  # fmt: skip
"""Commands on a database, or on a trial of many."""


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
    messages = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(messages):
        began = time.process_time()
        code = taupy([*words, "--db", str(database)])
        took = time.process_time() - began
    if code == USAGE and not messages.getvalue().startswith(NOTHING):
        raise SystemExit(f"taupy {' '.join(words)} was refused: {messages.getvalue()}")
    return took


def row(what: str, work: Callable[[], float], over: Callable[[], float], rounds: int) -> None:
    """Print both times and their ratio; the first round only warms up."""
    pairs = [(work(), over()) for _ in range(rounds + 1)][1:]
    mine, others = map(min, zip(*pairs, strict=True))
    print(f"| {what} | {mine:.3f} | {others:.3f} | {mine / others:.2f} |", flush=True)


def sizes(most: int) -> list[int]:
    """From a thousandth of it, or 1."""
    steps = [most // STEP**step for step in (3, 2, 1, 0)]
    return [size for size in steps if size]


def threads_of(count: int) -> list[Profile]:
    return [many_threads(count)]


def paths_of(count: int) -> list[Profile]:
    return [wide_profile(count)]


def trials_of(count: int) -> list[Profile]:
    return [wide_profile(10, number=number) for number in range(1, count + 1)]


def draw(
    what: str,
    make: Callable[[int], list[Profile]],
    most: int,
    commands: Sequence[tuple[str, ...]],
    folder: Path,
    rounds: int,
) -> None:
    """A table of the commands' times by size."""
    counts = sizes(most)
    databases = []
    for count in counts:
        databases.append(folder / f"{what}-{count}.db")
        with ProfileDB.open(databases[-1], create=True) as db:
            for profile in make(count):
                add_profile(db, profile)
    print(f"\n| CPU s, {what} | {' | '.join(f'{count:,}' for count in counts)} | growth |")
    print(f"| --- |{' ---: |' * (len(counts) + 1)}", flush=True)
    for command in commands:
        words = [str(folder / "output") if word == "OUTPUT" else word for word in command]
        rows = [[answer_s(words, database) for database in databases] for _ in range(rounds)]
        times = [min(column) for column in zip(*rows, strict=True)]
        power = growth(counts, times)
        shown = "" if power is None else f"{power:.2f}{' !' if power > LINEAR else ''}"
        seconds = " | ".join(f"{time_s:.3f}" for time_s in times)
        print(f"| {' '.join(command)} | {seconds} | {shown} |", flush=True)


def growth(counts: Sequence[int], times: Sequence[float]) -> float | None:
    """The power of the size with which the time grows at last; None if it is too short."""
    if len(counts) < 2 or times[-1] < LEAST_S:
        return None
    return math.log(times[-1] / times[-2]) / math.log(counts[-1] / counts[-2])


def ratios(size: int, rounds: int, folder: Path) -> None:
    """Each row's time over another one's of the same run."""
    print("| size | CPU s | over, s | ratio |")
    print("| --- | ---: | ---: | ---: |")
    small, large = size // TIMES_AS_LARGE, size
    single, many = wide_profile(size), many_threads(size)
    row(
        f"store {size:,} threads of one call path / a thread of {size:,}",
        lambda: store_s(many, folder),
        lambda: store_s(single, folder),
        rounds,
    )
    for what, make in (("levels of recursion", recursion), ("call paths", wide_profile)):
        databases = [stored(make(count), folder / f"{what}-{count}.db") for count in (large, small)]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=8_000, help="threads, levels, call paths")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--paths", type=int, default=100_000, help="call paths of the largest trial"
    )
    parser.add_argument("--threads", type=int, default=10_000, help="threads of the largest trial")
    parser.add_argument("--trials", type=int, default=1_000, help="trials of the largest database")
    parser.add_argument("--only", help="draw only commands with this word, and nothing else")
    arguments = parser.parse_args()
    size, rounds = arguments.size, arguments.rounds
    print(f"{tools.machine()}\n")
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        if not arguments.only:
            ratios(size, rounds, folder)
        for what, make, most, all_commands in (
            ("call paths", paths_of, arguments.paths, READING),
            ("threads", threads_of, arguments.threads, READING),
            ("trials", trials_of, arguments.trials, READING_ALL),
        ):
            commands = [words for words in all_commands if arguments.only in (None, *words)]
            draw(what, make, most, commands, folder, rounds)


if __name__ == "__main__":
    main()
