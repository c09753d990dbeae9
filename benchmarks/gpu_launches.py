"""What a launch costs with taupy, torch.profiler and no profiler. Needs a GPU and PyTorch.

    python benchmarks/gpu_launches.py [--launches 200000] [--rounds 3]

The program adds 1 to a tiny tensor many times, so that the CPU limits its speed. In each round
every way runs once, in its own process; the best time counts. The goal is that taupy adds at most
half as much as torch.profiler.
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


def measure(way: list[str], count: int) -> float:
    """Microseconds a launch."""
    done = subprocess.run(
        [*way, "--launches", str(count), "--worker"], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--launches", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
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
        database = ["-q", "--db", os.path.join(folder, "t.db")]
        taupy = [sys.executable, "-m", "taupy", "run", *database]
        ways = {
            "native": [sys.executable, __file__],
            "taupy": [*taupy, __file__],
            "torch.profiler": [sys.executable, __file__, "--kineto"],
            "taupy --no-gpu": [*taupy, "--no-gpu", __file__],
            "taupy --trace": [*taupy, "--trace", __file__],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(1, arguments.rounds + 1):
            for name, way in ways.items():
                times[name].append(measure(way, arguments.launches))
            best = {name: min(values) for name, values in times.items()}
            print(f"round {round_}, best of each:")
            print(f"{'way':24} {'us/launch':>10} {'added':>8}")
            for name, took in best.items():
                print(f"{name:24} {took:10.2f} {took - best['native']:8.2f}", flush=True)


if __name__ == "__main__":
    main()
