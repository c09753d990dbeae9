"""A metric, and names shared by measuring and reading, without importing profiles."""

from __future__ import annotations

from taupy.dataclass import dataclass

ROOT_TIMER = ".taupy application"
"""Name of the timer at the top of every thread (TAU's `.TAU application`)."""

NOT_ROUTINES = frozenset({ROOT_TIMER, "exit"})
"""Names of rows that each process has, whatever its program is."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity summed over intervals. `time` is in nanoseconds."""

    name: str
    unit: str


TIME = Metric("time", "ns")
CPU_TIME = Metric("cpu_time", "ns")
RUN_DELAY = Metric("run_delay", "ns")
"""Time in which a thread could have run, but had no processor."""

OF_STEPS = (CPU_TIME, RUN_DELAY)
"""Known of every step, even if the trial does not measure them elsewhere."""

STATED = (
    *(
        Metric(name, "flop")
        for name in ("flop", "flop_fp64", "flop_fp32", "flop_fp16", "flop_bf16")
    ),
    Metric("bytes_dram", "B"),
)
"""Work of steps that the program states by user events, or that is derived from shapes."""
