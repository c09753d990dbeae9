"""Call trees from stacks with weights, as in the formats of samplers and flame graphs."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from taupy.errors import FormatError
from taupy.formats import limits
from taupy.model import invariants
from taupy.model.forest import inclusive, subroutines
from taupy.model.profile import ROOT_TIMER, CallTree, Metric, Profile, ThreadProfile, Timer
from taupy.model.timers import Timers

_OUR_PLACE = re.compile(r"(.*) \[\{([^{}]+)\}\{([1-9][0-9]{0,8})\}\]", re.DOTALL)


FRAMES_AT_MOST = 100_000_000

_Frame = TypeVar("_Frame")


def routine_timer(name: str, file: str | None = None, line: int | None = None) -> Timer:
    """The timer of a frame; a name in our own spelling, `f [{file}{12}]`, is parsed."""
    if file is not None and line is not None and 0 < line < 1 << 31:
        return Timer(name, file, line)
    if file:
        return Timer(f"{name} [{{{file}}}]", path=file, short=name)
    if match := _OUR_PLACE.fullmatch(name):
        return Timer(match[1], match[2], int(match[3]))
    return Timer(name, groups=("SAMPLE",))


class Stacks:
    """Call paths of one thread with their own weights. Row 0 is above all of them."""

    def __init__(self) -> None:
        self.timer = array("q", [-1])
        self.parent = array("q", [-1])
        self.calls = array("q", [0])
        self.weight: list[int | float] = [0]
        self._children: dict[tuple[int, int], int] = {}

    def below(self, row: int, timer: int) -> int:
        """The row of a timer under another row, created if necessary."""
        key = (row, timer)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = len(self.timer)
            self.timer.append(timer)
            self.parent.append(row)
            self.calls.append(0)
            self.weight.append(0)
        return child

    def add(self, row: int, weight: int | float) -> None:
        self.weight[row] += weight

    def hang(self, timer: int, other: Stacks) -> None:
        """Add the paths of another, under that timer."""
        self.take(other, self.below(0, timer))

    def take(self, other: Stacks, under: int = 0) -> None:
        """Add the paths of another; different frames that became the same timer are summed."""
        moved = [under]
        for row in range(1, len(other.timer)):
            moved.append(self.below(moved[other.parent[row]], other.timer[row]))
        for row, place in enumerate(moved):
            self.weight[place] += other.weight[row]
            self.calls[place] += other.calls[row]

    def tree(self, metric: Metric, timers: Timers) -> CallTree:
        """The tree with these weights as the values of a metric; see `joined_tree`."""
        return joined_tree([(metric, self)], timers)


def joined_tree(parts: Sequence[tuple[Metric, Stacks]], timers: Timers) -> CallTree:
    """The tree of one thread, from the separate paths of each metric.

    Inclusive values are sums of weights; subroutines are sums of callees' calls. Times are rounded
    to whole nanoseconds. The root is the first frame if all paths share it, otherwise
    `.taupy application`.
    """
    whole = Stacks()
    weights: dict[str, list[int | float]] = {}
    units: dict[str, str] = {}
    for metric, stacks in parts:
        whole.weight = weights.get(metric.name, [])
        whole.weight += [0] * (len(whole.timer) - len(whole.weight))
        whole.take(stacks)
        weights[metric.name] = whole.weight
        units[metric.name] = metric.unit
    rows = len(whole.timer)
    for values in weights.values():
        values += [0] * (rows - len(values))
    skip = int(whole.parent.count(0) == 1 and not any(of_row[0] for of_row in weights.values()))
    timer = whole.timer[skip:]
    if not skip:
        timer[0] = timers.place(Timer(ROOT_TIMER, groups=("TAUPY",)))
    parent = array("q", [above - skip for above in whole.parent[skip:]])
    parent[0] = -1
    calls = whole.calls[skip:]
    exclusive = {
        name: _column(values[skip:], whole=units[name] == "ns") for name, values in weights.items()
    }
    return CallTree(
        timer=timer,
        parent=parent,
        calls=calls,
        subroutines=subroutines(parent, calls),
        inclusive={name: inclusive(parent, column) for name, column in exclusive.items()},
        exclusive=exclusive,
    )


def nothing_to_write(what: str, profile: Profile) -> FormatError:
    """The error that a format can hold none of the trial's values."""
    names = [metric.name for metric in profile.metrics]
    more = [f"{len(names) - 5} more"] if len(names) > 6 else []
    metric_names = ", ".join(names[:5] + more if more else names) or "none"
    return FormatError(
        f"{what}, and this trial has none (its metrics: {metric_names}); tau, pprof and csv "
        "hold any metric"
    )


def refuse_depth(profile: Profile) -> None:
    """Refuse a profile whose stacks, each of which is written whole, would fill a disk.

    Raises:
        FormatError: recursion is too deep.
    """
    frames = deepest = 0
    for measured in profile.threads:
        depths: list[int] = []
        for parent in measured.tree.parent:
            depths.append(depths[parent] + 1 if parent >= 0 else 1)
        frames += sum(depths)
        deepest = max(deepest, *depths, 0)
    if frames > FRAMES_AT_MOST:
        raise FormatError(
            f"call paths are up to {deepest} routines deep, and a stack for each would take "
            f"{frames} frames: cut them off with --depth, or use a format that holds a tree "
            "(hatchet)"
        )


def stacked(
    tree: CallTree, frames: Sequence[_Frame] | Mapping[int, _Frame]
) -> Iterator[list[_Frame]]:
    """The stack of each row: the frames of its callers, then its own.

    It is one list, which changes with each row: all stacks of a deep recursion do not fit into
    memory.

    Args:
        frames: by timer.
    """
    timer = tree.timer
    stack = list[_Frame]()
    for kept, new in walk(tree):
        del stack[kept:]
        stack += [frames[timer[row]] for row in new]
        yield stack


def walk(tree: CallTree, top: int = -1) -> Iterator[tuple[int, Sequence[int]]]:
    """How the stack of each row, below row `top`, is made of the one before: how many of its frames
    stay, and the rows of those that follow. In preorder, a row is climbed from no more than once.
    """
    parent, callers = tree.parent, list[int]()
    for row, above in enumerate(parent):
        while callers and callers[-1] != above:
            callers.pop()
        kept = len(callers)
        new: Sequence[int] = (row,)
        if not callers and above > top:
            while above > top:
                callers.append(above)
                above = parent[above]
            callers.reverse()
            new = (*callers, row)
        yield kept, new
        if row > top:
            callers.append(row)


def unsummed(profile: Profile, metric: str | None, kept: str) -> list[str]:
    """What a format loses that keeps only one of a call path's two values, as lines of text.

    Args:
        metric: None for all.
        kept: exclusive or inclusive; readers derive the other from it.
    """
    count = sum(
        invariants.unsummed(thread.tree, name)
        for thread in profile.threads
        for name in thread.tree.inclusive
        if metric in (None, name)
    )
    lost = "inclusive" if kept == "exclusive" else "exclusive"
    how = "the sum of callees" if kept == "exclusive" else "the excess over the sum of callees"
    return [
        f"{lost} values of {count} call paths, whose callees are not all known; readers show {how}"
    ] * bool(count)


def _column(values: Sequence[int | float], *, whole: bool) -> array[int]:
    if whole:
        values = [value if isinstance(value, int) else round(value) for value in values]
    if all(isinstance(value, int) for value in values) and sum(map(abs, values)) <= limits.INTEGER:
        return array("q", values)  # type: ignore[arg-type]
    reals = [float(value) if math.isfinite(value) else math.nan for value in values]
    return array("d", reals)  # type: ignore[return-value]


def profile_of(
    source: Path,
    timers: list[Timer],
    threads: list[ThreadProfile],
    metrics: list[Metric],
    *,
    application: str = "",
    duration_ns: int | None = None,
) -> Profile:
    """A profile with the facts that a file without metadata gives: its name and date."""
    if duration_ns is None:
        tops = [
            thread.tree.inclusive["time"][0]
            for thread in threads
            if "time" in thread.tree.inclusive and len(thread.tree)
        ]
        duration_ns = int(max(tops, default=0))
    name = source.absolute().name
    return Profile(
        uuid="",
        application=application or name.split(".")[0] or name,
        experiment="default",
        started_at=source.stat().st_mtime,
        duration_ns=duration_ns,
        timers=timers,
        threads=threads,
        metrics=metrics,
    )
