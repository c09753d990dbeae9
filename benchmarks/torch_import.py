"""What measuring costs `import torch, torch._dynamo`: the whole process, storing included.

    python benchmarks/torch_import.py

The program is run natively, with `taupy run`, with `taupy run --imports` and under cProfile, in
turns. The table shows the CPU time of all processes: the median, and the median ratio to the native
run of the same round.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import tools

PROGRAM = "import torch, torch._dynamo\n"


def cpu_s(command: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder, env=tools.environment(folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="What measuring costs the import of PyTorch.")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    python, load = sys.executable, os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        run = [python, "-m", "taupy", "run", "--quiet", "--db", "taupy.db"]
        commands = {
            "native": [python, "program.py"],
            "taupy run": [*run, "program.py"],
            "taupy run --imports": [*run, "--imports", "program.py"],
            "cProfile": [python, "-m", "cProfile", "-o", "program.prof", "program.py"],
        }
        taken: dict[str, list[float]] = {title: [] for title in commands}
        for number in range(rounds + 1):
            for title, command in commands.items():
                took = cpu_s(command, folder)
                if number:  # the first round warms up
                    taken[title].append(took)
    tools.print_ratios(taken, "CPU time", rounds, load)


if __name__ == "__main__":
    main()
