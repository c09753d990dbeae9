"""Read Triton's Proton: a tree of scopes, functions and kernels in Hatchet's literal form.

A list of root nodes, each with `frame`, `metrics` and `children`, and at the end an object that
describes the devices. A node with a device has the values of work on that device, below the scopes
that launched it; each device is one stream. Other metrics keep Proton's names and have no unit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taupy.formats import limits
from taupy.formats.reading import refusal, whole
from taupy.formats.registry import Format
from taupy.formats.stacks import Stacks, joined_tree, profile_of, routine_timer
from taupy.model.kernel_names import kernel_timer
from taupy.model.profile import TIME, Metric, Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import Progress
from taupy.model.timers import Timers

_LITERAL = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
_PLACE = re.compile(r"(.+):([^:@]+)@([0-9]{1,9})", re.ASCII | re.DOTALL)
_TIME = re.compile(r"time \((ns|us|ms|s)\)")
_FACTORS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}
_OF_DEVICE = ("device_id", "device_type")
_CALLS = "count"

Place = tuple[str, int] | None
"""Kind and number of a device; None for the host."""


def recognises(path: Path, first_bytes: bytes) -> bool:
    return (
        _LITERAL.match(first_bytes) is not None
        and b'"frame"' in first_bytes
        and b'"metrics"' in first_bytes
    )


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    data = whole(source, progress, limits.DOCUMENT_BYTES, "Proton's JSON")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise refusal(source, "", f"not JSON: {problem}") from None
    yield _Reading(source).profile(document)


class _Reading:
    def __init__(self, source: Path) -> None:
        self._source = source
        self._timers = Timers()
        self._stacks: dict[Place, dict[Metric, Stacks]] = {}

    def profile(self, document: Any) -> Profile:
        nodes = document if isinstance(document, list) else [document]
        roots = [node for node in nodes if isinstance(node, dict) and "frame" in node]
        waiting: list[tuple[Any, str, tuple[int, ...]]] = []
        for number, node in enumerate(roots):
            waiting.insert(0, (node, f"[{number}]", ()))
        while waiting:
            node, place, above = waiting.pop()
            path = self._node(node, place, above)
            children = node.get("children", [])
            if not isinstance(children, list):
                raise refusal(self._source, place, "children that are not a list")
            below = [(child, f"{place}.children[{at}]", path) for at, child in enumerate(children)]
            waiting += reversed(below)
        if not self._stacks:
            raise refusal(self._source, "", "no node has a value")
        metrics = list(dict.fromkeys(metric for of in self._stacks.values() for metric in of))
        threads = [
            ThreadProfile(_thread(place), joined_tree([*of.items()], self._timers))
            for place, of in self._stacks.items()
        ]
        threads.sort(key=lambda measured: measured.thread)
        return profile_of(self._source, self._timers.timers, threads, metrics)

    def _node(self, node: Any, place: str, above: tuple[int, ...]) -> tuple[int, ...]:
        """Add a node's values; its path."""
        frame = node.get("frame") if isinstance(node, dict) else None
        name = frame.get("name") if isinstance(frame, dict) else None
        values = node.get("metrics", {}) if isinstance(node, dict) else None
        if not isinstance(name, str) or not isinstance(values, dict):
            raise refusal(self._source, place, "not a node with a frame and metrics")
        if len(above) >= limits.FRAMES:
            raise refusal(self._source, place, "too many nodes above each other")
        on = _device(values)
        path = (*above, self._timers.place(_timer(name[: limits.LONGEST_NAME], on is not None)))
        for key, value in values.items():
            if key in _OF_DEVICE or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if not math.isfinite(value) or abs(value) > 1 << 62:
                raise refusal(self._source, place, f"{key} is {value}")
            if key == _CALLS or not value:
                continue
            metric, factor = _metric(key)
            calls = values.get(_CALLS, 0) if metric == TIME else 0
            calls = calls if isinstance(calls, int) and 0 <= calls < 1 << 62 else 0
            self._add(on, metric, path, value * factor, calls)
        return path

    def _add(
        self, on: Place, metric: Metric, path: tuple[int, ...], value: float, calls: int
    ) -> None:
        stacks = self._stacks.setdefault(on, {}).setdefault(metric, Stacks())
        row = 0
        for timer in path:
            row = stacks.below(row, timer)
        stacks.add(row, value)
        stacks.calls[row] += calls


def _metric(key: str) -> tuple[Metric, int]:
    """The metric that Proton calls so, and the factor to its unit."""
    if match := _TIME.fullmatch(key):
        return TIME, _FACTORS[match[1]]
    return Metric(key, "B" if key == "bytes" else "count"), 1


def _device(values: dict[str, Any]) -> Place:
    number = values.get("device_id")
    if not isinstance(number, str | int) or not str(number).isdigit():
        return None
    return str(values.get("device_type", ""))[:100], min(int(str(number)[:9]), limits.DEVICES)


def _timer(name: str, on_device: bool) -> Timer:
    match = _PLACE.fullmatch(name)
    if on_device:
        group = ("GPU_KERNEL",)
        return Timer(match[2], match[1], int(match[3]), group) if match else kernel_timer(name)
    return routine_timer(match[2], match[1], int(match[3])) if match else routine_timer(name)


def _thread(place: Place) -> Thread:
    if place is None:
        return Thread(0, 0, 0)
    kind, number = place
    return Thread(0, 1 + number, 0, "stream", f"all streams of {kind} {number}".strip())


FORMAT = Format(
    name="proton",
    title="Triton's Proton",
    suffixes=(".hatchet",),
    recognises=recognises,
    read=read,
)
