"""Whether a routine's calls take longer the more of them there have been, and whether they have
the same arguments again: records of a part (`_native/growth.h`, `arguments.h`), and the user events
that are made of them.

A call path has them if it is the program's, has enough calls, and takes much of its thread's time.
The different arguments of a routine are those of all its call paths, so all have them if one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING

from taupy.model.profile import ABSENT, Statistics, UserEvent
from taupy.model.sampled import ARGUMENTS, OTHER_ARGUMENTS, time_from_call
from taupy.record.part_blocks import GROWTH_BYTES
from taupy.record.part_check import LARGEST
from taupy.record.part_data import Growth, PartThread

if TYPE_CHECKING:
    from taupy.record.native_part import NativePart

_NOTES = 31
_RECORD = Struct(f"<QQ{2 * _NOTES}Q4Q")
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
        address, number, *words, _, compared, different, others = _RECORD.unpack_from(
            part.data, start
        )
        if not address or number > _NOTES or (row := row_at(address)) is None:
            continue
        notes = tuple(
            (calls, part.duration(ticks))
            for calls, ticks in zip(words[::2], words[1::2], strict=True)
        )[:number]
        if max(compared + others, different, *chain(*notes)) <= LARGEST:
            read.append(Growth(row, notes, compared, min(different, compared), others))
    return read


def growth_events(thread: PartThread) -> Iterator[UserEvent]:
    """The time of the calls between two notes, and of those after the last; and of the calls that
    were looked at, how many had different arguments."""
    least = max(LEAST_NS, int(thread.inclusive[0]) // LEAST_SHARE)
    lasting = [path for path in thread.growth if thread.inclusive[path.row] >= least]
    for path in lasting:
        yield from _times(thread, path)
    routines = {thread.routine[path.row] for path in lasting}
    for path in thread.growth:
        if thread.routine[path.row] not in routines:
            continue
        if path.compared:
            looked_at = Statistics(path.compared, ABSENT, ABSENT, path.different, ABSENT)
            yield looked_at.event(ARGUMENTS, "calls", path.row)
        if path.others:
            looked_at = Statistics(path.others, ABSENT, ABSENT, path.others, ABSENT)
            yield looked_at.event(OTHER_ARGUMENTS, "calls", path.row)


def _times(thread: PartThread, path: Growth) -> Iterator[UserEvent]:
    whole = int(thread.calls[path.row]), int(thread.inclusive[path.row])
    before = 0, 0
    for calls, ns in (*path.notes, whole):
        number, took = calls - before[0], ns - before[1]
        if number <= 0 or took < 0:
            break
        statistics = Statistics(number, ABSENT, ABSENT, took, ABSENT)
        yield statistics.event(time_from_call(before[0] + 1), "ns", path.row)
        before = calls, ns
