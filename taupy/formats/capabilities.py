"""The parts of a trial that each format can hold, and those that an export therefore omits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from taupy.model.profile import TIME, Metric, Profile, ThreadProfile
from taupy.units import several

SAMPLES: Final = Metric("samples", "count")
"""The metric of a sampler that does not state the unit of its samples."""

Part = Literal[
    "routines",
    "call paths",
    "calls",
    "metrics",
    "threads",
    "streams",
    "user events",
    "launches",
    "devices",
    "activities",
    "samples",
    "steps",
    "collectives",
    "operator inputs",
    "layers",
    "lines",
    "modules",
    "metadata",
    "node metadata",
]
"""A part of a trial; `metrics` means more than one."""

EVERYTHING: Final = frozenset[Part](get_args(Part))
VALUES: Final = frozenset[Part](("routines", "calls", "metrics", "threads", "streams"))
"""The parts that a table of routines can hold."""


def one_metric(profile: Profile) -> Metric | None:
    """The metric that a format with a single metric gets: `time`, else samples, else the first."""
    metrics = {metric.name: metric for metric in profile.metrics}
    names = [name for name in (TIME.name, SAMPLES.name, *metrics) if name in metrics]
    return metrics[names[0]] if names else None


def left_out(profile: Profile, holds: frozenset[Part]) -> list[tuple[Part, str]]:
    """The parts of the trial that a format cannot hold, each with a description."""
    texts = ((part, words(profile)) for part, words in _WORDS.items() if part not in holds)
    return [(part, text) for part, text in texts if text]


def _metrics(profile: Profile) -> str:
    shown = one_metric(profile)
    measured = {name for thread in profile.threads for name in thread.tree.inclusive}
    others = sorted(measured - {shown.name if shown else ""})
    return f"metrics other than {shown.name}: {', '.join(others)}" if shown and others else ""


def _threads(profile: Profile) -> str:
    count = sum(thread.thread.kind == "host" for thread in profile.threads)
    return f"single threads; the times of {count} threads are summed" if count > 1 else ""


def _streams(profile: Profile) -> str:
    count = sum(thread.thread.kind != "host" for thread in profile.threads)
    return f"{several(count, 'stream')} of GPUs" if count else ""


def _if_any(words: str, of_thread: Callable[[ThreadProfile], object]) -> Callable[[Profile], str]:
    return lambda profile: words if any(map(of_thread, profile.threads)) else ""


_WORDS: Final[Mapping[Part, Callable[[Profile], str]]] = {
    "routines": _if_any("values of routines", lambda thread: len(thread.tree)),
    "call paths": _if_any("whole call paths", lambda thread: len(thread.tree)),
    "calls": _if_any("numbers of calls", lambda thread: len(thread.tree)),
    "metrics": _metrics,
    "threads": _threads,
    "streams": _streams,
    "user events": _if_any("user events", lambda thread: thread.user_events),
    "launches": _if_any(
        "launch configurations (grid, block, registers, occupancy)", lambda thread: thread.launches
    ),
    "devices": lambda profile: "descriptions of GPUs" if profile.devices else "",
    "activities": _if_any(
        "single activities and their times", lambda thread: any(True for _ in thread.activities)
    ),
    "samples": _if_any("values over time", lambda thread: thread.samples),
    "collectives": _if_any("collectives of several ranks", lambda thread: thread.collectives),
    "operator inputs": _if_any("sizes of operators' inputs", lambda thread: thread.inputs),
    "steps": _if_any("steps of a training", lambda thread: thread.steps),
    "lines": _if_any("times of lines", lambda thread: thread.lines),
    "modules": lambda profile: "modules that were loaded" if profile.modules else "",
    "layers": lambda profile: "shapes and operations of layers" if profile.layers else "",
    "metadata": lambda profile: "metadata" if profile.metadata else "",
    "node metadata": lambda profile: (
        "metadata of single nodes" if any(profile.node_metadata.values()) else ""
    ),
}
