"""Any number of call paths with all their ancestors: one statement per 20,000 call paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taupy.dataclass import dataclass
from taupy.model.rows import TimerRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels, steps_up


@dataclass(frozen=True, slots=True)
class Ancestry:
    """Some call paths and their ancestors.

    Attributes:
        steps: call path -> its parent, None for a root, and its timer's id.
        timers: by id.
    """

    steps: dict[int, tuple[int | None, int]]
    timers: dict[int, TimerRow]

    @classmethod
    def of(cls, db: ProfileDB, callpaths: Iterable[int | None]) -> Ancestry:
        steps = steps_up(db, callpaths)
        named = labels(db, "timer", list(dict.fromkeys(timer for _, timer in steps.values())))
        return cls(steps, {id: timer for id, (timer,) in named.items() if id is not None})

    def ids(self, callpath: int | None) -> Iterator[int]:
        """The call path and its ancestors, up to its root.

        Raises:
            ValueError: a call path is its own ancestor: the file is damaged.
        """
        here, left = callpath, len(self.steps)
        while here is not None and here in self.steps:
            if not left:
                raise ValueError("a call path is its own ancestor")
            yield here
            here, _ = self.steps[here]
            left -= 1

    def up(self, callpath: int | None) -> Iterator[int]:
        """The timer ids of the call path and its ancestors."""
        for id in self.ids(callpath):
            yield self.steps[id][1]

    def names(self, callpath: int, longest: int | None = None) -> list[str]:
        """The full names from the root; if more than `longest`, "..." and the last ones."""
        timers = list(self.up(callpath))
        names = [self.timers[timer].timer for timer in timers[:longest]]
        return [*(["..."] if len(names) < len(timers) else []), *reversed(names)]
