"""How costs grow: each row is a ratio of CPU times of one run, which linear growth keeps small.

    python benchmarks/growth.py [--size 8000] [--rounds 3]
    python benchmarks/growth.py --paths 100000 --threads 1000 --trials 300 --only report
    python benchmarks/growth.py --history benchmarks/history.csv

Threads that come and go: storing that many threads with one call path each, over one thread with as
many call paths. Recursion and routines: a report on four times the levels or call paths, over a
report on the smaller trial, so linear growth gives at most 4. Answers that there are none: `layers`
and `phases` of a program without either, over a report on it. Times are the lowest of the rounds.

Then each command that reads is drawn over 10^3 to 10^6 call paths, 1 to 10,000 threads and 3 to
3,000 trials, ten times as many in each column. Its growth is the power of the size with which its
time grows from the last but one size to the last: 1 is linear, and what grows faster is marked, if
it takes long enough to be seen. What takes ten seconds is measured once.

With --history, growth and the time at the largest size over that of a bare SQL statement which adds
up the same database's values are appended to a table, a row for each command, with this commit.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import math
import platform
import sqlite3
import subprocess
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
LONG_S = 10
"""What takes so long is not measured again."""
SUMS = """SELECT callpath.timer_id, sum(inclusive), sum(exclusive) FROM interval_value
            JOIN callpath ON callpath.id = callpath_id GROUP BY callpath.timer_id"""
COLUMNS = ("commit", "date", "python", "processor", "over", "size", "command", "growth", "over_sql")
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


def sql_s(database: Path) -> float:
    """The time of the bare sums by routine."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        began = time.process_time()
        connection.execute(SUMS).fetchall()
        return time.process_time() - began


def lowest_s(measure: Callable[[], float], rounds: int) -> float:
    times = [measure()]
    while len(times) < rounds and times[-1] < LONG_S:
        times.append(measure())
    return min(times)


def commit() -> str:
    """That of this checkout, with a + if files have changed since."""
    folder = Path(__file__).parent
    words = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def append_history(path: Path, over: str, size: int, rows: Sequence[tuple[str, str, str]]) -> None:
    """Append a row of the history for each command: its words, growth, and time over SQL's."""
    is_new = not path.exists()
    processor = tools.machine().split(", ")[1]
    before = (commit(), time.strftime("%Y-%m-%d"), platform.python_version(), processor, over, size)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerows((*before, *row) for row in rows)


def draw(
    what: str,
    make: Callable[[int], list[Profile]],
    most: int,
    commands: Sequence[tuple[str, ...]],
    folder: Path,
    rounds: int,
    history: Path | None,
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
    bare_s = lowest_s(lambda: sql_s(databases[-1]), rounds)
    history_rows = []
    for command in commands:
        words = [str(folder / "output") if word == "OUTPUT" else word for word in command]
        times = [
            lowest_s(lambda words=words, database=database: answer_s(words, database), rounds)
            for database in databases
        ]
        power = growth(counts, times)
        shown = "" if power is None else f"{power:.2f}{' !' if power > LINEAR else ''}"
        seconds = " | ".join(f"{time_s:.3f}" for time_s in times)
        print(f"| {' '.join(command)} | {seconds} | {shown} |", flush=True)
        history_rows.append((" ".join(command), shown.rstrip(" !"), f"{times[-1] / bare_s:.3g}"))
    if history:
        append_history(history, what, counts[-1], history_rows)


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
        "--paths", type=int, default=1_000_000, help="call paths of the largest trial"
    )
    parser.add_argument("--threads", type=int, default=10_000, help="threads of the largest trial")
    parser.add_argument("--trials", type=int, default=3_000, help="trials of the largest database")
    parser.add_argument("--history", type=Path, help="append ratios to this table (CSV)")
    parser.add_argument("--only", help="draw only commands with this word, and nothing else")
    arguments = parser.parse_args()
    if not any(arguments.only in (None, *words) for words in (*READING, *READING_ALL)):
        parser.error(f"no command has the word {arguments.only!r}")
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
            draw(what, make, most, commands, folder, rounds, arguments.history)


if __name__ == "__main__":
    main()
