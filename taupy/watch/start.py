"""Start the watch: the launcher's side, imported right before it becomes the program."""

from __future__ import annotations

import os
import select
import time

from taupy.state import watch_files
from taupy.state.folder import Folder
from taupy.watch import beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROCESSES_AT_LEAST = 1024
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel
_STEP_MS = 50
_SHORT = 2
"""Steps. A program that has ended so soon after its start needs no watch, unless it was killed."""
_STARTING = 20
"""Steps that an interpreter may take to start it, on a busy machine."""
_STATE_AT, _ENDED = 64, (1).to_bytes(8, "little")
"""In a part's header, as `state/container.py` reads it, and `part_data.ENDED`: these take long to
import."""
_OPTIONS = ("-I", "-S", "-E")  # neither site-packages nor the environment: a small process


def hindrance(pid: int) -> str:
    """Why this process, the future program, can have no watch; "" if it can."""
    if pid == 1:
        return "taupy was process 1, which adopts orphans: the watch would be the program's child"
    if 0 <= os.sysconf("SC_CHILD_MAX") < _PROCESSES_AT_LEAST:
        return "the number of processes is limited (ulimit -u), and the program may need them all"
    return ""


def may_end_with(pid: int) -> bool:
    """Whether the watch may be killed as soon as this program has ended: with a container whose
    first process has started it."""
    from taupy.model.processes import parent

    try:
        if os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE:
            return False
    except OSError:
        return False
    while pid > 1:
        pid = parent(pid)
    return pid == 1


def begin(folder: Folder, pid: int, options: dict[str, Any] | None = None) -> str:
    """Start the watch of a run.

    Args:
        folder: the run folder.
        pid: of the program.
        options: of the engine; None: nobody wants lines. If processes must permit the watch to
            look at their lines, they get its process id.

    Returns:
        Why it could not be started; "" if it was.
    """
    if why := hindrance(pid):
        return why
    wanted = () if options is None else watch_files.OF_LINES
    try:
        for name in (watch_files.HEARTBEAT, watch_files.FOUND, *watch_files.LOOKS, *wanted):
            os.close((folder / name).create())
        began = time.monotonic_ns()
        begun = beside.begun(
            "taupy.watch.process",
            [folder.path, str(pid)],
            (),
            _OPTIONS,
            lambda: _wanted(folder.path, pid, began),
        )
    except OSError as problem:
        return f"it could not be started ({problem.strerror})"
    if begun is None:
        return "it could not be started beside the program"
    answer, process = begun
    os.close(answer)
    if options is not None and yama_scope() == 1:
        options["reader_pid"] = process
    return ""


def _wanted(path: str, pid: int, began_ns: int) -> list[str] | None:
    """Wait, as a copy of the launcher, whether the program lasts: most interpreters that would
    watch a short one begin when it has ended.

    Returns:
        The watch's arguments: when the program was last known to be alive, and a pidfd of it, -1
        for none. None: the program has ended, and its run is stored.
    """
    _take_name()
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return [str(began_ns), "-1"] if os.path.lexists(path) else None
    except (OSError, AttributeError):
        return [str(began_ns), "-1"]  # before Linux 5.3, only looks tell that it has ended
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    steps = _STARTING
    while steps and not poll.poll(_STEP_MS):
        steps = min(steps - 1, _SHORT if _parts(path) else _STARTING)
    has_ended = poll.poll(0) or (_is_being_stored(path, pid) and poll.poll())
    seen_ns = time.monotonic_ns()  # until now, poll would have returned
    if has_ended and not os.path.lexists(path):
        return None
    os.set_inheritable(pidfd, True)
    return [str(seen_ns), str(pidfd)]


def _take_name() -> None:
    """Tell a run around this one that this process is none of its program's."""
    from contextlib import suppress

    from taupy.watch.descendants import WAITING

    with suppress(OSError), open("/proc/self/comm", "wb") as name:
        name.write(WAITING)


def _parts(path: str) -> list[str]:
    try:
        return [name for name in os.listdir(path) if name.endswith((".part", ".pypart"))]
    except OSError:
        return []


def _is_being_stored(path: str, pid: int) -> bool:
    """Whether the program has closed its part, which is the only one."""
    parts = _parts(path)
    try:
        if len(parts) != 1 or not parts[0].startswith(f"{pid}-"):
            return False
        with open(f"{path}/{parts[0]}", "rb") as part:
            part.seek(_STATE_AT)
            return part.read(len(_ENDED)) == _ENDED
    except OSError:
        return False


def yama_scope() -> int:
    """Who may read a process's memory, if the kernel has Yama; see ptrace(2). Else 0."""
    from taupy.model.processes import contents

    try:
        return int(contents("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0
