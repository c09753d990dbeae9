"""Call trees from stacks with weights, as formats of samplers and flame graphs have them."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

from taupy.model.profile import ROOT_TIMER, CallTree, Metric, Profile, ThreadProfile, Timer

_LARGEST = (1 << 63) - 1
_OUR_PLACE = re.compile(r"(.*) \[\{([^{}]+)\}\{([1-9][0-9]{0,8})\}\]", re.DOTALL)


class Timers:
    """A profile's timers, each once."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self._at: dict[Timer, int] = {}

    def place(self, timer: Timer) -> int:
        place = self._at.setdefault(timer, len(self.timers))
        if place == len(self.timers):
            self.timers.append(timer)
        return place


def routine_timer(name: str, file: str | None = None, line: int | None = None) -> Timer:
    """The timer of a frame; a name in our own spelling, `f [{file}{12}]`, is taken apart."""
    if file is not None and line is not None and 0 < line < 1 << 31:
        return Timer(name, file, line)
    if file:
        return Timer(f"{name} [{{{file}}}]", path=file, short=name)
    if match := _OUR_PLACE.fullmatch(name):
        return Timer(match[1], match[2], int(match[3]))
    return Timer(name, groups=("SAMPLE",))


class Stacks:
    """Call paths of one thread with what each did itself. Row 0 is above all of them."""

    def __init__(self) -> None:
        self.timer = array("q", [-1])
        self.parent = array("q", [-1])
        self.calls = array("q", [0])
        self.weight: list[int | float] = [0]
        self._children: dict[tuple[int, int], int] = {}

    def below(self, row: int, timer: int) -> int:
        """The row of a timer under another row, made if it is new."""
        key = (row, timer)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = len(self.timer)
            self.timer.append(timer)
            self.parent.append(row)
            self.calls.append(0)
            self.weight.append(0)
        return found

    def add(self, row: int, weight: int | float) -> None:
        self.weight[row] += weight

    def hang(self, timer: int, other: Stacks) -> None:
        """Take in another's paths, under that timer."""
        moved = [self.below(0, timer)]
        for row in range(1, len(other.timer)):
            moved.append(self.below(moved[other.parent[row]], other.timer[row]))
        for row, place in enumerate(moved):
            self.weight[place] += other.weight[row]
            self.calls[place] += other.calls[row]

    def tree(self, metric: Metric, timers: Timers) -> CallTree:
        """The tree: inclusive and subroutines follow from what the paths did themselves.

        Times become whole nanoseconds, the nearest. The root is the first frame that all
        paths have; where there is none, `.taupy application`.
        """
        firsts = self.parent.count(0)
        skip = 1 if firsts == 1 and not self.weight[0] else 0
        timer = self.timer[skip:]
        if not skip:
            timer[0] = timers.place(Timer(ROOT_TIMER, groups=("TAUPY",)))
        parent = array("q", [above - skip for above in self.parent[skip:]])
        exclusive = _column(self.weight[skip:], whole=metric.unit == "ns")
        inclusive = exclusive[:]
        calls = self.calls[skip:]
        subroutines = array("q", [0]) * len(timer)
        for row in range(len(timer) - 1, 0, -1):
            inclusive[parent[row]] += inclusive[row]
            subroutines[parent[row]] += calls[row]
        return CallTree(
            timer, parent, calls, subroutines, {metric.name: inclusive}, {metric.name: exclusive}
        )


def _column(values: Sequence[int | float], *, whole: bool) -> array[int]:
    if whole:
        values = [value if isinstance(value, int) else round(value) for value in values]
    if all(isinstance(value, int) for value in values) and sum(map(abs, values)) <= _LARGEST:
        return array("q", values)  # type: ignore[arg-type]
    reals = [float(value) if math.isfinite(value) else math.nan for value in values]
    return array("d", reals)  # type: ignore[return-value]


def profile_of(
    source: Path,
    timers: Timers,
    threads: list[ThreadProfile],
    metrics: list[Metric],
    *,
    application: str = "",
    duration_ns: int | None = None,
) -> Profile:
    """The profile of a file that tells little about its program."""
    if duration_ns is None:
        tops = [
            one.tree.inclusive["time"][0]
            for one in threads
            if "time" in one.tree.inclusive and len(one.tree)
        ]
        duration_ns = int(max(tops, default=0))
    name = source.absolute().name
    return Profile(
        uuid="",
        application=application or name.split(".")[0] or name,
        experiment="default",
        started_at=source.stat().st_mtime,
        duration_ns=duration_ns,
        timers=timers.timers,
        threads=threads,
        metrics=metrics,
    )
