"""Collectives of one process: operations in which several ranks take part, such as all_reduce."""

from __future__ import annotations

import re
from array import array

from taupy.dataclass import dataclass, field, replace

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


_PAIR = re.compile(r"(.*[^-])([<>])([0-9]+)((?::[0-9]+)?)")
_BETWEEN_TWO = ("send", "isend", "recv", "irecv")
NOT_WAITED_FOR = ("isend", "irecv")
"""Operations whose end is that of a later `wait()`, so their time is not only waiting."""


def _column() -> array[int]:
    return array("q")


def is_pair(operation: str) -> bool:
    """Whether two ranks take part, one of which sends and the other one receives."""
    return operation.partition(":")[2] in _BETWEEN_TWO


@dataclass(slots=True)
class Collectives:
    """What one process did in one communicator: columns of equal length, by number.

    Collectives are counted from 1 in a communicator; the same number is the same collective on
    all of its ranks. What is sent to one rank, or received from one, under one tag, is a
    communicator of its own, whose name gives the direction and the other rank.

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

    @property
    def is_pair(self) -> bool:
        """Whether these are what one rank sent to another one, or received from it."""
        return is_pair(self.operation[0]) if self.operation else False

    def of_pair(self, rank: int) -> Collectives:
        """What a rank sent or received, under the name that both ranks share: `0>2` of rank 1 and
        `0<1` of rank 2 are `0:1->2`; other collectives unchanged."""
        match = _PAIR.fullmatch(self.communicator)
        if match is None or not self.is_pair:
            return self
        group, way, peer, tag = match.groups()
        sender, receiver = (rank, int(peer)) if way == ">" else (int(peer), rank)
        both = f"{min(sender, receiver)},{max(sender, receiver)}"
        return replace(self, communicator=f"{group}:{sender}->{receiver}{tag}", ranks=both)


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
