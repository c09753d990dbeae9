"""What turning a run into a trial costs: decoding, building and writing.

    python benchmarks/record.py [--paths 130000] [--rounds 5]

A program with about that many distinct call paths (as many as `import torch, torch._dynamo`) runs
under the compiled engine. Its part is decoded, built into a profile and written into a new
database; each step is timed separately and compared with a bare `executemany` of the same rows in
the same order. Figures are CPU seconds, medians of the rounds. Importing NumPy is listed
separately: a storer does it once, without OpenBLAS's threads, as here.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.instrument.runfolder import read_settings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.record.host_part import read_part
from taupy.record.host_profile import profile_of
from taupy.state.folder import open_run

PROGRAM = """
import os, random, signal, taupy
rng = random.Random(1)
functions, paths = [], {paths} // 2  # randrange() is another call path
TEMPLATE = '''
def function_{{n}}(depth):
    global paths
    paths -= 1
    if depth and paths > 0:
        for _ in range(rng.randrange(1, 4)):
            functions[rng.randrange(len(functions))](depth - 1)
'''
for n in range(8000):
    exec(compile(TEMPLATE.format(n=n), f"module{{n // 20}}.py", "exec"), globals())
    functions.append(globals()[f"function_{{n}}"])
while paths > 0:
    functions[0](25)
taupy.snapshot("all")
os.kill(os.getpid(), signal.SIGKILL)
"""
TABLES = ("callpath", "call", "interval_value", "timer_call", "timer_value", "timer", "trial_timer")


def leftover(folder: Path, paths: int) -> Path:
    """The run folder of the program, which is killed before its run is stored."""
    (folder / "prog.py").write_text(PROGRAM.format(paths=paths))
    command = [sys.executable, "-m", "taupy", "run", "--no-watch", "--db", "x.db", "prog.py"]
    environment = {**os.environ, "TAUPY_STATE_DIR": str(folder / "state")}
    done = subprocess.run(command, cwd=folder, env=environment)
    assert done.returncode == -signal.SIGKILL
    (run,) = (folder / "state").glob("run-*")
    return run


def cpu(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    began = time.process_time()
    result = work(*arguments)
    return time.process_time() - began, result


def rows_of(database: Path) -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """For each large table, the statement that fills it and its rows in the order of its key."""
    tables = {}
    with ProfileDB.open(database) as db:
        for table in TABLES:
            columns = [name for _, name, *_ in db.rows(f"PRAGMA table_info({table})")]
            marks = ", ".join("?" * len(columns))
            rows = [tuple(row) for row in db.rows(f"SELECT * FROM {table}")]
            tables[table] = f"INSERT INTO {table} VALUES ({marks})", rows
    return tables


def bare(database: Path, tables: dict[str, tuple[str, list[tuple[Any, ...]]]]) -> None:
    with ProfileDB.open(database, create=True, readonly=False) as db:
        db.connection.execute("PRAGMA foreign_keys = OFF")
        with db.transaction() as connection:
            for statement, rows in tables.values():
                connection.executemany(statement, rows)


def build_profile(settings: Any, part: Any) -> Any:
    return profile_of(settings, {0: part}, finished=True)


def children_cpu(code: str) -> float:
    """CPU seconds of a fresh interpreter, set up like the storer: the lowest of five."""
    spent = []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(5):
        before = sum(os.times()[2:4])
        subprocess.run([sys.executable, "-I", "-c", code], check=True, env=environment)
        spent.append(sum(os.times()[2:4]) - before)
    return min(spent)


def write(database: Path, profile: Any) -> None:
    with ProfileDB.open(database, create=True, readonly=False) as db:
        add_profile(db, profile)


def measure(folder: Path, run: Path, rounds: int) -> None:
    seconds: dict[str, list[float]] = {}
    for number in range(rounds):
        with open_run(str(run)) as opened:
            settings = read_settings(opened)
            (file,) = opened.files(".snapshot")
            decode, part = cpu(read_part, file)
        build, profile = cpu(build_profile, settings, part)
        database = folder / f"{number}.db"
        written, _ = cpu(write, database, profile)
        tables = rows_of(database)
        control, _ = cpu(bare, folder / f"{number}-bare.db", tables)
        steps = {"decode": decode, "build": build, "write": written}
        steps |= {"all three": sum(steps.values()), "bare executemany": control}
        for name, value in steps.items():
            seconds.setdefault(name, []).append(value)
    rows = sum(len(thread.tree) for thread in profile.threads)
    control = statistics.median(seconds["bare executemany"])
    print(f"{rows:,} call paths, {len(profile.timers):,} timers; CPU seconds, of {rounds} rounds")
    numpy = children_cpu("import numpy") - children_cpu("pass")
    print(f"{'import of NumPy':20} {numpy:8.3f} s   {numpy / control:6.2f} x the bare executemany")
    for name, values in seconds.items():
        value = statistics.median(values)
        print(f"{name:20} {value:8.3f} s   {value / control:6.2f} x the bare executemany")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", type=int, default=130_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure(folder, leftover(folder, options.paths), options.rounds)


if __name__ == "__main__":
    main()
