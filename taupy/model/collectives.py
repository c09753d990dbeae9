"""Collectives of one process: operations in which several ranks take part, such as all_reduce."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

THREAD_NAME = "collectives"
"""Of the thread on which the collectives of a process stand."""

GROUP = "COMMUNICATION"
"""Of their timers."""

BYTES = "Collective bytes"
"""The user event with the bytes that a process gave to the collectives of a call path."""

UNKNOWN_BYTES = -1
"""Stands in `Collectives.bytes` where they are not known, as in files of other tools."""

NOT_ENDED = -1
"""Stands in `Collectives.ended_ns` where the operation had not ended when measuring did."""

STRETCH_PLACES = 10
"""Call paths that are listed of a stretch, at most."""


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Collectives:
    """What one process did in one communicator: columns of equal length, by number.

    Collectives are counted from 1 in a communicator; the same number is the same collective on
    all of its ranks.

    Attributes:
        communicator: the name of the group of processes, the same on all ranks.
        ranks: in it, as `0-3,8`; "" if they are not known.
        size: how many they are; 0 if that is not known.
        begun: how many collectives were begun, kept or not.
        stride: of `stride` stretches of collectives one was kept; 1: all of them.
        operation: what was done, `gloo:all_reduce`.
        bytes: that this process gave.
        asked_ns: when it was asked for; begun_ns: when the backend began; ended_ns: when it was
            over. Nanoseconds since the epoch by the host's clock.
        row: the call path, a row of the thread's tree.
    """

    communicator: str
    ranks: str = ""
    size: int = 0
    begun: int = 0
    stride: int = 1
    operation: list[str] = field(default_factory=list)
    number: array[int] = field(default_factory=_column)
    bytes: array[int] = field(default_factory=_column)
    asked_ns: array[int] = field(default_factory=_column)
    begun_ns: array[int] = field(default_factory=_column)
    ended_ns: array[int] = field(default_factory=_column)
    row: array[int] = field(default_factory=_column)

    def __len__(self) -> int:
        return len(self.number)


@dataclass(slots=True)
class Stretches:
    """What a thread did between one collective and the next: columns.

    Attributes:
        start_ns, end_ns: of each stretch, in order of time; since the epoch by the host's clock.
        stretch: a position among them; row: a call path of the thread's tree; own_ns: its own time
            in that stretch, without what it called. Call paths with the most time are listed; the
            rest of the stretch belongs to others.
    """

    start_ns: array[int] = field(default_factory=_column)
    end_ns: array[int] = field(default_factory=_column)
    stretch: array[int] = field(default_factory=_column)
    row: array[int] = field(default_factory=_column)
    own_ns: array[int] = field(default_factory=_column)

    def __len__(self) -> int:
        return len(self.start_ns)
