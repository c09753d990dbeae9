"""Start the watch: the launcher's side, imported right before it becomes the program."""

from __future__ import annotations

import os
import time

from taupy.state import heartbeat, looks
from taupy.state.folder import Folder
from taupy.watch import beside

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


def begin(folder: Folder, pid: int) -> str:
    """Start the watch of a run.

    Args:
        folder: the run folder.
        pid: of the program.

    Returns:
        Why it could not be started; "" if it was.
    """
    if why := hindrance(pid):
        return why
    try:
        for name in (heartbeat.NAME, heartbeat.SEEN, *looks.FILES):
            os.close((folder / name).create())
        arguments = [folder.path, str(pid), str(time.monotonic_ns())]
        answer = beside.begin("taupy.watch.process", arguments, (), _OPTIONS)
    except OSError as problem:
        return f"it could not be started ({problem.strerror})"
    if answer is None:
        return "it could not be started beside the program"
    os.close(answer)
    return ""
