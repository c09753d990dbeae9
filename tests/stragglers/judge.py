"""Runs the variants on two ranks, and judges what `taupy ranks` names.

python -m tests.stragglers.judge                    all
python -m tests.stragglers.judge --share            a few; one that is not named has a second try
python -m tests.stragglers.judge slow_data          some
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import trial_metadata
from taupy.ranks import matching as analysis
from taupy.ranks import reading as ranks
from taupy.ranks.causes import Cause, Causes
from tests.in_process import set_up_torch

HERE = Path(__file__).parent
SHARE = ("slow_backward", "one_step_in_fifty", "ranks_take_turns", "wait_for_a_process")
TIMEOUT_S = 300
NOT_NAMED_AT_MOST = 1
INTERRUPTED = "interrupted"


def expected() -> dict[str, tuple[int | None, tuple[str, ...]]]:
    """Of each variant the slow rank (None: they take turns) and the names of its cause."""
    tree = ast.parse((HERE / "variants.py").read_text())
    return {
        node.name: (rank, tuple(names))
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for rank, *names in [[ast.literal_eval(argument) for argument in decorator.args]]
    }


class Named(NamedTuple):
    """What was said of one run: the rank that was waited for, and names of its cause."""

    rank: int | None
    names: frozenset[str]


def environment(folder: Path) -> dict[str, str]:
    state = os.environ.get("TAUPY_STATE_DIR", str(folder / "state"))
    return {**os.environ, "TAUPY_STATE_DIR": state, "OMP_NUM_THREADS": "1"}


def run(name: str, folder: Path) -> tuple[Path, str]:
    """The database of a measured run, and what the run wrote to standard error."""
    database = folder / f"{name}.db"
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
         "--standalone", "-m", "taupy", "run", "--db", str(database),
         str(HERE / "variants.py"), name],
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return database, done.stderr


def named(database: Path) -> list[Named]:
    """The rank that all others waited for most, with its cause; then those of each step."""
    with ProfileDB.open(database) as db:
        job, _ = ranks.read_ranks(db, 1)
        causes = Causes(db, 1, job)
        found = []
        for step in (None, *analysis.numbers_of_steps(job)):
            sums, after = (
                analysis.after_warm_up(job) if step is None else (analysis.times(job, step), 0)
            )
            worst = analysis.straggler(sums)
            if worst is None:
                found.append(Named(None, frozenset()))
                continue
            longer = causes.of_rank(worst.rank, step, after)
            names = {name for cause in longer[:1] for name in _names(cause)}
            if (whole := causes.within(longer)) is not None:
                names.add(_last(whole[0].short_name))
            if ranks.interruptions(db, 1, job, worst.rank):
                names.add(INTERRUPTED)
            found.append(Named(worst.rank, frozenset(names)))
        return found


def _names(cause: Cause) -> set[str]:
    called = cause.caller.short_name if cause.caller is not None else ""
    names = {cause.timer.short_name, called, cause.phase or ""}
    return {*map(_last, names)}


def _last(name: str) -> str:
    return name.rpartition(".<locals>.")[2]


def is_named(answers: Sequence[Named], rank: int | None, names: Sequence[str]) -> bool:
    """Is the right rank named, with one of the names? Where ranks take turns, in four of five
    steps."""
    if rank is not None:
        return answers[0].rank == rank and not answers[0].names.isdisjoint(names)
    right = [
        step.rank == number % 2 and not step.names.isdisjoint(names)
        for number, step in enumerate(answers[1:])
    ]
    return sum(right) >= 0.8 * len(right) > 0


def recorded(database: Path) -> list[str]:
    """Lines on what was recorded: why a cause may not be named."""
    lines = []
    with ProfileDB.open(database) as db:
        for trial in db.trials():
            job, _ = ranks.read_ranks(db, trial.id)
            matched = sum(len(group.number) for group in job.matched)
            lines.append(
                f"trial {trial.id}: {len(job.ranks)} ranks, {matched} collectives matched, "
                f"missing ranks {job.missing}"
            )
            lines += [
                f"{name}: {value}"
                for _, name, value in trial_metadata(db, trial.id)
                if name.startswith("taupy.")
            ]
    return lines


def judge(chosen: Sequence[str]) -> dict[str, bool]:
    """Of each variant: was its cause named? Says so on the way."""
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        if (done := set_up_torch(environment(Path(folder)))).returncode:
            raise RuntimeError(f"taupy setup torch: {done.stderr}")
        for name in chosen:
            database, stderr = run(name, Path(folder))
            answers = named(database)
            told[name] = is_named(answers, *expected()[name])
            first = answers[0]
            says = f"rank {first.rank}, {' / '.join(sorted(filter(None, first.names)))}"
            print(f"{'named' if told[name] else 'NOT NAMED':9s} {name}: {says}", flush=True)
            if not told[name]:
                lines = [*recorded(database), *stderr.splitlines()]
                print(*(f"    {line}" for line in lines), sep="\n", flush=True)
    return told


def main(arguments: Sequence[str]) -> int:
    chosen = SHARE if arguments == ["--share"] else arguments or [*expected()]
    told = judge(chosen)
    if arguments == ["--share"] and not all(told.values()):
        print("once more, since other tests may have disturbed it:")
        told |= judge([name for name, was_named in told.items() if not was_named])
    print(f"{sum(told.values())} of {len(told)} are named")
    return int(len(told) - sum(told.values()) > (NOT_NAMED_AT_MOST if not arguments else 0))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
