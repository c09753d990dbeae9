"""A metric, and names shared by measuring and reading, without importing profiles."""

from __future__ import annotations

from dataclasses import dataclass

ROOT_TIMER = ".taupy application"
"""Name of the timer at the top of every thread (TAU's `.TAU application`)."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity summed over intervals. `time` is in nanoseconds."""

    name: str
    unit: str


TIME = Metric("time", "ns")
