"""The watch's files in a run folder: its heartbeat, and when and how processes ended.

The file `watch` has a header, which is rewritten in each round, followed by a record for each
process that has ended. The file `watch.found` has a record for each process below the program.
Times are ns of CLOCK_MONOTONIC, as in parts. Only `struct` is imported, so that the watch stays
small.
"""

from _struct import Struct

from taupy.state.folder import Folder
from taupy.state.limits import RECORD_BYTES
from taupy.state.values import Damaged
from taupy.state.watch_files import FOUND, HEARTBEAT

_MAGIC, _VERSION = b"TAUPYWCH", 2
_HEADER = Struct("<8sII8q48x")
_END = Struct("<qQqqq24x")
_SEEN = Struct("<qqqH230s")
COMMAND_BYTES = 230
HEADER_BYTES, END_BYTES, SEEN_BYTES = _HEADER.size, _END.size, _SEEN.size
SEEN_AT_MOST = RECORD_BYTES // SEEN_BYTES
ENDS_AT_MOST = (RECORD_BYTES - HEADER_BYTES) // END_BYTES
_NO_STATUS = -1
_LARGEST = 1 << 62


class Beat:
    """The header.

    Attributes:
        is_over: the watch has seen all processes end.
        began_ns: time of its first round.
        beat_ns: time of its last round.
        rounds: number of rounds.
        longest_ns: the longest time between two rounds.
        cpu_ns: its own CPU time.
        apart_ns: the longest time between two looks for new processes.
        unseen: processes and threads, also of other programs, that began and ended between two
            such looks that were too far apart.
        pid: its own process id.
    """

    __slots__ = (
        "apart_ns", "beat_ns", "began_ns", "cpu_ns", "is_over", "longest_ns", "pid", "rounds",
        "unseen",
    )  # fmt: skip

    def __init__(self, began_ns: int, pid: int) -> None:
        self.is_over = False
        self.began_ns = self.beat_ns = began_ns
        self.rounds = self.longest_ns = self.cpu_ns = self.apart_ns = self.unseen = 0
        self.pid = pid

    def packed(self) -> bytes:
        return _HEADER.pack(
            _MAGIC, _VERSION, self.is_over, self.began_ns, self.beat_ns, self.rounds,
            self.longest_ns, self.cpu_ns, self.apart_ns, self.unseen, self.pid,
        )  # fmt: skip

    @property
    def interval_ns(self) -> int:
        """The mean time between two rounds; 0 before the second round."""
        return (self.beat_ns - self.began_ns) // self.rounds if self.rounds else 0


class End:
    """The end of a process.

    Attributes:
        start: its start time, as in `processes.process_start`.
        ended_ns: when its end was noticed.
        late_ns: how much earlier it may have ended.
        status: wait status as of `os.wait`; None if the kernel did not report it.
    """

    __slots__ = ("ended_ns", "late_ns", "pid", "start", "status")

    def __init__(self, pid: int, start: int, ended_ns: int, late_ns: int, status: int | None):
        self.pid = pid
        self.start = start
        self.ended_ns = ended_ns
        self.late_ns = late_ns
        self.status = status

    def packed(self) -> bytes:
        status = _NO_STATUS if self.status is None else self.status
        return _END.pack(self.pid, self.start, self.ended_ns, self.late_ns, status)


class SeenProcess:
    """A process below the program.

    Attributes:
        seen_ns: when it was first seen.
        command: its arguments, each terminated by a zero byte, as far as they fit.
    """

    __slots__ = ("command", "parent", "pid", "seen_ns")

    def __init__(self, pid: int, parent: int, seen_ns: int, command: bytes) -> None:
        self.pid = pid
        self.parent = parent
        self.seen_ns = seen_ns
        self.command = command

    def packed(self) -> bytes:
        command = self.command[:COMMAND_BYTES]
        return _SEEN.pack(self.pid, self.parent, self.seen_ns, len(command), command)


def read_seen(folder: Folder) -> list[SeenProcess]:
    """The processes that a watch has found; none if there was no watch.

    Raises:
        Damaged: the file is damaged.
        OSError: it is not trusted, or cannot be read.
    """
    try:
        data = (folder / FOUND).read_record()
    except FileNotFoundError:
        return []
    processes = []
    for pid, parent, seen_ns, size, command in _SEEN.iter_unpack(
        data[: len(data) // SEEN_BYTES * SEEN_BYTES]
    ):
        if pid <= 0 or not 0 <= seen_ns < _LARGEST or size > COMMAND_BYTES:
            raise Damaged(f"{FOUND} is damaged: an impossible process")
        processes.append(SeenProcess(pid, parent, seen_ns, command[:size]))
    return processes


def read(folder: Folder) -> tuple[Beat, list[End]] | None:
    """The record of a watch; None if there was no watch, or it did not reach its first round.

    Raises:
        Damaged: the file is damaged.
        OSError: it is not trusted, or cannot be read.
    """
    try:
        data = (folder / HEARTBEAT).read_record()
    except FileNotFoundError:
        return None
    if not data:
        return None
    if len(data) < HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise Damaged(f"{HEARTBEAT} is damaged: it does not begin with {_MAGIC.decode()}")
    _, version, is_over, *times, pid = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise Damaged(f"{HEARTBEAT} is of version {version}, this taupy reads version {_VERSION}")
    if not all(0 <= time < _LARGEST for time in times):
        raise Damaged(f"{HEARTBEAT} is damaged: impossible times")
    beat = Beat(times[0], pid)
    beat.is_over = bool(is_over)
    _, beat.beat_ns, beat.rounds, beat.longest_ns, beat.cpu_ns, beat.apart_ns, beat.unseen = times
    return beat, _ends(data)


def _ends(data: bytes) -> list[End]:
    """The complete records after the header."""
    whole = HEADER_BYTES + (len(data) - HEADER_BYTES) // END_BYTES * END_BYTES
    ends = []
    for pid, start, ended_ns, late_ns, status in _END.iter_unpack(data[HEADER_BYTES:whole]):
        if not (0 <= ended_ns < _LARGEST and 0 <= late_ns < _LARGEST):
            raise Damaged(f"{HEARTBEAT} is damaged: an impossible end of a process")
        known_status = status if 0 <= status < 1 << 16 else None
        ends.append(End(pid, start, ended_ns, late_ns, known_status))
    return ends
