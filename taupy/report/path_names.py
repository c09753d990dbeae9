"""Call paths of different trials under common keys, and their names when asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from taupy.analysis.match import Key

Parents = Mapping[int, tuple[int, int | None]]
"""Call path id -> its timer's id and its parent's id."""


def path_keys(parents: Sequence[Parents], timers: Sequence[Mapping[int, Key]]) -> PathsById:
    """Keys for the call paths of each side, whose timers have these keys."""
    if all(key.rule == "same" for side in timers for key in side.values()):
        return PathsById(parents, timers)
    return PathsByName(parents, timers)


class PathsById(Mapping[Hashable, Key]):
    """Call paths whose routines all match by name: equal ids are equal paths.

    As a mapping it gives the names of a path, which are put together when asked for.
    """

    def __init__(
        self,
        parents: Sequence[Parents],
        timers: Sequence[Mapping[int, Key]],
    ) -> None:
        self._steps: dict[Any, tuple[Any, Any]] = {}
        self._timers: dict[Any, Key] = {}
        for side in parents:
            self._steps.update(side)
        for known in timers:
            self._timers.update(known)

    def key(self, side: int, id: int) -> Hashable:
        return id

    def __getitem__(self, key: Hashable) -> Key:
        names: list[str] = []
        here: Any = key
        last = self._timers[self._steps[key][0]]
        rule = last.rule
        while here is not None and here in self._steps:
            timer, here = self._steps[here]
            step = self._timers[timer]
            names.append(step.timer)
            if step.rule != "same":
                rule = step.rule
        return last._replace(identity=key, timer=" => ".join(reversed(names)), rule=rule)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class PathsByName(PathsById):
    """Call paths in which a routine goes by another name: each step is its timer's key."""

    def __init__(
        self,
        parents: Sequence[Parents],
        timers: Sequence[Mapping[int, Key]],
    ) -> None:
        self._steps = {}
        self._timers = {key.identity: key for side in timers for key in side.values()}
        number: dict[tuple[Any, Any], int] = {}
        self._number_of: list[dict[int, int]] = []
        for side, known in zip(parents, timers, strict=True):
            numbers: dict[int, int] = {}
            for id in side:
                waiting = [id]
                while waiting:
                    here = waiting[-1]
                    timer, above = side[here]
                    if above is not None and above in side and above not in numbers:
                        waiting.append(above)
                        continue
                    step = (known[timer].identity, None if above is None else numbers.get(above))
                    numbers[here] = number.setdefault(step, len(number))
                    self._steps[numbers[here]] = step
                    waiting.pop()
            self._number_of.append(numbers)

    def key(self, side: int, id: int) -> Hashable:
        return self._number_of[side][id]
