"""Stack frames of a Chrome trace: the callers of slices (`sf`, `stackFrames`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taupy.formats import limits
from taupy.formats.chrome import values
from taupy.formats.slices import Timeline
from taupy.model.profile import Timer
from taupy.model.streams import Owner


class StackFrames:
    """The frames of a trace, as timers.

    Args:
        header: the value of `stackFrames`; ignored if it is not an object.
        place: maps a timer to its position among the profile's timers.
    """

    def __init__(self, header: Any, place: Callable[[Timer], int]) -> None:
        self._frames = header if isinstance(header, dict) else {}
        self._place = place
        self._stacks: dict[int, tuple[int, ...]] = {-1: ()}
        self._tree = Timeline(0)
        self._rows: dict[tuple[int, ...], int] = {}

    def __bool__(self) -> bool:
        return bool(self._frames)

    def of(self, number: int) -> tuple[int, ...]:
        """The timers of a frame and of its callers, outermost first."""
        stack = self._stacks.get(number)
        if stack is None:
            places: list[int] = []
            at: Any = str(number)
            while at is not None and len(places) < limits.TRACE_DEPTH:
                frame = self._frames.get(str(at))
                if not isinstance(frame, dict):
                    break
                places.append(self._place(_timer(frame)))
                at = frame.get("parent")
            stack = self._stacks[number] = tuple(reversed(places))
        return stack

    def owner_row(self, number: int) -> int | None:
        """A frame's row in a separate tree of frames, for work that has no other owner."""
        path = self.of(number)
        if not path:
            return None
        row = self._rows.get(path)
        if row is None:
            row = self._rows[path] = self._tree.place(0, 1, path[-1], path[:-1])
        return row

    def owner(self, row: int) -> Owner:
        if not len(self._tree.tree):
            self._tree.finish()
        return self._tree.owner(row)


def _timer(frame: dict[str, Any]) -> Timer:
    name, category = frame.get("name"), frame.get("category")
    return values.host_timer(
        name if isinstance(name, str) else "(unnamed)",
        category if isinstance(category, str) else "",
    )
