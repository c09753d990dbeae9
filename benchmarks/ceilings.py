"""How near the measured ceilings come to what the processor can do in theory.

    python benchmarks/ceilings.py
    python benchmarks/ceilings.py --carm carm --rounds 3     # and to a peer, in turns

Theory: flop (or bytes of L1) in one clock, times the clock measured beside each ceiling.
Known for CPUs by their vector units; shown is measured over theory.

The peer is CARM (pip install carm-roofline, into an environment of its own), which gives the
mean of a long run where taupy gives the best of many short windows. Both take turns, and a
figure is the median over the rounds. CARM reads a clock that is not the processor's in some
virtual machines, so its rates, too, are divided by the clock that taupy measured.
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

# Two units of fused multiply-add; two loads and one store a clock, as wide as the vectors.
BITS = {"scalar": 1, "128-bit": 128, "256-bit": 256, "512-bit": 512}
UNITS = 2
CARM_ISA = {"512-bit": "x86_avx512", "256-bit": "x86_avx2", "128-bit": "x86_sse"}
CARM_NAMES = {"f64": "fp64", "f32": "fp32"}

Key = tuple[str, str, int]
"""Name, pattern and threads of a ceiling."""


def theory(name: str, pattern: str, threads: int) -> float | None:
    """Flop or bytes a clock of all threads; None where we know no rule."""
    if name in ("fp64", "fp32"):
        how, width = pattern.split()
        bits = 64 if name == "fp64" else 32
        lanes = 1 if width == "scalar" else BITS[width] // bits
        return lanes * UNITS * threads * (2 if how == "fma" else 1)
    if name == "L1" and pattern == "read":
        return 64 * UNITS * threads
    return None


def taupy_round() -> tuple[dict[Key, cpu.Ceiling], float]:
    """All ceilings of this CPU, and the seconds that they took."""
    subject = cpu.Subject("benchmark", "", "this CPU", "")
    start = time.perf_counter()
    found = list(cpu.characterize(subject, lambda text: None))
    took = time.perf_counter() - start
    return {(one.name, one.pattern, one.threads): one for one in found}, took


def widest(found: Iterable[Key]) -> str:
    """The widest vectors that multiply and add here: "512-bit"."""
    there = {pattern.split()[1] for name, pattern, _ in found if name == "fp64"}
    return max(there, key=lambda width: BITS[width])


def carm_round(carm: str, isa: str, test_time: float) -> tuple[dict[Key, float], float]:
    """What CARM finds with one thread, by the names that taupy gives it, and the seconds."""
    width = next(one for one in CARM_ISA if CARM_ISA[one] == isa)
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
    found: dict[Key, float] = {}
    for one in lines:
        if one["type"] == "arithmetic":
            key = (CARM_NAMES[one["data_type"]], f"fma {width}", 1)
            found[key] = one["performance_gops"] * 1e9
        elif one["type"] == "memory":
            key = (one["cache_level"], "read", 1)
            found[key] = max(found.get(key, 0.0), one["bandwidth_gbps"] * 1e9)
    return found, took


def show_theory(rounds: Mapping[Key, list[cpu.Ceiling]]) -> None:
    print("| ceiling | threads | best | clock, GHz | a clock | in theory | reached | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (name, pattern, threads), seen in rounds.items():
        expected = theory(name, pattern, threads)
        if expected is None or any(one.clock_hz is None for one in seen):
            continue
        value = median(one.value for one in seen)
        clock = median(one.clock_hz for one in seen)
        reached = median(one.value / one.clock_hz for one in seen)
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
                f"{100 * median(one.value / one.clock_hz for one, _ in pairs) / expected:.0f} %",
                f"{100 * median(value / one.clock_hz for one, value in pairs) / expected:.0f} %",
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
        print(f"CARM is left out: there is no program '{args.carm}' (pip install carm-roofline)\n")
    print(tools.machine(), end="\n\n")
    ours: dict[Key, list[cpu.Ceiling]] = defaultdict(list)
    theirs: dict[Key, list[float]] = defaultdict(list)
    our_times, their_times = [], []
    for _ in range(max(1, args.rounds)):
        found, took = taupy_round()
        our_times.append(took)
        for key, one in found.items():
            ours[key].append(one)
        isa = CARM_ISA.get(widest(found))
        if carm and isa is None:
            print("CARM is left out: no vectors are known here that it has kernels for\n")
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
