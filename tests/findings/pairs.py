"""Programs with a fault, each with a twin that does what the advice says, and how much it helped.

    python -m tests.findings.pairs [-n 5] [NAME ...]

prints a row for each pair: the finding, what it says could be saved at most, and what the twin
saved, as the median of runs under plain Python in turn: shares of elapsed time and of the CPU time
of all processes, and the largest memory. On a busy machine, only CPU time tells. docs/report.md has
the result.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.report.evidence import trial_of
from taupy.report.report import Report, report
from tests.findings.cases import INDEPENDENT, PROGRAMS

PROGRAM = Path(__file__).parent / "programs"
MENDED = sorted(path.stem for path in (PROGRAM / "mended").glob("*.py"))
"""Twins, each named as the program with the fault."""

MODULES = {"big_tables": "tables_at_import", "scatter_tables": "scatter_report"}
"""Modules that are mended, and the program that imports each."""

PAIRS = [name for name in MENDED if name in PROGRAMS or name in INDEPENDENT]

RUNS = 5
LEAST_LOOKS = 50
"""Fewer looks at lines hardly tell the shares of lines."""
MOST_RUNNABLE = 0.3
"""Largest share of a thread's time that it waited for a processor: beyond, CPU time, memory over
time and waits for others are those of a busy machine."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


class Cost(NamedTuple):
    """What a run takes.

    Attributes:
        memory: the largest resident memory of a process [KiB].
    """

    elapsed_s: float
    cpu_s: float
    memory: int
    output: str


def faulty(name: str) -> Path:
    """The folder of the program with the fault."""
    return PROGRAM / ("faults" if name in PROGRAMS else "independent")


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TAU")}
    return {**kept, **_ONE_THREAD, "TAUPY_STATE_DIR": str(folder / "state")}


def placed(folder: Path, sources: Path) -> Path:
    """A folder with copies of these programs."""
    for path in sources.glob("*.py"):
        shutil.copy2(path, folder)
    return folder


def both(folder: Path, name: str) -> tuple[Path, Path]:
    """Folders with the program and with its twin."""
    before, after = folder / "before", folder / "after"
    for there in (before, after):
        there.mkdir()
        placed(there, faulty(name))
    placed(after, PROGRAM / "mended")
    return before, after


def skip_without_packages(program: Path) -> None:
    """Skip a test whose program needs a package that is not installed."""
    packages = r"^(?:import|from) (jinja2|torch|pandas|scipy|sklearn)\b"
    for package in re.findall(packages, program.read_text(), re.M):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install {package}")


def measured(folder: Path, *command: str) -> Report:
    """What is reported of a program that `taupy run` runs in this folder."""
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--db", "t.db", *command],
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with ProfileDB.open(str(folder / "t.db")) as db:
        return report(db, db.latest())


def measured_until(
    tells: Callable[[Report], bool], folder: Path, measure: Callable[[Path], Report]
) -> Report:
    """The first of some runs, each in a copy of this folder, that tells what it should, or that
    nothing hindered from telling it."""
    hindrances = []
    for number in range(RUNS):
        copy = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, copy)
        found = measure(copy)
        if tells(found):
            return found
        hindrance = hindered(copy)
        if not hindrance:
            return found
        hindrances.append(hindrance)
    pytest.fail(f"none of {RUNS} runs can be judged: {'; '.join(hindrances)}")


def hindered(folder: Path) -> str:
    """Why a run may tell less than the program has; "" if nothing hindered it."""
    with ProfileDB.open(str(folder / "t.db")) as db:
        trial = trial_of(db, db.latest())
        runnable = max((trial.runnable(thread) or 0.0 for thread in trial.states), default=0.0)
    if runnable > MOST_RUNNABLE:
        return f"a thread waited for a processor in {runnable:.0%} of its time"
    looks = sum(row.line.looks for row in trial.lines)
    return f"{looks} looks at lines" if looks < LEAST_LOOKS else ""


def cost(folder: Path, name: str) -> Cost:
    """What a program takes under plain Python."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = subprocess.Popen(
        [sys.executable, f"{name}.py"], cwd=folder, env=environment(folder),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout
    output = program.stdout.read()
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == 0
    elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(elapsed, cpu, used.ru_maxrss, output)


def _row(name: str, number: int) -> str:
    expected, _ = (PROGRAMS | INDEPENDENT)[name]
    with tempfile.TemporaryDirectory() as here:
        folders = both(Path(here), name)
        found = measured(folders[0], f"{name}.py").judgement.findings
        claim = next((one for one in found if one.kind == expected), None)
        left = [one.kind for one in measured(folders[1], f"{name}.py").judgement.findings]
        costs = [[cost(folder, name) for folder in folders] for _ in range(number)]
    before, after = (Cost(*(median(run[side][at] for run in costs) for at in range(3)), "")  # type: ignore[type-var]
                     for side in range(2))  # fmt: skip
    saved = before.elapsed_s - after.elapsed_s
    most = f"{100 * claim.saved_share:.0f}" if claim else "-"
    return " | ".join((
        f"| {expected}", name, most, f"{100 * saved / before.elapsed_s:.0f}",
        f"{100 * (1 - after.cpu_s / before.cpu_s):.0f}",
        f"{before.elapsed_s:.2f} -> {after.elapsed_s:.2f}",
        f"{before.cpu_s:.2f} -> {after.cpu_s:.2f}",
        f"{before.memory / 1024:.0f} -> {after.memory / 1024:.0f}",
        f"{claim.attempt if claim else 'NOT FOUND'}{' STILL FOUND' if expected in left else ''} |",
    ))  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-n", type=int, default=3, help="runs of each")
    options.add_argument("names", nargs="*", default=[*PAIRS, *MODULES.values()])
    args = options.parse_args()
    print("| finding | program | at most [%] | saved [%] | of CPU [%] | elapsed [s] | CPU [s] "
          "| memory [MiB] | tried |\n"
          "| --- | --- | ---: | ---: | ---: | --- | --- | --- | --- |")  # fmt: skip
    for name in sorted(args.names, key=lambda name: ((PROGRAMS | INDEPENDENT)[name], name)):
        print(_row(name, args.n), flush=True)


if __name__ == "__main__":
    main()
