"""What questions about values cost, compared with bare SQL for the same sums.

    python benchmarks/values.py --fleet FILE --large FILE

A FILE that does not exist is created: a fleet of 3,000 trials of 1,700 call paths (takes minutes),
or two trials of a million. Each line is the median CPU time of interleaved rounds in one process,
and the ratio to the line marked `bare` above it. There are no goals.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.commands import command_parser, pprof
from taupy.comparison import comparison, sides
from taupy.model.question import Question
from taupy.profiledb import metrics
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.study import pivot
from taupy.study.pivot import Layout
from tests.builders import wide_profile

BARE = """
    SELECT value.trial_id, sum(value.exclusive)
      FROM timer_value AS value JOIN metric ON metric.id = value.metric_id
     WHERE metric.name = 'time' GROUP BY value.trial_id
"""
BARE_PATHS = """
    SELECT callpath_id, sum(exclusive) FROM interval_value WHERE trial_id = 1 GROUP BY callpath_id
"""
FLEET = ("application", "meta.library", "gpu")


def make_fleet(path: Path, trials: int, paths: int) -> None:
    with ProfileDB.open(path, create=True) as db:
        for number in range(trials):
            profile = wide_profile(paths, timers=500, seed=number)
            profile.uuid = f"01900000-0000-7000-8000-{number:012d}"
            profile.application = f"app{number % 6}"
            profile.metadata = {"library": f"lib{number % 3}", "GPU Name": f"GPU {number % 4}"}
            add_profile(db, profile)


def make_large(path: Path, paths: int) -> None:
    with ProfileDB.open(path, create=True) as db:
        for number in range(2):
            profile = wide_profile(paths, seed=number)
            profile.uuid = f"01900000-0000-7000-8000-{number:012d}"
            add_profile(db, profile)


def compared(db: ProfileDB) -> None:
    """Answer `taupy compare 1 2 --by callpath`, with the names of the rows that it shows."""
    question = comparison.ComparisonOptions(by="callpath")
    (answer,) = comparison.answers(db, sides.sides(db, ["1", "2"]), question)
    for row in answer.comparison.rows[:25]:
        answer.keys[row.key], answer.calls[row.key]


def shown(db: ProfileDB) -> None:
    """Build the tables of `taupy pprof 1` without printing them."""
    args = command_parser("pprof").parse_args(["1"])
    pprof.check(args)
    pprof.Request(db, 1, args).views()


def measured(questions: dict[str, Callable[[], object]], rounds: int) -> None:
    """Print the median CPU time of each, and its ratio to the first, which is the bare SQL."""
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            began = time.process_time()
            ask()
            times[name].append(time.process_time() - began)
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    bare = next(iter(middle.values()))
    for name, seconds in middle.items():
        print(f"{name:48}{1e3 * seconds:10.1f} ms{seconds / bare:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fleet", type=Path, required=True, metavar="FILE")
    parser.add_argument("--large", type=Path, required=True, metavar="FILE")
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--paths", type=int, default=1_000_000, help="of each large trial")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if not args.fleet.exists():
        make_fleet(args.fleet, args.trials, 1700)
    if not args.large.exists():
        make_large(args.large, args.paths)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    with ProfileDB.open(args.fleet) as db:
        trials = db.trials()
        ids = tuple(trial.id for trial in trials)
        layout = Layout(rows=("application", "library"), columns=("gpu",))
        measured(
            {
                f"bare: totals of {len(ids)} trials": lambda: db.rows(BARE),
                "values by trial and kind": lambda: values(db, Question(ids, by=("trial", "kind"))),
                f"values by {', '.join(FLEET)}": lambda: values(db, Question(ids, by=FLEET)),
                "pivot --rows application,library --columns gpu": lambda: pivot.pivot_table(
                    db, [], layout
                ),
            },
            args.rounds,
        )
    with ProfileDB.open(args.large) as db:
        measured(
            {
                "bare: call paths of a trial": lambda: db.rows(BARE_PATHS),
                "values by call path": lambda: values(db, Question((1,), by=("callpath",))),
                "flat profile": lambda: metrics.flat_profile(db, 1),
                "pprof": lambda: shown(db),
                "compare 1 2 --by callpath": lambda: compared(db),
            },
            args.rounds,
        )


if __name__ == "__main__":
    main()
