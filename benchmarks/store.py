"""How long storing a large trial takes, and answering questions about it.

    python benchmarks/store.py [--paths 1000000] [--keep FILE]

Stores a profile of that many distinct call paths on one thread, and asks questions about it. Each
line is one measurement. There are no goals.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.model.answer import flat_rows
from taupy.model.profile import Profile
from taupy.profiledb import metrics, reader
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import wide_profile

PPROF_VIEW = "SELECT * FROM pprof WHERE trial_id = 1"
LARGEST_PATHS = "SELECT * FROM callpaths WHERE trial_id = 1 ORDER BY exclusive DESC LIMIT 20"


def timed(what: str, work: Callable[[], object]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    print(f"{what:58} {wall_s:8.3f} s {cpu_s:8.3f} s CPU", flush=True)


def store(path: Path, profile: Profile, what: str) -> None:
    with ProfileDB.open(path, create=True) as db:
        timed(what, lambda: add_profile(db, profile))


def measure(path: Path, paths: int) -> None:
    store(path, wide_profile(paths), f"store {paths:,} call paths")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    again = wide_profile(paths, number=2)
    store(path, again, f"store {paths:,} call paths that the database already has")
    del again
    size = path.stat().st_size / 1e6
    with ProfileDB.open(path) as db:
        timed("flat profile", lambda: flat_rows(metrics.flat_profile(db, 1)))
        timed("the same from the view pprof", lambda: db.rows(PPROF_VIEW))
        timed("20 largest call paths from the view callpaths", lambda: db.rows(LARGEST_PATHS))
        total = max(row.inclusive for row in flat_rows(metrics.flat_profile(db, 1)))
        timed("call tree, 1 % and more", lambda: metrics.call_tree(db, 1, least=total / 100))
        timed("call tree, whole", lambda: metrics.call_tree(db, 1))
        timed("read the whole profile", lambda: reader.read_profile(db, 1))
    for command in (["trials"], ["pprof"], ["query", PPROF_VIEW, "--csv"]):
        timed(f"taupy {command[0]} (a fresh process)", lambda c=command: taupy(path, *c))
    print(f"two trials take {size:.0f} MB; largest memory while storing {peak:.0f} MB")


def taupy(path: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "taupy", *arguments, "--db", str(path)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="leave the database there")
    args = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs")
    if args.keep:
        measure(args.keep, args.paths)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "store.db", args.paths)


if __name__ == "__main__":
    main()
