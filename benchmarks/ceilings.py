"""How near the measured ceilings come to what the processor can do in theory.

    python benchmarks/ceilings.py

Theory: flop (or bytes of L1) in one clock, times the clock measured beside each ceiling.
Known for CPUs by their vector units; shown is measured over theory.
"""

from __future__ import annotations

import time

import tools

from taupy.ert import cpu

# Two units of fused multiply-add; two loads and one store a clock, as wide as the vectors.
FLOP_A_CLOCK = {"scalar": 1, "128-bit": 128, "256-bit": 256, "512-bit": 512}
UNITS = 2


def theory(ceiling: cpu.Ceiling) -> float | None:
    """Flop or bytes a clock of all threads; None where we know no rule."""
    if ceiling.kind == "compute" and ceiling.name in ("fp64", "fp32"):
        how, width = ceiling.pattern.split()
        bits = 64 if ceiling.name == "fp64" else 32
        lanes = 1 if width == "scalar" else FLOP_A_CLOCK[width] // bits
        return lanes * UNITS * ceiling.threads * (2 if how == "fma" else 1)
    if ceiling.name == "L1" and ceiling.pattern == "read":
        return 64 * UNITS * ceiling.threads
    return None


def main() -> None:
    print(tools.machine(), end="\n\n")
    subject = cpu.Subject("benchmark", "", "this CPU", "")
    start = time.perf_counter()
    found = list(cpu.characterize(subject, lambda text: None))
    took = time.perf_counter() - start
    print("| ceiling | threads | best | clock, GHz | a clock | in theory | reached | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in found:
        expected = theory(one)
        if expected is None or one.clock_hz is None:
            continue
        a_clock = one.value / one.clock_hz
        print(
            f"| {one.name} {one.pattern} | {one.threads} | {one.value / 1e9:.1f} G{one.unit} "
            f"| {one.clock_hz / 1e9:.2f} | {a_clock:.1f} | {expected} "
            f"| {100 * a_clock / expected:.1f} % | > 95 % |"
        )
    print(f"\n{len(found)} ceilings in {took:.1f} s; goal: < 10 s")


if __name__ == "__main__":
    main()
