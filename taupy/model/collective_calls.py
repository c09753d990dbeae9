"""Turn the individually recorded collectives of a process into a thread of their own.

NCCL's collectives are recorded this way, as are those in files of other tools. The engine itself
aggregates Gloo's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from taupy.model.collectives import BYTES, GROUP, UNKNOWN_BYTES, Collectives
from taupy.model.gpu import Launch
from taupy.model.profile import (
    UNKNOWN,
    Statistics,
    Steps,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.model.streams import Owner, StreamBuilder

NOWHERE: Final = -1
"""The code of an unknown call path."""

_NAMES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallbase": "all_to_all",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
}
"""Names of operations, letters only, and taupy's spelling of them."""
_BETWEEN_TWO: Final = ("send", "recv", "receive", "sendrecv")
_NO_OPERATION: Final = ("init", "wait", "startcoalescing", "endcoalescing")


class Call(NamedTuple):
    """One collective of one process.

    Attributes:
        number: in the communicator, from 1; None if the file does not give it; calls are
            then numbered in order.
        bytes: `UNKNOWN_BYTES` if the file does not give them.
        asked_ns, begun_ns, ended_ns: since the epoch.
        code: the reader's own number for the call path that requested it, or NOWHERE.
    """

    communicator: str
    ranks: str
    size: int
    number: int | None
    operation: str
    bytes: int
    asked_ns: int
    begun_ns: int
    ended_ns: int
    code: int


def operation(backend: str, name: str) -> str | None:
    """`nccl:all_reduce`; None if it is not a collective, such as a send or a wait."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    if not letters or letters in _BETWEEN_TWO or letters in _NO_OPERATION:
        return None
    return f"{backend}:{_NAMES.get(letters, name.lower())}"


def thread_of(
    calls: Iterable[Call],
    place: Thread,
    timers: list[Timer],
    owner: Callable[[int], Owner],
    otherwise: Owner | None,
) -> ThreadProfile:
    """The thread of a process's collectives, at least one.

    Args:
        place: the thread to create.
        timers: the profile's; new ones are appended.
        owner: returns the call path for a code; `otherwise` is the one for NOWHERE.
    """
    ordered = sorted(calls, key=lambda call: (call.communicator, call.asked_ns))
    builder = StreamBuilder(timers)
    rows: dict[tuple[str, int], int] = {}
    sums: dict[int, list[int]] = {}
    for call in ordered:
        key = (call.operation, call.code)
        at = otherwise if call.code == NOWHERE else owner(call.code)
        timer = Timer(call.operation, groups=(GROUP, "PHASE_COMMUNICATION"))
        took = call.ended_ns - call.begun_ns
        rows[key] = row = builder.add(place, at, timer, Launch(count=1, time_ns=took))
        if call.bytes != UNKNOWN_BYTES:
            sums.setdefault(row, []).append(call.bytes)
    builder.add_user_events(place, [_event(row, moved) for row, moved in sorted(sums.items())])
    (measured,) = builder.threads()
    measured.launches = []
    names = dict.fromkeys(call.communicator for call in ordered)
    for name in names:
        mine = [call for call in ordered if call.communicator == name]
        measured.collectives.append(_communicator(mine, rows))
    return measured


def _event(row: int, moved: Sequence[int]) -> UserEvent:
    sums = Statistics()
    for size in moved:
        sums.add(size)
    return sums.event(BYTES, "bytes", row)


def _communicator(calls: Sequence[Call], rows: dict[tuple[str, int], int]) -> Collectives:
    numbered: dict[int, Call] = {}
    for place, call in enumerate(calls, 1):
        number = place if call.number is None else call.number
        numbered.setdefault(number, call)  # a nested call shares the outer call's number
    ranks = max((call.ranks for call in calls), key=len)
    size = max(call.size for call in calls)
    kept = Collectives(calls[0].communicator, ranks, size, max(numbered))
    for number, call in sorted(numbered.items()):
        kept.operation.append(call.operation)
        kept.number.append(number)
        kept.bytes.append(call.bytes)
        kept.asked_ns.append(call.asked_ns)
        kept.begun_ns.append(call.begun_ns)
        kept.ended_ns.append(call.ended_ns)
        kept.row.append(rows[call.operation, call.code])
    return kept


def training(numbered: Iterable[tuple[int, int, int]]) -> Steps:
    """Training steps from tuples of number, start since the epoch [ns] and time [ns]."""
    steps = Steps("training")
    for number, start, time in sorted(numbered):
        steps.number.append(number)
        steps.count.append(1)
        steps.start_ns.append(start)
        steps.time_ns.append(time)
        steps.longest_ns.append(time)
        steps.samples.append(UNKNOWN)
    return steps
