"""Add the watch's samples: the states and positions of threads to the parts, before these become a
profile; memory over time to the profile.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

from taupy.dataclass import replace
from taupy.model.profile import ABSENT, Profile, Samples, Statistics, UserEvent
from taupy.model.sampled import CUDA_ALLOCATED, CUDA_RESERVED, KIB, PEAK, RESIDENT, STATES, on_gpu
from taupy.record.part_data import Part
from taupy.state import looks
from taupy.state.folder import Folder
from taupy.state.looks import Held, InPath, Memory, Peak
from taupy.state.values import Damaged
from taupy.watch.part_threads import HASHED, identity, path_hash

_UNREAD = "taupy.health.watch_looks"


class Looks:
    """The watch's samples of threads, by process.

    Attributes:
        unread: what could not be read, as metadata.
    """

    def __init__(self, folder: Folder) -> None:
        self.unread: dict[str, str] = {}
        self._seen: dict[tuple[int, int], list[InPath | Peak]] = {}
        try:
            seen: list[InPath | Peak] = [*looks.read_threads(folder), *looks.read_peaks(folder)]
        except (Damaged, OSError) as problem:
            self.unread = {_UNREAD: f"what threads did cannot be read ({problem})"}
            return
        for look in seen:
            self._seen.setdefault((look.pid, look.ticks), []).append(look)

    def add(self, part: Part) -> None:
        """Add those of a part's process to the user events of its threads."""
        if part.places is None or not self._seen:
            return
        hashed = _HashedPaths(part)
        for look in self._seen.get(identity(part.name), ()):
            if isinstance(look, InPath):
                _add_states(part, look, hashed)
            else:
                _add_peak(part, look, hashed)


class _HashedPaths:
    """The call paths of a part by their hashes, for threads whose memory may be used again."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._positions = part.positions()
        self._rows: dict[int, dict[int, int]] = {}  # by thread

    def find(self, hashed: int, owner: int | None) -> tuple[int, int | None] | None:
        """(thread, row) of a call path; the row is None if it is not known.

        Args:
            owner: the thread's number + 1, or `ADDED_UP`; None: any thread may have it.
        """
        index = None if owner is None or owner == looks.ADDED_UP else owner - 1
        own = None if index is None else self._positions.get(index)
        threads = [own] if own is not None else self.part.added_up(index)
        if owner is None:
            threads = [*threads, *self._positions.values()]
        for thread in threads:
            if (row := self._of_thread(thread).get(hashed)) is not None:
                return thread, row
        return (threads[0], None) if threads else None

    def _of_thread(self, number: int) -> dict[int, int]:
        if number not in self._rows:
            thread, keys = self.part.threads[number], self.part.keys
            hashes: list[int] = []
            for routine, above in zip(thread.routine, thread.parent, strict=True):
                if above < 0:
                    hashes.append(0)
                else:
                    key = keys[routine] if routine < len(keys) else 0
                    hashes.append(path_hash(hashes[above], key))
            self._rows[number] = {hashed | HASHED: row for row, hashed in enumerate(hashes)}
        return self._rows[number]


def _add_states(part: Part, seen: InPath, hashed: _HashedPaths) -> None:
    place: tuple[int, int | None] | None = None
    if seen.owner:
        place = hashed.find(seen.address, seen.owner)
    elif part.places is not None:
        place = part.places.find(seen.address)
    thread, row = place or (0, None)
    for state, count, time_ns in zip(STATES, seen.looks, seen.time_ns, strict=True):
        if count:
            sums = Statistics(count, ABSENT, ABSENT, time_ns, ABSENT)
            part.threads[thread].samples.append(sums.event(state, "ns", row))


def _add_peak(part: Part, peak: Peak, hashed: _HashedPaths) -> None:
    for address in peak.addresses:
        place: tuple[int, int | None] | None = None
        if address & HASHED:
            place = hashed.find(address, None)
        elif part.places is not None:
            place = part.places.find(address)
        if place is not None:
            thread, row = place
            event = UserEvent.once(PEAK, KIB, float(peak.kib))
            part.threads[thread].samples.append(replace(event, row=row))


def add_series(folder: Folder, profile: Profile, nodes: Mapping[int, Part]) -> None:
    """Add memory over time to the first thread of each process."""
    try:
        seen = looks.read_memory(folder)
    except (Damaged, OSError) as problem:
        profile.metadata[_UNREAD] = f"memory over time cannot be read ({problem})"
        return
    series: dict[Memory, list[Held]] = {}
    for row in seen:
        series.setdefault(row.memory, []).append(row)
    for thread in profile.threads:
        part = nodes.get(thread.thread.node)
        if part is None or part.added or (thread.thread.context, thread.thread.thread) != (0, 0):
            continue
        for memory in sorted(memory for memory in series if memory[0] == part.pid):
            rows = [row for row in series[memory] if part.start_ns <= row.at_ns <= part.end_ns]
            if rows and (event := _event(memory)):
                thread.samples.append(_series(event, rows, part))


def _event(memory: Memory) -> str:
    """The name of the memory's user event; empty for a kind from a newer watch."""
    _, kind, device = memory
    if kind == looks.RESIDENT:
        return RESIDENT
    name = {looks.ALLOCATED: CUDA_ALLOCATED, looks.RESERVED: CUDA_RESERVED}.get(kind)
    return on_gpu(name, device) if name else ""


def _series(event: str, rows: Sequence[Held], part: Part) -> Samples:
    """The samples of one event; each point lasts until the next one."""
    epoch_ns = int(part.started_at * 1e9) - part.start_ns
    moments = [row.at_ns for row in rows] + [max(part.end_ns, rows[-1].at_ns)]
    ends = [later for _, later in pairwise(moments)]
    return Samples(
        event,
        KIB,
        start_ns=array("q", [row.at_ns + epoch_ns for row in rows]),
        end_ns=array("q", [end + epoch_ns for end in ends]),
        count=array("q", [1] * len(rows)),
        mean=array("d", [float(row.kib) for row in rows]),
        minimum=array("d", [float(row.least_kib) for row in rows]),
        maximum=array("d", [float(row.most_kib) for row in rows]),
    )
