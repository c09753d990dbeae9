"""Collectives and training steps in torch.profiler's traces.

`record_param_comms` describes each requested collective; the NCCL kernel with the same
`External id` gives the time when it ran. Gloo has neither: only a range `gloo:all_reduce` on a
thread of the backend is known, which is then the collective, and no slice of that thread.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from taupy.formats.chrome import values
from taupy.formats.chrome.header import Header
from taupy.formats.chrome.host import Host, ThreadKey
from taupy.formats.gpu_records import NOWHERE
from taupy.model.collective_calls import Call, operation, thread_of, training
from taupy.model.collectives import UNKNOWN_BYTES
from taupy.model.job import spans
from taupy.model.profile import Thread, ThreadProfile, Timer
from taupy.model.streams import Owner

CALL: Final = "record_param_comms"
_NAME: Final = "Collective name"
BACKENDS: Final = ("gloo:", "mpi:", "ucc:")
_RANGE: Final = re.compile(r"(gloo|mpi|ucc):(\w+)")
_STEP: Final = re.compile(r"ProfilerStep#(\d{1,15})")
NOTED: Final = (CALL, "ProfilerStep#")
"""What the names of host slices that are kept here begin with."""

_SIZES: Final = {
    "double": 8, "long": 8, "complexfloat": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2,
    "short": 2, "char": 1, "byte": 1, "bool": 1,
}  # fmt: skip
_MOST_RANKS: Final = 1 << 20


class Range(NamedTuple):
    """A collective that is known as a slice of a thread of its backend only."""

    pid: Any
    tid: Any
    start: int
    duration: int
    timer: int
    operation: str


class Comms:
    """The collectives and steps of a trace, while it is read."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, int, int | None, dict[str, Any]]] = []
        self._kernels: list[tuple[int, int, int | None, dict[str, Any]]] = []
        self._ranges: list[Range] = []
        self._steps: dict[ThreadKey, list[tuple[int, int, int]]] = {}
        self.linked: set[int] = set()
        self.notes: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def host_slice(
        self, key: ThreadKey, name: str, start: int, duration: int, args: dict[str, Any]
    ) -> None:
        """Keep a host slice whose name begins like this if it is a collective or a step."""
        if name == CALL:
            id = values.integer(args.get("External id"))
            self._calls.append((start, duration, id, args))
            if id is not None:
                self.linked.add(id)
        elif match := _STEP.fullmatch(name):
            self._steps.setdefault(key, []).append((int(match[1]) + 1, start, duration))

    def range(self, event: dict[str, Any], start: int, duration: int, place: int) -> bool:
        """Keep a host slice with this timer, and return True, if it is a backend's collective."""
        match = _RANGE.fullmatch(event["name"])
        what = operation(match[1], match[2]) if match else None
        if what is None:
            return False
        self._ranges.append(Range(event.get("pid"), event.get("tid"), start, duration, place, what))
        return True

    @property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end of ranges."""
        ends = [ran.start + ran.duration for ran in self._ranges]
        return (min(ran.start for ran in self._ranges), max(ends)) if ends else None

    def other_ranges(self) -> list[Range]:
        """The ranges that are slices of their threads after all, since the trace describes its
        collectives itself."""
        if not self._calls and not self._kernels:
            return []
        ranges, self._ranges = self._ranges, []
        return ranges

    def kernel(self, start: int, duration: int, args: dict[str, Any]) -> None:
        """Keep GPU work if it is a collective's."""
        if _NAME in args:
            id = values.integer(args.get("External id"))
            self._kernels.append((start, duration, id, args))

    def add_steps(self, threads: list[ThreadProfile], host: Host, base_ns: int) -> None:
        """Add the steps to their threads. Torch numbers them from 0, taupy from 1."""
        by_place = {measured.thread: measured for measured in threads}
        for key, numbered in self._steps.items():
            place = host.place_of(key)
            if place in by_place:
                if len({number for number, _, _ in numbered}) < len(numbered):
                    in_time = sorted(numbered, key=lambda step: step[1])
                    numbered = [(at, *step[1:]) for at, step in enumerate(in_time, 1)]
                    self.notes.append("numbers of steps occur again: they are numbered by time")
                moved = [(number, base_ns + start, time) for number, start, time in numbered]
                by_place[place].steps.append(training(moved))

    def threads(
        self, timers: list[Timer], host: Host, header: Header, threads: list[ThreadProfile]
    ) -> list[ThreadProfile]:
        """The thread of collectives, numbered after the process's other threads; empty if there are
        no collectives."""
        calls = self._of_calls(host, header) or self._of_ranges(header)
        home = host.home()
        mine = [
            thread for thread in threads if thread.thread.node == home and not thread.thread.context
        ]
        if not calls:
            return []
        number = 1 + max((thread.thread.thread for thread in mine), default=-1)
        place = Thread(home, 0, number, "host", "collectives")
        otherwise = Owner(mine[0].tree, 0) if mine else None
        return [thread_of(calls, place, timers, host.owner, otherwise)]

    def _of_calls(self, host: Host, header: Header) -> list[Call]:
        ran: dict[int, tuple[int, int]] = {}
        alone = []
        requested = {id for _, _, id, _ in self._calls}
        for start, duration, id, args in self._kernels:
            if id is not None and id in requested:
                begun, ended = ran.get(id, (start, start))
                ran[id] = (min(begun, start), max(ended, start + duration))
            else:
                alone.append((start, duration, None, args))
        calls = []
        for start, duration, id, args in [*self._calls, *alone]:
            what = operation("nccl", str(args.get(_NAME, ""))[:100])
            if what is None:
                continue
            begun, ended = ran.get(id, (start, start + duration)) if id is not None else (
                start, start + duration
            )  # fmt: skip
            group = str(args.get("Process Group Name", ""))[:1000] or "(unknown)"
            ranks, size = _members(args, header, group)
            number = values.integer(args.get("Seq"))
            base = header.base_ns or 0
            code = NOWHERE if id is None else host.operators.get(id, NOWHERE)
            calls.append(
                Call(
                    communicator=group,
                    ranks=ranks,
                    size=size,
                    number=number if number is not None and number > 0 else None,
                    operation=what,
                    bytes=_bytes(args),
                    asked_ns=base + start,
                    begun_ns=base + max(begun, start),
                    ended_ns=base + max(ended, start),
                    code=code,
                )
            )
        return calls

    def _of_ranges(self, header: Header) -> list[Call]:
        """Collectives from Gloo's ranges, which do not name the group: all count as one group's."""
        only = next(iter(header.groups)) if len(header.groups) == 1 else "(unknown)"
        ranks = header.groups.get(only, ())
        base = header.base_ns or 0
        return [
            Call(
                communicator=only,
                ranks=spans(ranks),
                size=len(ranks),
                number=None,
                operation=ran.operation,
                bytes=UNKNOWN_BYTES,
                asked_ns=base + ran.start,
                begun_ns=base + ran.start,
                ended_ns=base + ran.start + ran.duration,
                code=NOWHERE,
            )
            for ran in self._ranges
        ]


def _members(args: dict[str, Any], header: Header, group: str) -> tuple[str, int]:
    """The ranks of a group as text, if given, and their number."""
    size = values.integer(args.get("Group size")) or 0
    size = size if 0 < size < _MOST_RANKS else 0
    listed, count = _listed_ranks(str(args.get("Process Group Ranks", "")))
    first, stride = (
        values.integer(args.get(f"Global rank {name}")) for name in ("start", "stride")
    )
    if size and count == size:
        return listed, size
    if group in header.groups:
        return _spans(tuple(header.groups[group])), len(header.groups[group])
    if size and first is not None and stride and first >= 0 and stride > 0:
        return _spans(range(first, first + size * stride, stride)), size
    return "", size


@lru_cache(maxsize=64)
def _listed_ranks(text: str) -> tuple[str, int]:
    """The ranks in a text, and their number; all collectives of a group have the same text."""
    ranks = sorted(map(int, re.findall(r"\d{1,7}", text)))
    return spans(ranks), len(ranks)


@lru_cache(maxsize=64)
def _spans(ranks: tuple[int, ...] | range) -> str:
    return spans(ranks)


def _bytes(args: dict[str, Any]) -> int:
    count = values.integer(args.get("In msg nelems"))
    type = str(args.get("dtype", "")).lower()
    width = _SIZES.get(type, 1 if type.startswith("float8") else 0)
    return count * width if count is not None and 0 <= count < 1 << 50 and width else UNKNOWN_BYTES
