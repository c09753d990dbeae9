"""The timers of a profile while it is built."""

from __future__ import annotations

from taupy.model.profile import Timer


class Timers:
    """Timers without duplicates, and their places.

    Args:
        timers: the first ones; new ones are appended to this list.
    """

    def __init__(self, timers: list[Timer] | None = None) -> None:
        self.timers = [] if timers is None else timers
        self._place_of = {timer: place for place, timer in enumerate(self.timers)}

    def place(self, timer: Timer) -> int:
        """The timer's position; it is added if it is new."""
        place = self._place_of.setdefault(timer, len(self.timers))
        if place == len(self.timers):
            self.timers.append(timer)
        return place
