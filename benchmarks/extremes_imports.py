"""Importing files of unusual shape, compared with regular files of as many bytes.

    python benchmarks/extremes_imports.py [--quick] [--only NAME] [--rounds N]

Each extreme file (100,000 metrics in an Nsight Compute CSV, a Chrome trace of as many names as
events, pstats of routines that all call each other, a speedscope profile 200,000 calls deep) has a
regular twin of the same size in bytes. The table shows the CPU time of reading and of storing each:
medians of interleaved rounds, each in its own process. The goal is that no extreme file takes more
than three times as long as its twin to read and store.
"""

from __future__ import annotations

import argparse
import gc
import json
import marshal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tools

from taupy.formats import registry
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile

GOAL = 3.0


def ncu(size: int, extreme: bool) -> bytes:
    """One row per metric: `size` metrics of one launch, or 100 metrics of many launches."""
    lines = [
        '"ID","Process ID","Process Name","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    ]
    for row in range(size):
        launch, metric = (0, row) if extreme else divmod(row, 100)
        name = f"sm__made_up_{metric:08}.sum"
        lines.append(f'"{launch:08}","1","a.out","gemm","{name}","inst","{row}"')
    return "\n".join(lines).encode()


def chrome(size: int, extreme: bool) -> bytes:
    """Complete events in a row: each with its own name, or with one of 100."""
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": 10 * row, "dur": 5}
        | {"name": f"routine {row if extreme else row % 100:08}", "cat": "cpu_op"}
        for row in range(size)
    ]
    return json.dumps({"traceEvents": events}).encode()


def pstats(size: int, extreme: bool) -> bytes:
    """Entries of callers: routines that all call each other, or a ring of calls (mostly names)."""
    count = round(size**0.5) if extreme else size // 10
    width = count if extreme else 4
    names = [("program.py", row + 1, f"routine_{row:08}") for row in range(count)]
    rows = {}
    for row, name in enumerate(names):
        callers = (names[(row + 1 + step) % count] for step in range(width))
        by_caller = {caller: (1, 1, 0.001, 0.002) for caller in callers}
        rows[name] = (width, width, 0.001 * width, 0.002 * width, by_caller)
    return marshal.dumps(rows)


def speedscope(size: int, extreme: bool) -> bytes:
    """Calls of 100 routines: each inside the previous one, or ten deep."""
    depth = size if extreme else 10
    events = []
    for first in range(0, size, depth):
        down = [{"type": "O", "frame": row % 100, "at": row} for row in range(first, first + depth)]
        up = [{"type": "C", "frame": call["frame"], "at": first + depth} for call in reversed(down)]
        events += down + up
    profile = {"type": "evented", "name": "main", "unit": "nanoseconds", "startValue": 0}
    profile |= {"endValue": size, "events": events}
    frames = [{"name": f"routine_{row}"} for row in range(100)]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps(
        {"$schema": schema, "shared": {"frames": frames}, "profiles": [profile]}
    ).encode()


class Import(NamedTuple):
    make: Callable[[int, bool], bytes]
    format: str
    size: int
    quick: int


IMPORTS = {
    "ncu": Import(ncu, "ncu-csv", 100_000, 20_000),
    "chrome": Import(chrome, "chrome", 200_000, 40_000),
    "pstats": Import(pstats, "pstats", 1_000_000, 160_000),
    "speedscope": Import(speedscope, "speedscope", 200_000, 40_000),
}


class Cost(NamedTuple):
    """The file's bytes; CPU seconds for reading it and for storing the result."""

    written: int
    read: float
    store: float

    @property
    def whole(self) -> float:
        return self.read + self.store


def cost(source: Import, size: int, extreme: bool, folder: Path) -> Cost:
    file = folder / f"{source.format}-{extreme}"
    file.write_bytes(source.make(size, extreme))
    gc.collect()
    gc.disable()  # as in all commands
    format = registry.reader(source.format)
    assert format.read is not None
    begin = time.process_time()
    profiles = list(format.read(file, SILENT))
    read = time.process_time()
    with ProfileDB.open(str(folder / f"{file.name}.db"), create=True) as db:
        for profile in profiles:
            add_profile(db, profile)
    return Cost(file.stat().st_size, read - begin, time.process_time() - read)


def in_turns(name: str, size: int, rounds: int) -> tuple[Cost, Cost]:
    """The cost of the regular file and of the extreme one."""
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(rounds):
        for extreme in (False, True):
            command = [sys.executable, __file__, "--run", name, str(size), str(int(extreme))]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            costs[extreme].append(Cost(*json.loads(answer)))
    regular, extreme = (
        Cost(*map(statistics.median, zip(*of_kind, strict=True))) for of_kind in costs
    )
    return regular, extreme


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller files, one round")
    parser.add_argument("--only", choices=IMPORTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, help="import one file, and print what it cost")
    args = parser.parse_args()
    if args.run:
        name, size, extreme = args.run
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(cost(IMPORTS[name], int(size), extreme == "1", Path(folder))))
        return
    print(tools.machine())
    print(f"{'':12}{'MB':>8}{'read s':>9}{'store s':>9}   x regular: reading, and with storing")
    worst = 0.0
    for name, source in IMPORTS.items():
        if args.only not in (None, name):
            continue
        size = source.quick if args.quick else source.size
        regular, extreme = in_turns(name, size, 1 if args.quick else args.rounds)
        ratios = (extreme.read / regular.read, extreme.whole / regular.whole)
        for row, words in (
            (regular, "regular"),
            (extreme, "extreme{:8.2f}{:8.2f}".format(*ratios)),
        ):
            print(f"{name:12}{row.written / 1e6:8.1f}{row.read:9.2f}{row.store:9.2f}   {words}")
        worst = max(worst, *ratios)
    sys.exit(0 if worst <= GOAL else f"an extreme file costs {worst:.1f} times a regular one")


if __name__ == "__main__":
    main()
