"""Find the Python in a process that taupy did not start, and read its threads from outside.

Nothing is stopped, written or called there. Symbols of its executable, or of its libpython, say
where the interpreter is. Where the fields of its structures lie is known from this very Python,
against whose headers our core was compiled, if both are of one version (3.12 reads 3.12), else from
`debug_offsets.py`. What is read is not trusted: a bad address ends a look, and if the first looks
make no sense, the process is refused.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from contextlib import suppress
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from taupy.errors import TaupyError
from taupy.model.processes import contents, process_start
from taupy.watch.debug_offsets import COMPILED, READABLE, is_free_threaded, offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from taupy.watch.debug_offsets import Offsets

_RUNTIME, _CODE_TYPE, _VERSION = b"_PyRuntime", b"PyCode_Type", b"Py_Version"
_WORD = Struct("<Q")
_VERSION_AT, _CODE_TYPE_AT, _GIL_AT, _, _NATIVE_ID_AT = range(5)  # in a layout
_THREADS_AT_MOST = 100_000
_ID_AT_MOST = 1 << 22
"""The kernel gives a thread no larger id, on 64 bits."""
_BEGUN = -8
"""Before the pointer to the first thread, there is the number of those that have begun."""
_CHECK_NS = 1_000_000_000
_BEGIN_S, _AGAIN_S = 2.0, 0.02
_TELLS = 13
"""From this version on, a Python says how it was built."""
_TRIES = 3

_ELF = b"\x7fELF\x02\x01"
_ELF_HEAD = Struct("<16sHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SEGMENT = Struct("<IIQQQQQQ")
_SYMBOL = Struct("<IBBHQQ")
_SYMBOLS, _SHARED, _LOAD = 11, 3, 1


class Unreadable(TaupyError):
    """A process cannot be looked at; the message says why, and what to do."""


class Changing(Unreadable):
    """It is about to become another program (exec), or its Python has not begun yet."""


class Frame(NamedTuple):
    """One frame: a code object's file, name and first line, and where in it the thread is."""

    file: str
    name: str
    first_line: int
    table: bytes
    instruction: int


class Interpreter:
    """The main interpreter of a process.

    Raises:
        Unreadable: there is none, it is of another version, or it may not be read.
        Changing: it may be readable soon.
    """

    def __init__(self, pid: int) -> None:
        try:
            from taupy._native import engine
        except ImportError:
            why = "taupy's compiled core, which reads other processes, is missing"
            raise Unreadable(f"{why}: `taupy doctor` says more") from None
        self.pid, self.start = pid, process_start(pid)
        if not self.start:
            raise Unreadable(f"there is no process {pid}")
        self._is_apart = len(_ids(f"/proc/{pid}")) > 1  # in a PID namespace of its own
        self._own_ids: dict[int, int] = {}  # of threads there, by the ids that they have here
        try:
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                own, *rest = engine.interpreter_layout()
                numbers = self._find(own, rest)
            except BaseException:
                self.close()
                raise
        except PermissionError as problem:
            raise Unreadable(_forbidden(pid)) from problem
        except OSError as problem:
            raise Changing(_changing(pid)) from problem
        self._native_id = numbers[_NATIVE_ID_AT]
        self.layout = b"".join(map(_WORD.pack, numbers))
        self._span = max(self._next, self._native_id) + 8
        self.begun = -1  # how many threads have begun, when they were listed last; -1: unknown
        self._has_all = False  # whether all of them were listed then
        self.codes: dict[int, tuple[int, object, tuple[str, str, int, int, bytes]]] = {}

    def _find(self, own: bytes, rest: Sequence[int]) -> list[int]:
        """Find the interpreter and its first thread; its layout, from that of this Python."""
        numbers = [number for (number,) in _WORD.iter_unpack(own)]
        symbols, path = _symbols(self.pid)
        theirs = self._version(symbols, path)
        runtime = symbols[_RUNTIME]
        minor = theirs >> 16 & 255 if theirs >> 24 == 3 else 0
        if minor >= _TELLS and is_free_threaded(runtime, self._bytes):
            raise Unreadable(
                f"process {self.pid} runs a free-threaded build of Python 3.{minor}, which taupy "
                "cannot read"
            )
        is_ours = theirs >> 16 == numbers[_VERSION_AT] >> 16
        if not is_ours and minor in COMPILED:
            (*numbers,), *rest = COMPILED[minor]
        if is_ours or minor in COMPILED:
            main, first, self._next, gil_in_runtime, gil_in_interpreter = rest
            self._interpreter = self._word(runtime + main)
            self._first = self._interpreter + first
            gil = runtime + gil_in_runtime
            if gil_in_interpreter:
                gil = self._word(self._interpreter + gil_in_interpreter)
        else:
            described = self._told(runtime, minor)
            self._interpreter, self._next, gil = (
                described.interpreter,
                described.next,
                described.gil,
            )
            self._first = self._interpreter + described.threads
            for at, offset in described.layout.items():
                numbers[at] = offset
        if not self._interpreter:
            raise Changing(_changing(self.pid))
        numbers[_CODE_TYPE_AT], numbers[_GIL_AT] = symbols[_CODE_TYPE], gil
        return numbers

    def _version(self, symbols: dict[bytes, int], path: str) -> int:
        """The hexadecimal version of its Python; 0: one before 3.11."""
        if not symbols.keys() >= {_RUNTIME, _CODE_TYPE}:
            name = path or contents(f"/proc/{self.pid}/comm").decode("utf-8", "replace").strip()
            raise Unreadable(f"process {self.pid} ({name}) is no Python that can be read")
        return self._word(symbols[_VERSION]) & 0xFFFFFFFF if _VERSION in symbols else 0

    def _told(self, runtime: int, minor: int) -> Offsets:
        """Where a Python of another version says that it has its fields."""
        described = offsets(runtime, minor, self._bytes, self._word)
        if described is not None:
            return described
        if minor in READABLE:
            raise Unreadable(
                f"process {self.pid} runs a build of Python 3.{minor} that this taupy, of Python "
                f"3.{sys.version_info.minor}, cannot read: use the taupy of that Python"
            )
        version = f"Python 3.{minor}" if minor else "a Python before 3.11"
        raise Unreadable(
            f"process {self.pid} runs {version}, and taupy can read only processes of Python "
            f"3.{READABLE[0]} to 3.{READABLE[-1]}"
        )

    def close(self) -> None:
        os.close(self._memory)

    def is_there(self) -> bool:
        """Whether the process is still the same."""
        return process_start(self.pid) == self.start

    def _bytes(self, address: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, address)
        except (OverflowError, ValueError):
            data = b""
        if len(data) < size:
            raise OSError(14, "it has no such address")
        return data

    def _word(self, address: int) -> int:
        return int.from_bytes(self._bytes(address, 8), "little")

    def _count(self) -> int:
        return self._word(self._first + _BEGUN)

    def has_new(self) -> bool:
        """Whether there may be threads that `threads` has not listed yet."""
        with suppress(OSError):
            return not self._has_all or self._count() != self.begun
        return False  # it has ended, or runs another program

    def threads(self) -> dict[int, int]:
        """Its threads with Python, as they are now: by id of the system, where their state lies."""
        by_id: dict[int, int] = {}
        seen: set[int] = set()
        is_whole = False
        with suppress(OSError):
            self.begun, state = self._count(), self._word(self._first)
            while state and state not in seen and len(seen) < _THREADS_AT_MOST:
                seen.add(state)
                data = self._bytes(state, self._span)
                (native_id,) = _WORD.unpack_from(data, self._native_id)
                # Before it begins it has no id or, in 3.11, that of its creator, which comes later.
                # If it ends just now, its memory may be another's, with anything in it.
                if 0 < native_id <= _ID_AT_MOST:
                    by_id[native_id] = state
                (state,) = _WORD.unpack_from(data, self._next)
            is_whole = not state
        if self._is_apart:
            self._own_ids = {tid: own for tid, own in self._tasks() if own in by_id}
            by_id = {tid: by_id[own] for tid, own in self._own_ids.items()}
        self._has_all = is_whole and len(by_id) == len(seen)
        return dict(sorted(by_id.items()))  # the main thread first

    def _tasks(self) -> Iterator[tuple[int, int]]:
        """The ids of its threads: here, and in its own namespace."""
        with suppress(OSError):
            for task in os.listdir(f"/proc/{self.pid}/task"):
                if ids := _ids(f"/proc/{self.pid}/task/{task}"):
                    yield int(task), ids[-1]

    def thread(self, native_id: int, state: int) -> ForeignThread:
        """Raises ValueError if its fields cannot be where they were said to be."""
        from taupy._native import remote

        own = self._own_ids.get(native_id, native_id)
        thread = remote.Thread(self.pid, self.layout, state, own, tid=native_id)
        return ForeignThread(self, thread, native_id, state)

    def code(self, thread: Any, address: int, now: int) -> tuple[str, str, int, int, bytes]:
        """The code object at an address, read again when another has taken its place.

        Raises:
            ValueError: there is none.
        """
        last = self.codes.get(address)
        if last is not None and now - last[0] < _CHECK_NS:
            return last[2]
        mark = thread.mark(address)
        if last is None or last[1] != mark:
            last = now, mark, thread.code(address)
        self.codes[address] = now, mark, last[2]
        return last[2]


def interpreter_of(pid: int) -> Interpreter:
    """The interpreter of a process. One that is about to run Python, as a script is that becomes it
    (exec), has two seconds to begin.

    Raises:
        Unreadable: there is none, it is of another version, or it may not be read.
    """
    until = time.monotonic() + _BEGIN_S
    while True:
        try:
            return Interpreter(pid)
        except Changing:
            if time.monotonic() >= until:
                raise
        time.sleep(_AGAIN_S)


class ForeignThread:
    """A thread of an interpreter.

    Attributes:
        native_id: the operating system's id of it.
        torn: looks whose frames did not fit together.
    """

    def __init__(self, of: Interpreter, remote: Any, native_id: int, state: int) -> None:
        self.of, self.remote, self.native_id, self.state = of, remote, native_id, state
        self.torn = 0

    def name(self) -> str:
        """What the system calls it; the main thread as Python does."""
        if self.native_id == self.of.pid:
            return "MainThread"
        try:
            path = f"/proc/{self.of.pid}/task/{self.native_id}/comm"
            return contents(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def begin(self, is_new: bool) -> None:
        """Looks stand for the time from now on; if it is new, from its beginning on."""
        self.remote.begin(is_new)

    def does(self, took: int) -> int:
        """One of `state.lines.STATES`.

        Args:
            took: the time since the previous look [ns]; 0: there was none.
        """
        does: int = self.remote.does(took)
        return does

    def look(self) -> list[Frame] | None:
        """Its frames, innermost first; None if they did not fit together.

        Raises:
            OSError: it has ended, or may not be read.
        """
        for _ in range(_TRIES):
            raw_frames = self.remote.look(set())
            now = time.monotonic_ns()
            if raw_frames is None:
                continue
            frames = []
            with suppress(ValueError):
                for address, instruction in raw_frames:
                    file, name, line, units, table = self.of.code(self.remote, address, now)
                    if not -2 <= instruction < 2 * units:
                        raise ValueError
                    frames.append(Frame(file, name, line, table, instruction))
                return frames
        self.torn += 1
        return None


# --- symbols -------------------------------------------------------------------------


def _symbols(pid: int) -> tuple[dict[bytes, int], str]:
    """Addresses of our symbols in the process, and the file that they were found in.

    Raises:
        OSError: it has ended, or may not be read.
    """
    first: dict[str, int] = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6 and "python" in os.path.basename(words[5]) and words[2] == "0" * 8:
                first.setdefault(words[5], int(words[0].partition("-")[0], 16))
    exe = os.readlink(f"/proc/{pid}/exe")
    for path, begin in first.items():
        of_process = f"/proc/{pid}/exe" if path == exe else f"/proc/{pid}/root{path}"
        with suppress(OSError, error, ValueError):
            symbols = _defined(of_process, begin)
            if _RUNTIME in symbols:
                return symbols, path
    return {}, exe


def _defined(path: str, begin: int) -> dict[bytes, int]:
    """Addresses of our symbols that a file defines, which is mapped from an address on."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != _ELF:
            return {}
        head = _ELF_HEAD.unpack_from(data)
        kind, segments_at, sections_at = head[1], head[5], head[6]
        segment_count, section_count = head[10], head[12]
        bias = 0
        if kind == _SHARED:
            for number in range(segment_count):
                segment = _SEGMENT.unpack_from(data, segments_at + number * _SEGMENT.size)
                if segment[0] == _LOAD:
                    bias = begin - (segment[3] & -mmap.PAGESIZE)
                    break
        addresses: dict[bytes, int] = {}
        for number in range(section_count):
            section = _SECTION.unpack_from(data, sections_at + number * _SECTION.size)
            if section[1] == _SYMBOLS:
                names = _SECTION.unpack_from(data, sections_at + section[6] * _SECTION.size)
                texts = data[names[4] : names[4] + names[5]]
                wanted = {
                    texts.find(b"\0" + name + b"\0") + 1: name
                    for name in (_RUNTIME, _CODE_TYPE, _VERSION)
                }
                wanted.pop(0, None)
                for symbol in _SYMBOL.iter_unpack(data[section[4] : section[4] + section[5]]):
                    if symbol[0] in wanted and symbol[3]:
                        addresses[wanted[symbol[0]]] = symbol[4] + bias
        return addresses


def _ids(path: str) -> list[int]:
    """The ids of a process or thread in our PID namespace and those below, its own last."""
    with suppress(OSError):
        for line in contents(f"{path}/status", 1 << 16).splitlines():
            if line.startswith(b"NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return []


def _changing(pid: int) -> str:
    return f"process {pid} cannot be read: it is about to run a program (exec), or to end"


def _forbidden(pid: int) -> str:
    """Why a process may not be read, and what to do."""
    with suppress(OSError, ValueError):
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return f"process {pid} is another user's: looking at it needs root"
    with suppress(OSError, ValueError):
        scope = int(contents("/proc/sys/kernel/yama/ptrace_scope"))
        if scope:
            return (
                f"the kernel permits no look at process {pid} (ptrace_scope is {scope}): run taupy "
                "as root, or `sudo sysctl kernel.yama.ptrace_scope=0`"
            )
    return (
        f"the kernel permits no look at process {pid}: it needs root, or the capability "
        "CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
    )
