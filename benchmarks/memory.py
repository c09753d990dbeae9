"""How accurate `taupy memory` and `taupy waiting` are for programs of known behaviour.

    python benchmarks/memory.py [--repeat N]

For five patterns of allocation, in which the allocating routine and its bytes are known: what
`taupy memory` and memray (`pip install memray`; skipped if missing) charge to it, and how long the
program took with each. For a program that computes and sleeps for known times: the errors of
`taupy waiting`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tools

MIB = 1 << 20
_KEPT = """
import threading, time
kept = []
def touched(size):
    block = bytearray(size)
    block[::4096] = b"1" * len(block[::4096])
    return block
def work(n): return sum(range(n))
"""
PATTERNS = {
    "leak in one of three threads, 8 MiB every 100 ms": (
        480 * MIB,
        """
def allocate(): kept.append(touched(8 << 20))
def leaker():
    for _ in range(60): allocate(); time.sleep(0.1)
def busy():
    while not stop.is_set(): work(2000)
stop = threading.Event()
for _ in range(2): threading.Thread(target=busy).start()
last = threading.Thread(target=leaker); last.start(); last.join(); stop.set()
""",
    ),
    "one large block": (256 * MIB, "def allocate(): kept.append(touched(256 << 20))\nallocate()\n"),
    "blocks of 1 MiB in a loop": (
        200 * MIB,
        "def allocate(): kept.append(touched(1 << 20))\n"
        "for _ in range(200): allocate(); work(20000)\n",
    ),
    "small objects": (
        None,
        "def allocate(): kept.append([(n, str(n)) for n in range(20000)])\n"
        "for _ in range(40): allocate(); work(20000)\n",
    ),
    "kept blocks among others that come and go": (
        100 * MIB,
        "def passing(): return len(touched(32 << 20))\n"
        "def allocate(): kept.append(touched(2 << 20))\n"
        "for _ in range(50): passing(); allocate()\n",
    ),
}
STATES = """
import time
def asleep(): time.sleep(0.03)
def on_cpu():
    end = time.thread_time() + 0.02
    while time.thread_time() < end: pass
for _ in range(200): asleep(); on_cpu()
"""


def taupy(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "taupy", *words]
    return subprocess.run(
        command, cwd=folder, env=tools.environment(folder), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip


def rows_of(folder: Path, command: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(taupy(folder, command, "--json"))["rows"]
    return rows


def charged_by_taupy(folder: Path) -> tuple[float, float]:
    """Net growth below `allocate`, and bytes that could not be charged to a routine."""
    rows = rows_of(folder, "memory")
    ours = sum(row["net_bytes"] for row in rows if row["routine"].startswith("allocate ["))
    between = sum(row["growth_bytes"] for row in rows if row["routine"].startswith("(growth"))
    return ours, between


def charged_by_memray(folder: Path) -> float:
    """Bytes that were never freed and were allocated below `allocate`."""
    import memray

    left = 0
    reader = memray.FileReader(str(folder / "memray.bin"))
    for record in reader.get_leaked_allocation_records(merge_threads=False):
        if any(name == "allocate" for name, _, _ in record.stack_trace()):
            left += record.size
    return left


def timed(command: list[str], folder: Path) -> float:
    start = time.monotonic()
    subprocess.run(
        command, cwd=folder, env=tools.environment(folder), capture_output=True, check=True
    )
    return time.monotonic() - start


def pattern(folder: Path, name: str) -> None:
    true, source = PATTERNS[name]
    (folder / "prog.py").write_text(_KEPT + source)
    plain_s = timed([sys.executable, "prog.py"], folder)
    taupy_s = timed([sys.executable, "-m", "taupy", "run", "--quiet", "prog.py"], folder)
    ours, between = charged_by_taupy(folder)
    truth = f"{true / MIB:.0f} MiB true" if true else "truth unknown"
    print(f"{name}: {truth}; taupy {ours / MIB:.1f} MiB (not charged {between / MIB:.1f})", end="")
    if importlib.util.find_spec("memray"):
        (folder / "memray.bin").unlink(missing_ok=True)
        command = [sys.executable, "-m", "memray", "run", "-q", "-o", "memray.bin", "prog.py"]
        memray_s = timed(command, folder)
        print(f", memray {charged_by_memray(folder) / MIB:.1f} MiB", end="")
        print(f"; {plain_s:.2f} s alone, {taupy_s:.2f} s taupy, {memray_s:.2f} s memray")
    else:
        print(f"; {plain_s:.2f} s alone, {taupy_s:.2f} s taupy; memray is not installed")


def states(folder: Path) -> list[float]:
    """Errors of the times asleep and on a CPU [percent]."""
    (folder / "prog.py").write_text(STATES)
    taupy(folder, "run", "--quiet", "prog.py")
    rows = {row["routine"].split(" [")[0]: row for row in rows_of(folder, "waiting")}
    slept, computed = rows["asleep"]["sleeping_ns"] / 6e9, rows["on_cpu"]["on_cpu_ns"] / 4e9
    return [100 * (slept - 1), 100 * (computed - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description="How accurate memory and waiting are.")
    parser.add_argument("--repeat", type=int, default=5, help="of the program with known times")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prog.py").write_text("pass")
        taupy(folder, "run", "--quiet", "prog.py")  # prepares what is cached per environment
        for title in PATTERNS:
            pattern(folder, title)
        errors = [states(folder) for _ in range(arguments.repeat)]
    for number, what in enumerate(("asleep, 6 s", "on a CPU, 4 s")):
        values = sorted(error[number] for error in errors)
        print(
            f"{what}: error {statistics.median(values):+.1f} % (median of {len(values)}), "
            f"from {values[0]:+.1f} to {values[-1]:+.1f} %"
        )


if __name__ == "__main__":
    main()
