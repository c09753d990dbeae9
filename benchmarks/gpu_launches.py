"""What a launch costs with taupy, torch.profiler and no profiler. Needs a GPU and PyTorch.

    python benchmarks/gpu_launches.py [--launches 200000]

The program adds 1 to a tiny tensor many times, so that the CPU limits its speed. Each variant runs
three times in its own process, and the best time counts. The goal is that taupy adds at most half
as much as torch.profiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time


def launch(count: int, profiled: bool) -> None:
    import contextlib

    import torch

    x = torch.zeros(16, device="cuda")
    for _ in range(1000):
        x += 1
    torch.cuda.synchronize()
    around: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if profiled:
        activity = torch.profiler.ProfilerActivity
        around = torch.profiler.profile(activities=[activity.CPU, activity.CUDA])
    with around:
        start = time.perf_counter()
        for _ in range(count):
            x += 1
        torch.cuda.synchronize()
        print((time.perf_counter() - start) / count * 1e6)


def measure(way: list[str], count: int, *more: str) -> float:
    times = []
    for _ in range(3):
        done = subprocess.run(
            [*way, __file__, "--launches", str(count), "--worker", *more],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--launches", type=int, default=200_000)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kineto", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        launch(arguments.launches, arguments.kineto)
        return
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed")
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        taupy = [sys.executable, "-m", "taupy", "run", "-q", "--db", os.path.join(folder, "t.db")]
        native = measure([sys.executable], arguments.launches)
        print(f"{'way':24} {'us/launch':>10} {'added':>8}")
        print(f"{'native':24} {native:10.2f}")
        for name, way, more in (
            ("taupy --no-gpu", [*taupy, "--no-gpu"], ()),
            ("taupy", taupy, ()),
            ("taupy --trace", [*taupy, "--trace"], ()),
            ("torch.profiler", [sys.executable], ("--kineto",)),
        ):
            took = measure(way, arguments.launches, *more)
            print(f"{name:24} {took:10.2f} {took - native:8.2f}", flush=True)


if __name__ == "__main__":
    main()
