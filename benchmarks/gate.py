"""How often `taupy gate` decides correctly on recorded run times, and after how many pairs.

    python benchmarks/gate.py              120 recorded runs, 1,000 gates per line
    python benchmarks/gate.py --gates 100  fewer

A program runs 120 times under taupy. Gates are then simulated by drawing pairs of these times at
random: baseline and candidate are the same program (A/A), or the candidate's times are a given
share longer. The limit is half of that share, so that A/A should pass and the slower candidate
should fail.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import taupy
from taupy.study.sequential import decision

PROGRAM = """\
def work():
    numbers = {}
    for number in range(60_000):
        numbers[number % 977] = numbers.get(number % 977, 0) + number * number % 7
    return len(numbers)
for _ in range(3):
    work()
"""
PLANTED = (0.01, 0.02, 0.05, 0.10)
MOST_PAIRS = 200
ALPHA = 0.05


def recorded(runs: int) -> list[float]:
    """The program's time in each run, in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(PROGRAM)
        words = [sys.executable, "-m", "taupy", "run", "--quiet", "--db", f"{folder}/runs.db"]
        for _ in range(runs):
            subprocess.run([*words, str(script)], check=True)
        db = taupy.open(f"{folder}/runs.db")
        times = []
        for trial in db.trials()["id"]:
            profile = db.trial(int(trial)).profile()
            work = profile[profile["short_name"] == "work"]
            times.append(float(work["inclusive"].sum()))
        return times


def play(times: list[float], change: float, limit: float, gates: int, seed: int) -> str:
    chance = random.Random(seed)
    verdicts, pairs = [], []
    for _ in range(gates):
        drawn = ((chance.choice(times), chance.choice(times)) for _ in range(MOST_PAIRS))
        beyond = [after * (1 + change) > before * (1 + limit) for before, after in drawn]
        verdict, count, _ = decision(beyond, ALPHA)
        verdicts.append(verdict)
        pairs.append(count)
    shares = " | ".join(
        f"{100 * verdicts.count(verdict) / gates:.1f} %"
        for verdict in ("fails", "passes", "undecided")
    )
    return f"{shares} | {statistics.median(pairs):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--gates", type=int, default=1000)
    arguments = parser.parse_args()
    times = recorded(arguments.runs)
    middle = statistics.median(times)
    spread = statistics.median(abs(time - middle) for time in times) / middle
    print(f"{len(times)} runs, median {middle / 1e6:.1f} ms, median deviation {100 * spread:.1f} %")
    print("\n| change | limit | fails | passes | undecided | pairs, median |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for seed, planted in enumerate(PLANTED):
        limit = planted / 2
        for change in (0.0, planted):
            answer = play(times, change, limit, arguments.gates, seed)
            label = "A/A" if not change else f"+{100 * change:g} %"
            print(f"| {label} | +{100 * limit:g} % | {answer} |")


if __name__ == "__main__":
    main()
