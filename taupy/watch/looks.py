"""Sample the measured processes: resident memory, and each thread's call path and state.

Each round samples as many processes as there is time for, in turn. A sample (a "look") counts for
the time since the previous one of the same thread, whatever the program did meanwhile.
"""

import posix
import time
from itertools import islice

from taupy.model.processes import contents
from taupy.state import looks, watch_files
from taupy.state.folder import Folder
from taupy.state.lines import ACTIVE, CPU, DISK, RUNNABLE
from taupy.state.looks import ALLOCATED, RESERVED, RESIDENT, Held, InPath, Memory, Peak
from taupy.watch.part_threads import PartThreads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy._native import remote

_ROUND_NS = 500_000  # CPU time for looks in a round of 100 ms
_PROCESSES_A_ROUND = 64
_CHANGE_KIB = 64
_CPU, _RUNNABLE, _SLEEPING, _DISK = range(4)
_DOES = {CPU: _CPU, RUNNABLE: _RUNNABLE, DISK: _DISK}
_PAGE_KIB = posix.sysconf("SC_PAGESIZE") // 1024


def state_of(does: int) -> int:
    """The state, in the order of `model.sampled.STATES`, of a thread that does one of
    `state.lines.STATES`: all but three are sleep."""
    return _DOES.get(does, _SLEEPING)


class _Thread:
    """A thread at the last look."""

    __slots__ = ("looked_ns", "task")

    def __init__(self, looked_ns: int, task: "remote.Task") -> None:
        self.looked_ns = looked_ns
        self.task = task


class Looks:
    """The looks of one run."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder.descriptor
        self.files = {name: self._open(name) for name in watch_files.LOOKS}
        self.parts: dict[int, PartThreads] = {}  # by process, the one looked at most recently last
        self.series = Series(self.files[watch_files.MEMORY])
        self.peaks: dict[int, tuple[int, int]] = {}  # by process: record, KiB
        self.gpu_peaks: dict[Memory, int] = {}  # KiB
        self.threads: dict[int, _Thread] = {}
        self.paths: dict[tuple[int, int, int, int], tuple[int, InPath]] = {}
        self.owned: dict[tuple[int, int, int], list[int]] = {}  # by part and owner: hashes
        self.free: list[int] = []  # records

    def _open(self, name: str) -> int:
        return posix.open(name, posix.O_WRONLY | posix.O_NOFOLLOW, dir_fd=self.folder)

    def add(self, name: str) -> None:
        """Look at the process of this part from now on. A process that became another program
        (exec) has several parts; the last one counts."""
        part = PartThreads(name, self.folder)
        self.parts[part.pid] = part

    def look(self) -> None:
        """Look at one process after another, as long as the round lasts."""
        until = time.process_time_ns() + _ROUND_NS
        for pid in list(islice(self.parts, _PROCESSES_A_ROUND)):
            part = self.parts.pop(pid)
            try:
                self.look_at(part)
            except OSError:
                continue  # it has ended
            self.parts[pid] = part
            if time.process_time_ns() > until:
                return

    def look_at(self, part: PartThreads) -> None:
        kib = int(contents(f"/proc/{part.pid}/statm").split()[1]) * _PAGE_KIB
        now = time.monotonic_ns()
        if not kib:
            return  # it has ended, and its parent has not waited for it yet
        paths = list(part.open_paths())
        self.series.add((part.pid, RESIDENT, 0), now, kib, kib)
        for device, held in part.held.items():
            self.look_at_gpu(part.pid, device, now, held)
        self.note_peak(part, now, kib, [address for _, address, _ in paths])
        for number in part.added_up[0]:
            self.join(part, number + 1)
        part.added_up[0].clear()
        living = {thread for thread, _, _ in paths}
        for thread in part.looked - living:
            self.threads.pop(thread, None)
        part.looked = living
        for thread, address, owner in paths:
            try:
                self.look_at_thread(part, thread, address, owner)
            except (OSError, ImportError):  # it has ended, or there is no compiled core
                self.threads.pop(thread, None)

    def look_at_gpu(self, pid: int, device: int, now: int, held: tuple[int, ...]) -> None:
        """Note a GPU's memory. If the allocator's own peak has changed, it was reached between the
        last two looks."""
        allocated, reserved, *peaks = (number >> 10 for number in held)
        for kind, kib, peak in zip(
            (ALLOCATED, RESERVED), (allocated, reserved), peaks, strict=True
        ):
            memory = (pid, kind, device)
            is_new = self.gpu_peaks.get(memory) != peak
            self.gpu_peaks[memory] = peak
            self.series.add(memory, now, kib, max(kib, peak) if is_new else kib)

    def note_peak(self, part: PartThreads, now: int, kib: int, addresses: list[int]) -> None:
        record, most = self.peaks.get(part.pid, (len(self.peaks), 0))
        if kib < most + _CHANGE_KIB or record >= looks.PEAKS_AT_MOST:
            return
        self.peaks[part.pid] = record, kib
        peak = Peak(part.pid, part.ticks, now, kib, addresses)
        posix.pwrite(self.files[watch_files.PEAKS], peak.packed(), record * looks.PEAK_BYTES)

    def look_at_thread(self, part: PartThreads, thread: int, address: int, owner: int) -> None:
        now = time.monotonic_ns()
        if (earlier := self.threads.get(thread)) is None:
            from taupy._native import remote

            self.threads[thread] = _Thread(now, remote.Task(part.pid, thread))
            return
        took = now - earlier.looked_ns
        does = earlier.task.does(took)
        if does != ACTIVE:  # else it is not known whether it runs
            self.note(part, address, owner, state_of(does), took)
        earlier.looked_ns = now

    def note(self, part: PartThreads, address: int, owner: int, does: int, time_ns: int) -> None:
        if (place := self.place(part, address, owner)) is not None:
            record, path = place
            path.looks[does] += 1
            path.time_ns[does] += time_ns
            self.write(record, path)

    def write(self, record: int, path: InPath) -> None:
        posix.pwrite(self.files[watch_files.THREADS], path.packed(), record * looks.THREAD_BYTES)

    def place(self, part: PartThreads, address: int, owner: int) -> tuple[int, InPath] | None:
        """The record of a call path; None: there is no room."""
        key = (part.pid, part.ticks, address, owner)
        if key not in self.paths and len(self.paths) >= looks.THREADS_AT_MOST - 1:
            key = (part.pid, part.ticks, 0, 0)
        if key not in self.paths:
            if len(self.paths) >= looks.THREADS_AT_MOST:
                return None
            record = self.free.pop() if self.free else len(self.paths)
            self.paths[key] = record, InPath(*key, [0] * 4, [0] * 4)
            if key[3]:
                self.owned.setdefault((part.pid, part.ticks, key[3]), []).append(key[2])
        return self.paths[key]

    def join(self, part: PartThreads, owner: int) -> None:
        """The thread has ended and was added up with others: so are its records, which are then
        free."""
        for address in self.owned.pop((part.pid, part.ticks, owner), ()):
            record, path = self.paths.pop((part.pid, part.ticks, address, owner))
            self.write(record, InPath(part.pid, part.ticks, 0, 0, [0] * 4, [0] * 4))
            self.free.append(record)
            if (place := self.place(part, address, looks.ADDED_UP)) is not None:
                of_all, whole = place
                for does in range(4):
                    whole.looks[does] += path.looks[does]
                    whole.time_ns[does] += path.time_ns[does]
                self.write(of_all, whole)


class Series:
    """Memory of all processes over time. When the file is full, neighbouring records are merged.

    Args:
        file: descriptor of the file that holds the records.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.last: dict[Memory, int] = {}  # places in `rows`
        self.rows: list[Held] = []
        self.apart_ns = 0  # new records of a process are at least this far apart

    def add(self, memory: Memory, now: int, kib: int, most_kib: int) -> None:
        """Add the current value.

        Args:
            most_kib: the largest since the previous look.
        """
        place = self.last.get(memory)
        if place is not None:
            last = self.rows[place]
            has_changed = abs(kib - last.kib) >= _CHANGE_KIB
            if has_changed and now - last.at_ns < self.apart_ns:
                self.join(place, kib, kib, most_kib)
                return
            if most_kib > max(kib, last.most_kib):
                self.join(place, last.kib, last.kib, most_kib)
            if not has_changed:
                return
            most_kib = kib
        if len(self.rows) >= looks.HELD_AT_MOST:
            self.thin()
        if len(self.rows) < looks.HELD_AT_MOST:
            self.last[memory] = len(self.rows)
            self.rows.append(Held(memory, now, kib, kib, most_kib))
            self.write(len(self.rows) - 1)

    def join(self, place: int, kib: int, least_kib: int, most_kib: int) -> None:
        _join(self.rows[place], kib, least_kib, most_kib)
        self.write(place)

    def write(self, place: int) -> None:
        posix.pwrite(self.file, self.rows[place].packed(), place * looks.HELD_BYTES)

    def thin(self) -> None:
        """Merge records that are close in time, to make room."""
        self.apart_ns = max(2 * self.apart_ns, 200_000_000)
        kept: list[Held] = []
        self.last = {}
        for row in self.rows:
            place = self.last.get(row.memory)
            if place is not None and row.at_ns - kept[place].at_ns < self.apart_ns:
                _join(kept[place], row.kib, row.least_kib, row.most_kib)
            else:
                self.last[row.memory] = len(kept)
                kept.append(row)
        self.rows = kept
        posix.pwrite(self.file, b"".join(row.packed() for row in kept), 0)
        posix.ftruncate(self.file, len(kept) * looks.HELD_BYTES)


def _join(row: Held, kib: int, least_kib: int, most_kib: int) -> None:
    row.kib = kib
    row.least_kib = min(row.least_kib, least_kib)
    row.most_kib = max(row.most_kib, most_kib)
