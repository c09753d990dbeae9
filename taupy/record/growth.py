"""Whether a routine's calls take longer the more of them there have been: records of a part
(`_native/growth.h`), and the user events that are made of them.

A call path has them if it is the program's, has enough calls, and takes much of its thread's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from taupy.model.profile import ABSENT, Statistics, UserEvent
from taupy.model.sampled import time_from_call
from taupy.record.part_blocks import GROWTH_BYTES
from taupy.record.part_check import LARGEST
from taupy.record.part_data import Growth, PartThread

if TYPE_CHECKING:
    from taupy.record.native_part import NativePart

_NOTES = 31
_RECORD = Struct(f"<QQ{2 * _NOTES}Q")
assert _RECORD.size == GROWTH_BYTES

LEAST_NS = 200_000_000
LEAST_SHARE = 20  # of the thread's time, one part in so many


def growth(
    part: NativePart, row_at: Callable[[int], int | None], starts: Sequence[int]
) -> list[Growth]:
    """The records of a thread.

    Args:
        row_at: the row of the thread's call path at an address.
        starts: positions of the records.
    """
    read = []
    for start in starts:
        address, number, *words = _RECORD.unpack_from(part.data, start)
        if not address or number > _NOTES or (row := row_at(address)) is None:
            continue
        notes = tuple(
            (calls, part.duration(ticks))
            for calls, ticks in zip(words[::2], words[1::2], strict=True)
        )[:number]
        if all(calls <= LARGEST and ns <= LARGEST for calls, ns in notes):
            read.append(Growth(row, notes))
    return read


def growth_events(thread: PartThread) -> Iterator[UserEvent]:
    """The time of the calls between two notes, and of those after the last."""
    least = max(LEAST_NS, int(thread.inclusive[0]) // LEAST_SHARE)
    for row, notes in thread.growth:
        whole = int(thread.calls[row]), int(thread.inclusive[row])
        if whole[1] < least:
            continue
        before = 0, 0
        for calls, ns in (*notes, whole):
            number, took = calls - before[0], ns - before[1]
            if number <= 0 or took < 0:
                break
            statistics = Statistics(number, ABSENT, ABSENT, took, ABSENT)
            yield statistics.event(time_from_call(before[0] + 1), "ns", row)
            before = calls, ns
