"""The plain-Python engine's notes of the processes that the program starts.

A profile function is told that a C function is called and that it has returned, and not with what.
So when one that starts a process has returned, the kernel is asked which children the thread has
and what they are. A process that becomes another program can be noted as such only.

Runs inside the measured process: built-in modules only.
"""

import posix
import sys
import time

# The program may replace built-in functions; these stay what they are.
from builtins import OSError, dict, getattr, int, len, set  # noqa: UP029

from taupy.instrument.engine_part import contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.instrument.engine_state import EngineState
    from taupy.instrument.engine_tree import ThreadTree

EXECS = (posix.execv, posix.execve)
_STARTERS = (posix.posix_spawn, posix.posix_spawnp)
_HAS_NOT_EXECUTED = 0x40  # PF_FORKNOEXEC, a flag of the process
_LOOK_NS, _WAIT_NS = 1_000_000_000, 50_000_000
_NOTE_BYTES, _LOOKS = 1024, 100
_readlink, _sleep = posix.readlink, time.sleep


class Children:
    """What one process has started.

    Attributes:
        starters: functions that start a process, as far as they are known.
    """

    def __init__(self, state: "EngineState") -> None:
        self.state = state
        self.starters: set[object] = {*_STARTERS}
        state.ways_out |= {*_STARTERS, *EXECS}
        self.begin()

    def begin(self) -> None:
        """Nothing is started yet; this may be a forked child."""
        self.count, self.becoming = 0, ""
        self.seen: dict[int, set[bytes]] = {}  # children by thread
        self.starting: set[int] = set()  # threads in such a function

    def find_starters(self) -> bool:
        """Do we know the function that subprocess and others use? It comes with its module."""
        module = sys.modules.get("_posixsubprocess")
        function = getattr(module, "fork_exec", None) if module is not None else None
        if function is None:
            return False
        self.starters.add(function)
        self.state.ways_out.add(function)
        return True

    def expect(self, thread: "ThreadTree") -> None:
        """The thread is about to start a process."""
        thread.child_began_ns = self.state.clock()
        self.seen[thread.native_id] = set(_children_of(thread))
        self.starting.add(thread.native_id)

    def look(self, thread: "ThreadTree", function: object = None) -> None:
        """A C function has returned on a thread that starts, or has started, a process."""
        if thread.native_id in self.starting:
            if function not in self.starters and function not in EXECS:
                return  # what it calls itself
            self.starting.discard(thread.native_id)
        began_ns, thread.child_began_ns = thread.child_began_ns, 0
        if self.becoming:  # it has failed
            self.state.metadata.pop(self.becoming, None)
            self.becoming = ""
            return
        seen = self.seen.get(thread.native_id, set())
        for pid in _children_of(thread):
            if pid in seen:
                continue
            command = _command(pid)
            if command:
                folder, executable = _link(pid, b"cwd") + b"/", _link(pid, b"exe")
                head = b"%s %d 0" % (pid, began_ns)
                self._add(b"\0".join((head, folder, executable, command[:-1])))
            elif not _has_ended(pid) and self.state.clock() - began_ns < _LOOK_NS:
                thread.child_began_ns = began_ns

    def wait(self, thread: "ThreadTree") -> None:
        """The thread is about to wait, perhaps for the process that it has started. The words of a
        command are there a moment after the process: until then we wait, too."""
        until = self.state.clock() + _WAIT_NS
        while thread.child_began_ns and self.state.clock() < until:
            self.look(thread)
            _sleep(0.0005)

    def become(self, thread: "ThreadTree | None") -> None:
        """The process is about to become another program."""
        if thread is not None:
            thread.child_began_ns = self.state.clock()
            self.starting.add(thread.native_id)
            self.becoming = self._add(b"%d %d 0\0\0" % (self.state.pid, self.state.clock()))

    def _add(self, note: bytes) -> str:
        name = f"taupy.child.{self.count}"
        self.count += 1
        self.state.metadata[name] = note[:_NOTE_BYTES].decode("utf-8", "backslashreplace")
        return name


def _children_of(thread: "ThreadTree") -> list[bytes]:
    return contents(b"/proc/self/task/%d/children" % thread.native_id).split()


def _command(pid: bytes) -> bytes:
    """Its words, each with a NUL behind it; none while it is still our fork, or has ended.

    A parent goes on a moment before the kernel has laid out the words (0.1 to 3 ms), and its next
    step may be to wait for the child's end."""
    for _ in range(_LOOKS):
        if not _has_executed(pid) or _has_ended(pid):
            break
        if words := contents(b"/proc/%s/cmdline" % pid):
            return words
        _sleep(0.0005)
    return b""


def _has_executed(pid: bytes) -> bool:
    """Is it another program by now, not our fork any more?"""
    fields = _status(pid)
    return len(fields) > 6 and not int(fields[6]) & _HAS_NOT_EXECUTED


def _has_ended(pid: bytes) -> bool:
    return _status(pid)[:1] in ([], [b"Z"], [b"X"])


def _status(pid: bytes) -> list[bytes]:
    """State, parent and so on of a process: what stands behind its name."""
    text = contents(b"/proc/%s/stat" % pid)
    return text[text.rfind(b")") + 2 :].split()


def _link(pid: bytes, name: bytes) -> bytes:
    try:
        return _readlink(b"/proc/%s/%s" % (pid, name))
    except OSError:
        return b""
