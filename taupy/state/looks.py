"""Three files of a run folder with the results of the watch's looks at measured processes.

`watch.memory` has a record for each look at which a process held a different amount of some kind of
memory than before. `watch.peaks` has one for each process, with the call paths of its threads when
its resident memory was largest. `watch.threads` has one for each call path in which a thread was
seen, with the number of looks and the time that they represent, by what the thread was doing. A
call path is identified by the part's name and its address in the process. Only `struct` is
imported, so that the watch stays small.
"""

from _struct import Struct

from taupy.state.folder import Folder
from taupy.state.limits import RECORD_BYTES
from taupy.state.values import check_numbers
from taupy.state.watch_files import MEMORY, PEAKS, THREADS

STATES = ("cpu", "runnable", "sleeping", "disk")
"""States of a thread: it computes, waits for a processor, sleeps, or waits for a disk."""

RESIDENT, ALLOCATED, RESERVED = range(3)
"""Kinds of memory: of the process, and of a GPU, held by PyTorch's caching allocator."""

ADDED_UP = (1 << 64) - 1
"""In the place of a thread's number + 1: several threads that have ended."""

PATHS_AT_MOST = 8
_HELD = Struct("<qii4q")
_PEAK = Struct(f"<qQqqq{PATHS_AT_MOST}Q")
_THREAD = Struct("<qQQ8qQ")
HELD_BYTES, PEAK_BYTES, THREAD_BYTES = _HELD.size, _PEAK.size, _THREAD.size
HELD_AT_MOST = 1 << 15
PEAKS_AT_MOST = RECORD_BYTES // PEAK_BYTES
THREADS_AT_MOST = 1 << 14


Memory = tuple[int, int, int]
"""Process id, kind of memory, and the GPU's ordinal (0 for resident memory)."""


class Held:
    """The amount of a kind of memory from a time on.

    Attributes:
        at_ns: time of CLOCK_MONOTONIC.
        least_kib, most_kib: until the next record; several records may have been merged.
    """

    __slots__ = ("at_ns", "kib", "least_kib", "memory", "most_kib")

    def __init__(self, memory: Memory, at_ns: int, kib: int, least_kib: int, most_kib: int) -> None:
        self.memory = memory
        self.at_ns = at_ns
        self.kib = kib
        self.least_kib = least_kib
        self.most_kib = most_kib

    def packed(self) -> bytes:
        return _HELD.pack(*self.memory, self.at_ns, self.kib, self.least_kib, self.most_kib)


class Peak:
    """When a process's resident memory was largest.

    Attributes:
        ticks: distinguishes the part from others of the process; contained in the part's name.
        addresses: current call paths of its first threads.
    """

    __slots__ = ("addresses", "at_ns", "kib", "pid", "ticks")

    def __init__(self, pid: int, ticks: int, at_ns: int, kib: int, addresses: list[int]) -> None:
        self.pid = pid
        self.ticks = ticks
        self.at_ns = at_ns
        self.kib = kib
        self.addresses = addresses[:PATHS_AT_MOST]

    def packed(self) -> bytes:
        empty = [0] * (PATHS_AT_MOST - len(self.addresses))
        count = len(self.addresses)
        return _PEAK.pack(
            self.pid, self.ticks, self.at_ns, self.kib, count, *self.addresses, *empty
        )


class InPath:
    """A thread's observed states in a call path.

    Attributes:
        address: address of the call path, or its hash (`watch/part_threads.py`); 0 for all that did
            not fit.
        owner: of a hash, the thread's number + 1, or `ADDED_UP`.
        looks, time_ns: number of looks, and their time, by `STATES`.
    """

    __slots__ = ("address", "looks", "owner", "pid", "ticks", "time_ns")

    def __init__(
        self, pid: int, ticks: int, address: int, owner: int, looks: list[int], time_ns: list[int]
    ) -> None:
        self.pid = pid
        self.ticks = ticks
        self.address = address
        self.owner = owner
        self.looks = looks
        self.time_ns = time_ns

    def packed(self) -> bytes:
        return _THREAD.pack(
            self.pid, self.ticks, self.address, *self.looks, *self.time_ns, self.owner
        )


def read_memory(folder: Folder) -> list[Held]:
    """The records of memory; empty if there was no watch.

    Raises:
        Damaged: the file is damaged.
        OSError: it is not trusted, or cannot be read.
    """
    rows = []
    for pid, kind, device, *numbers in _HELD.iter_unpack(_whole(folder, MEMORY, HELD_BYTES)):
        check_numbers(MEMORY, kind, device, *numbers)
        rows.append(Held((pid, kind, device), *numbers))
    return rows


def read_peaks(folder: Folder) -> list[Peak]:
    rows = []
    for pid, ticks, at_ns, kib, count, *addresses in _PEAK.iter_unpack(
        _whole(folder, PEAKS, PEAK_BYTES)
    ):
        check_numbers(PEAKS, at_ns, kib, count)
        rows.append(Peak(pid, ticks, at_ns, kib, addresses[:count]))
    return rows


def read_threads(folder: Folder) -> list[InPath]:
    rows = []
    for pid, ticks, address, *numbers, owner in _THREAD.iter_unpack(
        _whole(folder, THREADS, THREAD_BYTES)
    ):
        check_numbers(THREADS, *numbers)
        rows.append(InPath(pid, ticks, address, owner, numbers[:4], numbers[4:]))
    return rows


def _whole(folder: Folder, name: str, size: int) -> bytes:
    """The complete records of a file."""
    try:
        data = (folder / name).read_record()
    except FileNotFoundError:
        return b""
    return data[: len(data) // size * size]
