"""How close the measured ceilings come to the processor's theoretical peaks.

    python benchmarks/ceilings.py
    python benchmarks/ceilings.py --carm carm --rounds 3     # also compared with CARM

The theoretical peak is the flop (or bytes from L1) per clock cycle, known from the CPU's vector
units, times the clock rate measured with each ceiling.

CARM (pip install carm-roofline, in its own environment) reports the mean of a long run; taupy
reports the best of many short windows. Both run in turns, and a figure is the median over the
rounds. In some virtual machines CARM reads a clock other than the processor's, so its rates are
also divided by the rate that taupy measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

import tools

from taupy.ert import cpu

# Two fused multiply-add units; per cycle two loads and one store, as wide as the vectors.
BITS = {"scalar": 1, "128-bit": 128, "256-bit": 256, "512-bit": 512}
UNITS = 2
CARM_ISA = {"512-bit": "x86_avx512", "256-bit": "x86_avx2", "128-bit": "x86_sse"}
CARM_NAMES = {"f64": "fp64", "f32": "fp32"}

Key = tuple[str, str, int]
"""A ceiling's name, pattern and number of threads."""


def theory(name: str, pattern: str, threads: int) -> float | None:
    """Flop or bytes per cycle of all threads; None if no rule is known."""
    if name in ("fp64", "fp32"):
        how, width = pattern.split()
        bits = 64 if name == "fp64" else 32
        lanes = 1 if width == "scalar" else BITS[width] // bits
        return lanes * UNITS * threads * (2 if how == "fma" else 1)
    if name == "L1" and pattern == "read":
        return 64 * UNITS * threads
    return None


def taupy_round() -> tuple[dict[Key, cpu.Ceiling], float]:
    """All ceilings of this CPU, and the seconds that measuring them took."""
    subject = cpu.Subject("benchmark", "", "this CPU", "")
    start = time.perf_counter()
    ceilings = list(cpu.characterize(subject, lambda text: None))
    took = time.perf_counter() - start
    return {(ceiling.name, ceiling.pattern, ceiling.threads): ceiling for ceiling in ceilings}, took


def widest(keys: Iterable[Key]) -> str:
    """The widest vectors with multiply-add on this CPU, such as "512-bit"."""
    widths = {pattern.split()[1] for name, pattern, _ in keys if name == "fp64"}
    return max(widths, key=lambda width: BITS[width])


def carm_round(carm: str, isa: str, test_time: float) -> tuple[dict[Key, float], float]:
    """CARM's ceilings of one thread under taupy's names, and the seconds that they took."""
    width = next(bits for bits, name in CARM_ISA.items() if name == isa)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(carm, "benchmark", "--test", "roofline", "--isa", isa),
            *("--data-type", "f32", "f64", "--instruction", "fma", "--ld-st-ratio", "1:0"),
            *("--threads", "1", "--test-time", f"{test_time:g}"),
            *("--output-fmt", "jsonl", "--output-dir", folder, "--name", "here"),
        ]
        start = time.perf_counter()
        ran = subprocess.run(command, capture_output=True, text=True)
        took = time.perf_counter() - start
        results = Path(folder) / "here" / "benchmarks.jsonl"
        if ran.returncode or not results.exists():
            sys.exit(f"{' '.join(command)} failed:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        lines = [json.loads(line) for line in results.read_text().splitlines()]
    values: dict[Key, float] = {}
    for result in lines:
        if result["type"] == "arithmetic":
            key = (CARM_NAMES[result["data_type"]], f"fma {width}", 1)
            values[key] = result["performance_gops"] * 1e9
        elif result["type"] == "memory":
            key = (result["cache_level"], "read", 1)
            values[key] = max(values.get(key, 0.0), result["bandwidth_gbps"] * 1e9)
    return values, took


def show_theory(rounds: Mapping[Key, list[cpu.Ceiling]]) -> None:
    print("| ceiling | threads | best | clock, GHz | a clock | in theory | reached | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (name, pattern, threads), seen in rounds.items():
        expected = theory(name, pattern, threads)
        if expected is None or any(ceiling.clock_hz is None for ceiling in seen):
            continue
        value = median(ceiling.value for ceiling in seen)
        clock = median(ceiling.clock_hz for ceiling in seen)
        reached = median(ceiling.value / ceiling.clock_hz for ceiling in seen)
        print(
            f"| {name} {pattern} | {threads} | {value / 1e9:.1f} G{seen[0].unit} "
            f"| {clock / 1e9:.2f} | {reached:.1f} | {expected} "
            f"| {100 * reached / expected:.1f} % | > 95 % |"
        )


def show_carm(rounds: Mapping[Key, list[cpu.Ceiling]], theirs: Mapping[Key, list[float]]) -> None:
    print("\n| one thread | taupy | CARM | CARM / taupy | taupy / theory | CARM / theory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for key, values in theirs.items():
        ours = rounds.get(key, [])
        if not ours:
            continue
        unit = ours[0].unit
        expected = theory(*key)
        shares = ["", ""]
        if expected is not None:
            pairs = [
                (ceiling, value)
                for ceiling, value in zip(ours, values, strict=True)
                if ceiling.clock_hz
            ]
            shares = [
                f"{100 * median(own.value / own.clock_hz for own, _ in pairs) / expected:.0f} %",
                f"{100 * median(value / own.clock_hz for own, value in pairs) / expected:.0f} %",
            ]
        mine, other = median(ceiling.value for ceiling in ours), median(values)
        ratio = median(value / ceiling.value for ceiling, value in zip(ours, values, strict=True))
        print(
            f"| {key[0]} {key[1]} | {mine / 1e9:.1f} G{unit} | {other / 1e9:.1f} G{unit} "
            f"| {ratio:.2f} | {shares[0]} | {shares[1]} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="of all tools, in turns")
    parser.add_argument("--carm", metavar="PROGRAM", help="measure CARM, too: its `carm`")
    parser.add_argument(
        "--carm-time", type=float, default=25.0, help="CARM's --test-time, s (its own: 25)"
    )
    args = parser.parse_args()
    carm = shutil.which(args.carm) if args.carm else None
    if args.carm and carm is None:
        print(f"CARM is skipped: there is no program '{args.carm}' (pip install carm-roofline)\n")
    print(tools.machine(), end="\n\n")
    ours: dict[Key, list[cpu.Ceiling]] = defaultdict(list)
    theirs: dict[Key, list[float]] = defaultdict(list)
    our_times, their_times = [], []
    for _ in range(max(1, args.rounds)):
        ceilings, took = taupy_round()
        our_times.append(took)
        for key, ceiling in ceilings.items():
            ours[key].append(ceiling)
        isa = CARM_ISA.get(widest(ceilings))
        if carm and isa is None:
            print("CARM is skipped: it has no kernels for this CPU's vectors\n")
            carm = None
        if carm and isa:
            values, took = carm_round(carm, isa, args.carm_time)
            their_times.append(took)
            for key, value in values.items():
                theirs[key].append(value)
    show_theory(ours)
    if theirs:
        show_carm(ours, theirs)
    print(f"\n{len(ours)} ceilings in {median(our_times):.1f} s; goal: < 10 s")
    if their_times:
        print(
            f"CARM: {len(theirs)} in {median(their_times):.0f} s (--test-time "
            f"{args.carm_time:g}); medians of {len(their_times)} rounds"
        )


if __name__ == "__main__":
    main()
