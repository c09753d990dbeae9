"""Notes of the plain-Python engine on processes that the program starts.

A profile function learns that a C function is called and that it returned, but not its arguments
or result. After a function that starts a process has returned, the thread's children are therefore
read from the kernel. If a process becomes another program, only that fact is known.

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
FORKS = (posix.fork, posix.forkpty)
_STARTERS = (posix.posix_spawn, posix.posix_spawnp, *FORKS)
_HAS_NOT_EXECUTED = 0x40  # PF_FORKNOEXEC, a flag of the process
_LOOK_NS, _WAIT_NS = 1_000_000_000, 50_000_000
_NOTE_BYTES, _LOOKS = 1024, 100
_readlink, _sleep = posix.readlink, time.sleep


class Children:
    """Processes started by one process.

    Attributes:
        starters: known functions that start a process.
    """

    def __init__(self, state: "EngineState") -> None:
        self.state = state
        self.starters: set[object] = {*_STARTERS}
        state.ways_out |= {*_STARTERS, *EXECS}
        self.begin()

    def begin(self) -> None:
        """Reset, at the start and in a forked child."""
        self.count, self.becoming, self.forks = 0, "", 0
        self.seen: dict[int, set[bytes]] = {}  # children by thread
        self.starting: set[int] = set()  # threads in a function that starts a process

    def find_starters(self) -> bool:
        """Add the function that subprocess and others use, once its module is imported."""
        module = sys.modules.get("_posixsubprocess")
        function = getattr(module, "fork_exec", None) if module is not None else None
        if function is None:
            return False
        self.starters.add(function)
        self.state.ways_out.add(function)
        return True

    def expect(self, thread: "ThreadTree") -> None:
        """The thread is about to start a process."""
        if thread.child_began_ns:
            self.look(thread)  # the last look after the previous start
        thread.child_began_ns = self.state.clock()
        self.seen[thread.native_id] = _children_of(thread)
        self.starting.add(thread.native_id)

    def failed(self, thread: "ThreadTree", function: object) -> None:
        """A C function has raised: nothing has forked."""
        if function in FORKS and thread.native_id in self.starting:
            self.starting.discard(thread.native_id)
            thread.child_began_ns = 0

    def look(self, thread: "ThreadTree", function: object = None) -> None:
        """Look for a new child after a C function has returned, on a thread that is starting a
        process or has started one."""
        if thread.native_id in self.starting:
            if function not in self.starters and function not in EXECS:
                return  # a function called by it
            self.starting.discard(thread.native_id)
        began_ns, thread.child_began_ns = thread.child_began_ns, 0
        if self.becoming:  # the exec failed
            self.state.metadata.pop(self.becoming, None)
            self.becoming = ""
            return
        seen = self.seen.get(thread.native_id, set())
        if function in FORKS:
            self._note_fork(_children_of(thread).difference(seen), began_ns)
            return
        for pid in _children_of(thread).difference(seen):
            command = _command(pid)
            if command:
                folder, executable = _link(pid, b"cwd") + b"/", _link(pid, b"exe")
                head = b"%s %d 0" % (pid, began_ns)
                self._add(b"\0".join((head, folder, executable, command[:-1])))
            elif not _has_ended(pid) and self.state.clock() - began_ns < _LOOK_NS:
                thread.child_began_ns = began_ns

    def wait(self, thread: "ThreadTree") -> None:
        """The thread is about to wait, perhaps for the process that it started: wait until that
        process has its command line, which takes a moment."""
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

    def _note_fork(self, children: set[bytes], began_ns: int) -> None:
        """The only new process is the child. It is missed if no descriptor is free for reading, or
        if it has ended and the program ignores its children's ends."""
        pid = children.pop() if len(children) == 1 else b"0"
        self.state.metadata[f"taupy.fork.{self.forks}"] = f"{int(pid)} {began_ns}"
        self.forks += 1
        if self.state.helper and not self.state.forked and self.state.real_time:
            self.state.due[0] = 0  # the run may be stored before a helper ends

    def _add(self, note: bytes) -> str:
        name = f"taupy.child.{self.count}"
        self.count += 1
        self.state.metadata[name] = note[:_NOTE_BYTES].decode("utf-8", "backslashreplace")
        return name


def _children_of(thread: "ThreadTree") -> set[bytes]:
    return {*contents(b"/proc/self/task/%d/children" % thread.native_id).split()}


def _command(pid: bytes) -> bytes:
    """Its command line, each word followed by NUL; empty before the exec and after the end.

    A parent continues before the kernel has set up the command line (0.1 to 3 ms later), and its
    next step may be to wait for the child's end."""
    for _ in range(_LOOKS):
        if not _has_executed(pid) or _has_ended(pid):
            break
        if words := contents(b"/proc/%s/cmdline" % pid):
            return words
        _sleep(0.0005)
    return b""


def _has_executed(pid: bytes) -> bool:
    """Whether it has executed another program since the fork."""
    fields = _status(pid)
    return len(fields) > 6 and not int(fields[6]) & _HAS_NOT_EXECUTED


def _has_ended(pid: bytes) -> bool:
    return _status(pid)[:1] in ([], [b"Z"], [b"X"])


def _status(pid: bytes) -> list[bytes]:
    """State, parent and so on of a process: the fields after its name."""
    text = contents(b"/proc/%s/stat" % pid)
    return text[text.rfind(b")") + 2 :].split()


def _link(pid: bytes, name: bytes) -> bytes:
    try:
        return _readlink(b"/proc/%s/%s" % (pid, name))
    except OSError:
        return b""
