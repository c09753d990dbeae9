"""Start the watch: the launcher's side, imported right before it becomes the program."""

from __future__ import annotations

import os
import time

from taupy.state import heartbeat, lines, looks
from taupy.state.folder import Folder
from taupy.watch import beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROCESSES_AT_LEAST = 1024
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel
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
    wanted = () if options is None else lines.FILES
    try:
        for name in (heartbeat.NAME, heartbeat.SEEN, *looks.FILES, *wanted):
            os.close((folder / name).create())
        arguments = [folder.path, str(pid), str(time.monotonic_ns())]
        begun = beside.begun("taupy.watch.process", arguments, (), _OPTIONS)
    except OSError as problem:
        return f"it could not be started ({problem.strerror})"
    if begun is None:
        return "it could not be started beside the program"
    answer, process = begun
    os.close(answer)
    if options is not None and yama_scope() == 1:
        options["reader_pid"] = process
    return ""


def yama_scope() -> int:
    """Who may read a process's memory, if the kernel has Yama; see ptrace(2). Else 0."""
    from taupy.model.processes import contents

    try:
        return int(contents("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0
