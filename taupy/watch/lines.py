"""Look at which line each thread is in: 200 times a second for two seconds, then 50 times.

The frames are read from outside (`_native/remote.h`): the program is not stopped, and does nothing
for it. Each look counts for the time since the previous one at the same thread. With many threads,
each tick looks at some of them, in turn. Ticks become rarer when they take more than their share of
a core.
"""

import posix
import time

from taupy.model.processes import contents
from taupy.state import lines
from taupy.state.folder import Folder
from taupy.state.lines import (
    ACTIVE,
    CPU,
    DISK,
    GIL,
    LOCK,
    NO_CODE,
    RUNNABLE,
    WAIT,
    Code,
    Head,
    Row,
)
from taupy.state.values import Damaged, loads
from taupy.watch.own_files import IMPORTING, OwnFiles
from taupy.watch.processor import Processor, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from taupy.watch.part_threads import PartThreads

FIRST_NS = 150_000_000
"""A process is not looked at before it has run for so long."""
_QUICK_NS, _SLOW_NS = 5_000_000, 20_000_000
_QUICKLY_NS = 2_000_000_000
_SHARE = 143  # a look takes at most one in so many parts of the time: 0.7 %
_CREDIT_NS = 60_000_000  # for the first two seconds
_PAUSE_AT_MOST_NS = 1_000_000_000
_THREADS_A_TICK = 8
_TRIES = 3
_CHECK_NS = 1_000_000_000  # how often it is checked that an address still has the same code
_FUTEX = b"202" if posix.uname().machine == "x86_64" else b"98"
_OTHER, _OWN, _IMPORT = range(3)


class _Known:
    """A code object at its address.

    Attributes:
        number: in the file of codes; NO_CODE as long as no look has counted for it.
        mark: what tells it from a later one at this address.
    """

    __slots__ = ("checked_ns", "code", "kind", "mark", "number", "units")

    def __init__(self, code: Code, units: int, kind: int, mark: "Any", now: int) -> None:
        self.code = code
        self.units = units
        self.kind = kind
        self.mark = mark
        self.checked_ns = now
        self.number = NO_CODE


class _Process:
    """A process whose threads are looked at.

    Attributes:
        codes: by address; None: there is no code object.
        own: the addresses of the program's own, at which a look may end.
    """

    __slots__ = ("codes", "gil", "own", "part")

    def __init__(self, part: "PartThreads") -> None:
        self.part = part
        self.codes: dict[int, _Known | None] = {}
        self.own: set[int] = set()
        self.gil = range(*part.lock)


class _Thread:
    """A thread at the last look."""

    __slots__ = ("index", "looked_ns", "moved", "process", "processor", "remote", "state", "tid")

    def __init__(self, process: _Process, tid: int, index: int, state: int, now: int) -> None:
        from taupy._native import remote

        part = process.part
        self.remote = remote.Thread(part.pid, part.layout, state, tid)
        self.processor = Processor(times(part.pid, tid))
        self.process = process
        self.tid = tid
        self.index = index
        self.state = state
        self.looked_ns = now
        self.moved = 0


class Lines:
    """The looks of one run at lines.

    If the launcher has not created the files, nobody wants them.

    Attributes:
        due_ns: when the next tick is due; 0: there is nothing to look at.
        own: which files are the program's; None: nobody has looked yet.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.own: OwnFiles | None = None
        self.files: dict[str, int] = {}
        self.due_ns = 0
        self.head = Head()
        self.is_wanted = (folder / lines.LINES).exists()
        self.began_ns = 0
        self.ticked_ns = 0
        self.credit_ns = _CREDIT_NS
        self.chance = posix.getpid()
        self.processes: dict[int, _Process] = {}
        self.threads: dict[tuple[int, int], _Thread] = {}  # the one looked at longest ago first
        self.rows: dict[tuple[int, ...], tuple[int, Row]] = {}
        self.owned: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}  # keys, by thread
        self.free: list[int] = []  # places of rows
        self.numbers: dict[tuple[str, str, int, bytes], int] = {}
        self.code_bytes = 0

    def find(self, parts: "Iterable[PartThreads]", now: int) -> None:
        """Look at these threads from now on; called after each round of the watch."""
        for part in (parts := list(parts)):
            for number in part.added_up[1]:
                self.join((part.pid, part.ticks, number))
            part.added_up[1].clear()
        if not self.is_wanted or self.head.refused:
            return
        living = set()
        for part in parts:
            if not part.layout or not part.states or not self.begin():
                continue
            process = self.processes.get(part.pid)
            if process is None or process.part is not part:
                process = self.processes[part.pid] = _Process(part)
            for tid, (index, state) in part.states.items():
                key = part.pid, tid
                living.add(key)
                entry = self.threads.get(key)
                if (
                    entry is None
                    or entry.process is not process
                    or (entry.index, entry.state) != (index, state)
                ):
                    self.threads.pop(key, None)
                    if (new := self._new(process, tid, index, state, now)) is not None:
                        self.threads[key] = new
        for key in self.threads.keys() - living:
            del self.threads[key]
        of_threads = [thread.process for thread in self.threads.values()]
        self.processes = {process.part.pid: process for process in of_threads}
        if self.threads and not self.began_ns:
            self.began_ns = now + FIRST_NS
            self.due_ns = self.began_ns
            for thread in self.threads.values():
                thread.looked_ns = self.began_ns

    def begin(self) -> bool:
        """Open the files, and read what the program is. False if that fails."""
        if self.own is not None:
            return True
        try:
            settings = loads((self.folder / "run").read_record())
            self.own = OwnFiles(settings["arguments"], settings["library_folders"])
            for name in lines.FILES:
                flags = posix.O_WRONLY | posix.O_NOFOLLOW
                self.files[name] = posix.open(name, flags, dir_fd=self.folder.descriptor)
        except (OSError, Damaged, LookupError, TypeError, AttributeError):
            self.is_wanted = False
        return self.is_wanted

    def _new(
        self, process: _Process, tid: int, index: int, state: int, now: int
    ) -> "_Thread | None":
        if not self.began_ns:
            now += FIRST_NS
        try:
            return _Thread(process, tid, index, state, now)
        except (ImportError, ValueError, ProcessLookupError):
            return None  # there is no compiled core, the part says nonsense, or it has ended

    def look(self) -> None:
        """One tick: look at some threads, those first at which nobody has looked for longest."""
        now = time.monotonic_ns()
        for key in list(self.threads)[:_THREADS_A_TICK]:
            thread = self.threads.pop(key)
            try:
                self.look_at(thread)
            except PermissionError as problem:
                self.refuse(problem.errno or 1)
                return
            except OSError:
                continue  # it has ended
            self.threads[key] = thread
        self._write_head()
        self.schedule(now)

    def refuse(self, errno: int) -> None:
        """Nobody may look: stop."""
        self.head.refused = errno
        self.due_ns = 0
        self.threads.clear()
        self._write_head()

    def schedule(self, now: int) -> None:
        """When the next tick is due, given what they have taken."""
        self.credit_ns = min(_CREDIT_NS, self.credit_ns + (now - self.ticked_ns) // _SHARE)
        self.ticked_ns = now
        self.chance = (self.chance * 1103515245 + 12345) % (1 << 31)
        wanted = _QUICK_NS if now < self.began_ns + _QUICKLY_NS else _SLOW_NS
        varied = wanted * 3 // 4 + self.chance * (wanted // 2) // (1 << 31)
        owed = min(-self.credit_ns * _SHARE, _PAUSE_AT_MOST_NS)
        self.due_ns = now + max(varied, owed) if self.threads else 0

    def spent(self, cpu_ns: int) -> None:
        """So much CPU time went into a tick."""
        self.credit_ns -= cpu_ns
        self.head.cpu_ns += cpu_ns

    # --- one thread ----------------------------------------------------------

    def look_at(self, thread: _Thread) -> None:
        """Raises OSError if it has ended, or may not be read."""
        process = thread.process
        for _ in range(_TRIES):
            frames = thread.remote.look(process.own)
            now = time.monotonic_ns()
            if frames is not None and (places := self.places(thread, frames, now)) is not None:
                break
        else:
            self.head.torn += 1
            return
        took = now - thread.looked_ns
        thread.looked_ns = now
        if places:
            self.head.moved += thread.remote.moved - thread.moved
            thread.moved = thread.remote.moved
            inner, own = places
            does = activity(process.part.pid, thread.tid, process.gil, thread.processor, took)
            self.note(thread, does, inner, own, took)
        else:  # what it does now is no line's: only what it does from now on counts
            thread.processor = Processor(times(process.part.pid, thread.tid))

    def places(
        self, thread: _Thread, frames: "tuple[tuple[int, int], ...]", now: int
    ) -> "tuple[tuple[int, int], tuple[int, int]] | tuple[()] | None":
        """The innermost place, and the innermost of the program, as (number of the code,
        instruction). Empty if the thread runs no Python, or imports; None if the frames do not fit
        together."""
        own = None
        for address, instruction in frames:
            entry = self.code(thread, address, now)
            if entry is None or not -2 <= instruction < 2 * entry.units:
                return None
            if entry.kind == _IMPORT:
                self.head.imports += 1
                return ()
            if entry.kind == _OWN:
                own = entry, instruction
                break
        if not frames:
            return ()
        inner = self.code(thread, frames[0][0], now)
        if inner is None:
            return None
        of_inner = self.number(inner), frames[0][1]
        return of_inner, (NO_CODE, 0) if own is None else (self.number(own[0]), own[1])

    def code(self, thread: _Thread, address: int, now: int) -> "_Known | None":
        """The code object at an address, which is read when it is first seen, and again when
        another one has taken its place."""
        process, entry = thread.process, None
        if address in process.codes:
            entry = process.codes[address]
            if entry is not None and now - entry.checked_ns < _CHECK_NS:
                return entry
        try:
            mark = thread.remote.mark(address)
            if entry is not None and entry.mark == mark:
                entry.checked_ns = now
                return entry
            file, name, first_line, units, table = thread.remote.code(address)
        except ValueError:
            process.codes.pop(address, None)
            process.own.discard(address)
            return None
        kind = _OTHER
        if file.startswith(IMPORTING):
            kind = _IMPORT
        elif self.own is not None and self.own.has(file):
            kind = _OWN
        (process.own.add if kind == _OWN else process.own.discard)(address)
        entry = _Known(Code(file, name, first_line, table), units, kind, mark, now)
        process.codes[address] = entry
        return entry

    def number(self, entry: _Known) -> int:
        """Its number in the file of codes, where it is written when it is first needed."""
        if entry.number != NO_CODE:
            return entry.number
        code = entry.code
        key = code.file, code.name, code.first_line, code.lines
        number = self.numbers.get(key)
        if number is None:
            data = code.packed()
            is_full = self.code_bytes + len(data) > lines.CODE_BYTES_AT_MOST
            if is_full or len(self.numbers) >= lines.CODES_AT_MOST:
                return NO_CODE
            number = self.numbers[key] = len(self.numbers)
            posix.pwrite(self.files[lines.CODES], data, self.code_bytes)
            self.code_bytes += len(data)
        entry.number = number
        entry.code = Code("", "", 0, b"")  # it is in the file
        return number

    def note(
        self,
        thread: _Thread,
        state: int,
        inner: tuple[int, int],
        own: tuple[int, int],
        took: int,
    ) -> None:
        part = thread.process.part
        key = (part.pid, part.ticks, thread.index, state, *inner, *own)
        place = self.rows.get(key)
        if place is None:
            if inner[0] == NO_CODE or len(self.rows) >= lines.ROWS_AT_MOST:
                self.head.left_out += 1
                return
            row = Row(part.pid, part.ticks, thread.index, state, inner, own)
            at = lines.HEAD_BYTES + len(self.rows) * lines.ROW_BYTES
            place = self.rows[key] = self.free.pop() if self.free else at, row
            self.owned.setdefault(key[:3], []).append(key)
        at, row = place
        row.looks += 1
        row.time_ns += took
        row.squares += float(took) * took
        self.head.looks += 1
        posix.pwrite(self.files[lines.LINES], row.packed(), at)

    def join(self, thread: tuple[int, int, int]) -> None:
        """The thread has ended and was added up with others: so are its rows."""
        for key in self.owned.pop(thread, ()):
            at, row = self.rows.pop(key)
            of_all = (*key[:2], lines.ADDED_UP, *key[3:])
            if of_all not in self.rows:
                row.thread = lines.ADDED_UP
                self.rows[of_all] = at, row
            else:
                _, whole = self.rows[of_all]
                whole.looks += row.looks
                whole.time_ns += row.time_ns
                whole.squares += row.squares
                row.looks = row.time_ns = 0
                row.squares = 0.0
                self.free.append(at)
                posix.pwrite(self.files[lines.LINES], whole.packed(), self.rows[of_all][0])
            posix.pwrite(self.files[lines.LINES], row.packed(), at)

    def _write_head(self) -> None:
        posix.pwrite(self.files[lines.LINES], self.head.packed(), 0)


def activity(pid: int, tid: int, gil: range, processor: Processor, took: int) -> int:
    """What a thread does: one of `lines.STATES`.

    Args:
        gil: where the interpreter's lock lies.
        processor: of the thread.
        took: the time since the previous look [ns].

    Raises:
        OSError: there is no such thread any more.
    """
    place = f"/proc/{pid}/task/{tid}/"
    try:
        call, *words = contents(place + "syscall").split()
    except (OSError, ValueError):
        return ACTIVE  # there is no such file here (gVisor)
    if call == _FUTEX and words:
        return GIL if int(words[0], 16) in gil else LOCK
    if call != b"running":
        stat = contents(place + "stat")
        state = stat[stat.rindex(b")") + 2 :][:1]
        if state != b"R":
            return DISK if state == b"D" else WAIT
    runs = processor.runs(times(pid, tid), took)
    return ACTIVE if runs is None else CPU if runs else RUNNABLE
