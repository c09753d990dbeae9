"""What measuring adds before the program's first line, and after its last.

    python benchmarks/startup.py [--threads 8000] [--children 400]

A program of two lines is started natively and with `taupy run`, in turns. It prints the times of
its first and of its last line, read from the same monotonic clock as its start and end. The table
shows medians, and lowest values, which depend less on the machine's load. `taupy run` becomes the
program (exec), so that the CPU time at the first line includes the launcher's.

Further tables have whole runs, from the start until the prompt returns, which is when the trial is
stored: as ratios to `python` and to cProfile, taken in turns with them. The programs are an empty
one, one whose threads come and go, and one whose forked children do, as those of servers; each
thread and child makes one call.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tools

PROGRAM = """\
import time
first = time.monotonic(), time.process_time()
{body}
print(*first, time.monotonic())
"""

BODIES = {
    "nothing": "",
    "imports": "import asyncio, json, decimal, argparse, unittest.mock",
}


THREADS = """\
import threading
def request(): pass
for _ in range({count}):
    thread = threading.Thread(target=request)
    thread.start()
    thread.join()
"""
CHILDREN = """\
import os
def job(): pass
for _ in range({count}):
    child = os.fork()
    if child == 0:
        job()
        os._exit(0)
    os.waitpid(child, 0)
"""
LARGER = 5
"""An empty program is run so many times as often as the others."""


class Times(NamedTuple):
    """Milliseconds."""

    before: float
    cpu_before: float
    program: float
    after: float
    cpu: float


def run(command: list[str], folder: Path) -> Times:
    environment = tools.environment(folder)
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, cwd=folder
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    end = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    first, cpu_first, last = map(float, output.split())
    return Times(
        (first - start) * 1e3,
        cpu_first * 1e3,
        (last - first) * 1e3,
        (end - last) * 1e3,
        (usage.ru_utime + usage.ru_stime) * 1e3,
    )


def until_prompt(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of CPU time, with all children, and of elapsed time."""
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, cwd=folder, env=tools.environment(folder)
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start


def compare_whole_runs(
    folder: Path, measured: list[str], rounds: int, title: str, program: str, goal: str
) -> None:
    script = folder / "whole.py"
    script.write_text(program)
    commands = {
        "python": [sys.executable],
        "cProfile": [sys.executable, "-m", "cProfile"],
        "taupy run": measured,
        "taupy run --no-watch": [*measured, "--no-watch"],
    }
    times: dict[str, list[tuple[float, float]]] = {tool: [] for tool in commands}
    for round_number in range(rounds + 1):
        for tool, command in commands.items():
            taken = until_prompt([*command, str(script)], folder)
            if round_number:  # the first round warms up
                times[tool].append(taken)
    print(f"\n| {title} | CPU ms | of python | of cProfile | elapsed ms | of python | goal: CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    middle = {
        tool: [statistics.median(c) for c in zip(*of, strict=True)] for tool, of in times.items()
    }
    for tool, (cpu, elapsed) in middle.items():
        print(
            f"| {tool} | {1e3 * cpu:.0f} | {cpu / middle['python'][0]:.1f} "
            f"| {cpu / middle['cProfile'][0]:.1f} | {1e3 * elapsed:.0f} "
            f"| {elapsed / middle['python'][1]:.1f} | {goal if tool == 'taupy run' else ''} |",
            flush=True,
        )


def taupy_command() -> list[str]:
    """The script `taupy` in this interpreter's folder, otherwise `python -m taupy`."""
    script = shutil.which("taupy", path=str(Path(sys.executable).parent))
    return [script] if script else [sys.executable, "-m", "taupy"]


def main() -> None:
    parser = argparse.ArgumentParser(description="What measuring adds before and after.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=8000)
    parser.add_argument("--children", type=int, default=400)
    arguments = parser.parse_args()
    print(f"{tools.machine()}; {arguments.rounds} rounds\n")
    print("| program | milliseconds | native | taupy run | added | lowest: added | goal |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        measured = [*taupy_command(), "run", "--quiet", "--db", str(folder / "taupy.db")]
        for title, body in BODIES.items():
            script = folder / "program.py"
            script.write_text(PROGRAM.format(body=body))
            commands = {"native": [sys.executable], "taupy": measured}
            times_of: dict[str, list[Times]] = {tool: [] for tool in commands}
            for round_number in range(arguments.rounds + 1):
                for tool, command in commands.items():
                    times = run([*command, str(script)], folder)
                    if round_number:  # the first round warms up
                        times_of[tool].append(times)
            for at, what in enumerate(
                (
                    "until the first line",
                    "until the first line, CPU time",
                    "first to last line",
                    "after the last line (storing)",
                    "CPU time of all processes",
                )
            ):
                native, taupy = ([times[at] for times in times_of[tool]] for tool in commands)
                middle = statistics.median(taupy) - statistics.median(native)
                lowest = min(taupy) - min(native)
                print(
                    f"| {title} | {what} | {statistics.median(native):.1f} "
                    f"| {statistics.median(taupy):.1f} | {middle:.1f} | {lowest:.1f} "
                    f"| {'< 60' if at < 2 else ''} |",
                    flush=True,
                )
        threads, children = arguments.threads, arguments.children
        fewer = max(1, arguments.rounds // LARGER)
        for rounds, title, program, goal in (
            (arguments.rounds, "an empty program", "", "4.6 x python"),
            (fewer, f"{threads} threads", THREADS.format(count=threads), "1.5 x python"),
            (fewer, f"{children} children", CHILDREN.format(count=children), "3 x python"),
        ):
            compare_whole_runs(folder, measured, rounds, title, program, goal)


if __name__ == "__main__":
    main()
