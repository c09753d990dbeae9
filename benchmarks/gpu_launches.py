"""What a launch costs with taupy, beside torch.profiler and none. Needs a GPU and PyTorch.

    python benchmarks/gpu_launches.py [--launches 200000]

One program adds 1 to a tiny tensor again and again, so that the CPU is what takes time. Each
way runs three times in a process of its own; the best counts. Goal: taupy adds at most half of
what torch.profiler adds.
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
    asked = parser.parse_args()
    if asked.worker:
        launch(asked.launches, asked.kineto)
        return
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed")
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        taupy = [sys.executable, "-m", "taupy", "run", "-q", "--db", os.path.join(folder, "t.db")]
        native = measure([sys.executable], asked.launches)
        print(f"{'way':24} {'us/launch':>10} {'added':>8}")
        print(f"{'native':24} {native:10.2f}")
        for name, way, more in (
            ("taupy --no-gpu", [*taupy, "--no-gpu"], ()),
            ("taupy", taupy, ()),
            ("taupy --trace", [*taupy, "--trace"], ()),
            ("torch.profiler", [sys.executable], ("--kineto",)),
        ):
            took = measure(way, asked.launches, *more)
            print(f"{name:24} {took:10.2f} {took - native:8.2f}", flush=True)


if __name__ == "__main__":
    main()
