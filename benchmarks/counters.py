"""What counters cost: one reading, a call with two counters, a region, the start of a run.

    python benchmarks/counters.py                          what this machine can count
    python benchmarks/counters.py --metrics flop,instructions

Each line is a fresh process that calls an empty routine 100,000 times, in seven rounds. The CPU
time of the fastest round counts. "ratio" is relative to the engine without counters.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

CALLS = 100_000
REGIONS = 2_000
ROUNDS = 7

MODES = ("native", "engine", "cpu_time", "counters at calls", "counters at regions")


def _empty() -> None:
    pass


def _loop(count: int) -> None:
    for _ in range(count):
        _empty()


def _regions(engine: Any, count: int) -> None:
    for _ in range(count):
        engine.timer_enter("region", "REGION")
        engine.timer_leave("region", "REGION")


def _fastest(work: Any, *arguments: Any, count: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        work(*arguments, count)
        best = min(best, time.process_time_ns() - start)
    return best / count


def _one(mode: str, names: list[str]) -> None:
    """Nanoseconds per call and per region, measured in this process."""
    from taupy._native import engine
    from taupy.collectors import perf_events

    if mode == "native":
        print(_fastest(_loop, count=CALLS), "nan")
        return
    options: dict[str, Any] = {}
    if mode == "cpu_time":
        options["metrics"] = ["cpu_time"]
    elif mode.startswith("counters"):
        at: Any = mode.rpartition(" ")[2]
        options = perf_events.prepare(names, at).engine_options()
    engine.start(options)
    call = _fastest(_loop, count=CALLS)
    region = _fastest(_regions, engine, count=REGIONS)
    engine.stop()
    print(call, region)


def main() -> None:
    from taupy.collectors import perf_events

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", default="", help="default: those that this machine has")
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = [name for name in args.metrics.split(",") if name]
    if args.mode:
        _one(args.mode, names)
        return
    names = names or [c.name for c in perf_events.available() if c.status == "ok"][:3]
    start = time.perf_counter()
    prepared = perf_events.prepare(names, "calls")
    tested_ms = (time.perf_counter() - start) * 1e3
    if not prepared.metrics:
        sys.exit("\n".join(prepared.notes))
    for note in prepared.notes:
        print(f"# {note}")
    how = "rdpmc" if prepared.by_rdpmc else "read()"
    counted = ", ".join(name for name, _ in prepared.metrics)
    print(f"{counted}: one reading by {how} {prepared.reading_ns:.0f} ns; ", end="")
    print(f"chosen and tested in {tested_ms:.1f} ms, before the program starts\n")
    print("| | ns a call | ratio | ns a region |\n| --- | ---: | ---: | ---: |")
    baseline = 0.0
    for mode in MODES:
        done = subprocess.run(
            [sys.executable, __file__, "--mode", mode, "--metrics", counted.replace(" ", "")],
            capture_output=True,
            text=True,
            check=True,
        )
        call, region = map(float, done.stdout.split())
        baseline = call if mode == "engine" else baseline
        ratio = f"{call / baseline:.2f}" if baseline else ""
        print(f"| {mode} | {call:.1f} | {ratio} | {'' if region != region else f'{region:.0f}'} |")


if __name__ == "__main__":
    main()
