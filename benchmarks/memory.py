"""What measuring costs in memory: by distinct call paths, not by calls.

    python benchmarks/memory.py

The program calls two routines by each other, both ways at every level: a binary tree of
calls, in which every call path is another. More passes make more calls on the same paths.
Shown is the program's own peak of resident memory, natively and under `taupy run`, and
what storing the profile took afterwards, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tools

LEVELS = 19  # 2^20 - 1 call paths below `walk`
MIB = 1024.0


def left(level: int) -> None:
    if level:
        left(level - 1)
        right(level - 1)


def right(level: int) -> None:
    if level:
        left(level - 1)
        right(level - 1)


def walk(levels: int, passes: int) -> None:
    for _ in range(passes):
        left(levels)


def peak_kib() -> int:
    """Of this process image: getrusage would count the launcher's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


class Row(NamedTuple):
    callpaths: int
    calls: int
    native_kib: int
    measured_kib: int
    store_seconds: float
    store_kib: int


def run(command: list[str], folder: Path) -> tuple[int, float, int]:
    """(peak KiB of the program, seconds after its last line, peak KiB of all children)."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=tools.environment(folder)
    )
    assert process.stdout is not None
    peak, ended = process.stdout.read().split()
    _, status, usage = os.wait4(process.pid, 0)
    after = time.monotonic() - float(ended)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return int(peak), after, usage.ru_maxrss


def measured(levels: int, passes: int, folder: Path) -> Row:
    program = [__file__, "--run", str(levels), str(passes)]
    native, _, _ = run([sys.executable, *program], folder)
    peak, seconds, all_peaks = run([*tools.taupy_run(folder), *program], folder)
    database = sqlite3.connect(folder / "taupy.db")
    paths, calls = database.execute(
        "SELECT count(*), sum(calls) FROM call WHERE trial_id = (SELECT max(id) FROM trial)"
    ).fetchone()
    database.close()
    return Row(paths, calls, native, peak, seconds, all_peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description="What measuring costs in memory.")
    parser.add_argument("--quick", action="store_true", help="fewer call paths")
    parser.add_argument("--run", nargs=2, type=int, help="be the measured program")
    arguments = parser.parse_args()
    if arguments.run:
        walk(*arguments.run)
        print(peak_kib(), time.monotonic())
        return
    most = LEVELS - 3 if arguments.quick else LEVELS
    print(f"{tools.machine()}\n")
    print(
        "| call paths | calls | native, MiB | taupy, MiB | added, MiB | bytes a path "
        "| stored in, s | storer, MiB |"
    )
    print("| ---: |" + " ---: |" * 7)
    rows = []
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        for levels, passes in ((9, 1), (9, 2000), (most - 3, 1), (most, 1), (most, 4)):
            row = measured(levels, passes, Path(name))
            rows.append(row)
            added = row.measured_kib - row.native_kib
            print(
                f"| {row.callpaths:,} | {row.calls:,} | {row.native_kib / MIB:.1f} "
                f"| {row.measured_kib / MIB:.1f} | {added / MIB:.1f} "
                f"| {added * 1024 / row.callpaths:.0f} | {row.store_seconds:.1f} "
                f"| {row.store_kib / MIB:.0f} |",
                flush=True,
            )
    worst = max(row.measured_kib - row.native_kib for row in rows) / MIB
    print(f"\nadded at most {worst:.0f} MiB for {rows[-1].callpaths:,} call paths", end="")
    print("" if arguments.quick else "; goal: 10^6 in less than 200 MB (190 MiB)")


if __name__ == "__main__":
    main()
