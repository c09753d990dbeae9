"""What the first run with PyTorch in a fresh state folder costs the program's own loop.

    python benchmarks/first_run.py

The program trains a small network and prints the CPU time of its loop, without the import. It is
run natively, with `taupy run` in a fresh state folder, and once more in the same folder, in turns.
The table shows the median, and the median ratio to the native run of the same round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tools

PROGRAM = """
import time
import torch
from torch import nn
torch.set_num_threads(1)
width = {width}
model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
began = time.process_time()
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.randn(256, width)).pow(2).mean().backward()
    optimizer.step()
print(time.process_time() - began)
"""


def loop_s(command: list[str], environment: dict[str, str], folder: Path) -> float:
    done = subprocess.run(
        command, check=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the first run costs the program's loop.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=512, help="of the network's layers")
    args = parser.parse_args()
    python, load = sys.executable, os.getloadavg()[0]
    taken: dict[str, list[float]] = {"native": [], "first run": [], "second run": []}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
            folder = Path(name)
            (folder / "program.py").write_text(PROGRAM.format(width=args.width, steps=args.steps))
            environment = tools.environment(folder)
            run = [python, "-m", "taupy", "run", "--quiet", "--db", "taupy.db", "program.py"]
            for title, times in taken.items():
                command = [python, "program.py"] if title == "native" else run
                times.append(loop_s(command, environment, folder))
    tools.print_ratios(taken, "CPU time of the loop", args.rounds, load, digits=3)


if __name__ == "__main__":
    main()
