"""By how many per cent measuring slows training loops with NumPy and PyTorch.

    python benchmarks/training.py

The loops are those of examples/mnist.py and examples/torch_cnn.py (on the CPU), on real
digits. PyTorch is skipped if it is not installed. The tools take turns in each round; the table
shows the median and the middle half of CPU time over native CPU time of the same round.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import tools
import workloads
from tools import Session

SHOWN = ["native", "taupy", "taupy-c-calls", "cprofile"]
GOAL_PERCENT = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="By how much measuring slows training.")
    parser.add_argument("--sessions", type=int, default=3, help="fresh processes so many times")
    parser.add_argument("--rounds", type=int, default=12, help="of each loop in a session")
    arguments = parser.parse_args()
    programs = [w for w in workloads.available() if w.needs]
    if not programs:
        sys.exit("training.py: install numpy or torch to train something")
    chosen = tools.available(SHOWN)
    print(f"{tools.machine()}; {arguments.sessions} x {arguments.rounds} rounds\n")
    times: dict[str, list[dict[str, float]]] = {program.name: [] for program in programs}
    for _ in range(arguments.sessions):
        with Session(chosen) as session:
            for program in programs:
                times[program.name] += session.rounds(program.name, arguments.rounds)
    print("| loop | native, s | measured by | slower by, % | middle half, % | goal |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for name, rows in times.items():
        native = statistics.median(row["native"] for row in rows)
        for tool in chosen[1:]:
            slower = [100 * (row[tool.name] / row["native"] - 1) for row in rows]
            low, middle, high = statistics.quantiles(slower, n=4)
            goal = f"< {GOAL_PERCENT} %" if tool.name == "taupy" else ""
            print(
                f"| {name} | {native:.3f} | {tool.title} | {middle:+.1f} "
                f"| {low:+.1f} to {high:+.1f} | {goal} |"
            )


if __name__ == "__main__":
    main()
