"""Collectives of one process: operations in which several ranks take part, such as all_reduce."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

THREAD_NAME = "collectives"
"""Name of the thread that holds a process's collectives."""

GROUP = "COMMUNICATION"
"""Group of the timers of collectives."""

BYTES = "Collective bytes"
"""The user event with the bytes that a process contributed to the collectives of a call path."""

UNKNOWN_BYTES = -1
"""Value in `Collectives.bytes` if the size is unknown, as in files of other tools."""

NOT_ENDED = -1
"""Value in `Collectives.ended_ns` if the operation was still running when measuring ended."""

STRETCH_PLACES = 10
"""Maximum number of call paths listed per stretch."""


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Collectives:
    """What one process did in one communicator: columns of equal length, by number.

    Collectives are counted from 1 in a communicator; the same number is the same collective on
    all of its ranks.

    Attributes:
        communicator: the name of the group of processes, the same on all ranks.
        ranks: its members, written as `0-3,8`; "" if unknown.
        size: number of ranks; 0 if unknown.
        begun: number of collectives begun, recorded or not.
        stride: one in `stride` stretches of collectives was recorded; 1 means all of them.
        operation: what was done, `gloo:all_reduce`.
        bytes: contributed by this process.
        asked_ns: when it was requested; begun_ns: when the backend began; ended_ns: when it
            ended. Nanoseconds since the epoch, on the host's clock.
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
        start_ns, end_ns: of each stretch, in order of time; since the epoch, on the host's clock.
        stretch: index of a stretch; row: a call path of the thread's tree; own_ns: its exclusive
            time in that stretch. Only the call paths with the most time are listed; the rest of
            the stretch belongs to others.
    """

    start_ns: array[int] = field(default_factory=_column)
    end_ns: array[int] = field(default_factory=_column)
    stretch: array[int] = field(default_factory=_column)
    row: array[int] = field(default_factory=_column)
    own_ns: array[int] = field(default_factory=_column)

    def __len__(self) -> int:
        return len(self.start_ns)
