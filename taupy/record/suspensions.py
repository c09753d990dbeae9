"""Where coroutines waited: records of a part (`_native/suspensions.h`), and the user events that
are made of them.

An `await` of the program whose coroutine is suspended with it has the time only if no other
coroutine of the program is suspended within: of `await fetch()`, the await in `fetch` has it. The
times of coroutines that wait at once add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from taupy.model.profile import ABSENT, Statistics, UserEvent
from taupy.model.sampled import suspended
from taupy.record.part_blocks import SUSPENSION_BYTES
from taupy.record.part_check import LARGEST
from taupy.record.part_data import PartThread, Suspension

if TYPE_CHECKING:
    from taupy.record.native_part import NativePart
    from taupy.state.container import Block

_RECORD = Struct("<QQi12xQQQ8x")
assert _RECORD.size == SUSPENSION_BYTES


def suspensions(
    part: NativePart, row_at: Callable[[int], int | None], blocks: Sequence[Block], end_ticks: int
) -> list[Suspension]:
    """The records of a thread.

    Args:
        row_at: the row of the thread's call path at an address.
        end_ticks: until when coroutines are suspended that were not resumed.
    """
    addresses: dict[int, int] = {}
    records: list[tuple[int, int, int, int, int, int]] = []
    for block in blocks:
        address = part.file.address_of(block.start)
        size = (block.end - block.start) // _RECORD.size * _RECORD.size
        for at, record in enumerate(_RECORD.iter_unpack(part.data[block.start :][:size])):
            if record[0] and (row := row_at(record[0])) is not None:
                addresses[address + at * _RECORD.size] = len(records)
                records.append((row, *record[1:]))
    read = []
    for row, outer, line, begun, ended, ticks in records:
        whole = (ticks + (begun - ended) * end_ticks) % (1 << 64)
        whole = whole - (1 << 64) if whole >> 63 else whole
        ns = part.duration(whole)
        # A coroutine may go on on another call path: there, it has only ended.
        if begun <= LARGEST and abs(ns) <= LARGEST:
            read.append(Suspension(row, addresses.get(outer), line, begun, ns))
        else:
            read.append(Suspension(row, None, line, 0, 0))
    return read


def suspension_events(thread: PartThread, is_own: Callable[[int], bool]) -> Iterator[UserEvent]:
    """How often, and for how long, coroutines were suspended at each line of the program.

    Args:
        is_own: whether a routine, a position in `Part.routines`, is the program's.
    """
    records = thread.suspensions
    own = [is_own(int(thread.routine[record.row])) for record in records]
    places: dict[tuple[int, int], list[int]] = {}
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    for number, record in enumerate(records):
        if not own[number]:
            continue
        place = int(thread.routine[record.row]), record.line
        sums = places.setdefault(place, [0, 0])
        sums[0] += record.times
        sums[1] += record.ns
        rows[place] = max(rows.get(place, (0, 0)), (record.times, record.row))
        outer = record.outer
        for _ in records:
            if outer is None or own[outer]:
                break
            outer = records[outer].outer
        if outer is not None and own[outer]:
            around = int(thread.routine[records[outer].row]), records[outer].line
            if around != place:
                places.setdefault(around, [0, 0])[1] -= record.ns
    for place, (count, ns) in places.items():
        if count and ns > 0:
            noted = Statistics(count, ABSENT, ABSENT, ns, ABSENT)
            yield noted.event(suspended(place[1]), "ns", rows[place][1])
