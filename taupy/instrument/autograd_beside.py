"""Compile libraries of `torch_library.py` beside the program, once it imports PyTorch.

A process of taupy's own holds a lock on a file in the run folder from before the program begins.
The engine writes a byte into it when PyTorch is being imported; the process then compiles, appends
the facts, and ends. The engine waits for the lock when the first module is called. A program
that never imports PyTorch costs nothing but this process, which ends with it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

from taupy.instrument import torch_library
from taupy.model.processes import is_alive, process_start
from taupy.state.folder import Folder, Untrusted
from taupy.watch import beside

NAME = "autograd"
"""The file in the run folder: empty, `w`, or `w` and the facts, one per line."""

KINDS = torch_library.OF_LAYERS

_LOOK_S = 0.02


def begin(run: Folder, state: str, torch: torch_library.Torch, pid: int, quiet: bool) -> str | None:
    """Start the process for the program `pid`.

    Returns:
        The path of the file, which is locked; None if the process could not be started.
    """
    os.close((run / NAME).create())
    arguments = [run.path, state, torch.folder, str(pid), str(int(quiet))]
    answer = beside.begin(__name__, arguments)
    if answer is None:
        return None
    locked = os.read(answer, 1)
    os.close(answer)
    return f"{run.path}/{NAME}" if locked else None


def facts_of(run: Folder) -> dict[str, str]:
    """The facts of a run's libraries; none if no process was to compile them."""
    try:
        text = (run / NAME).read_record().decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    except Untrusted as problem:
        return {kind.fact: f"{kind.undone}{problem}" for kind in KINDS}
    if not text:
        return {}
    if len(facts := text[1:].splitlines()) != len(KINDS):
        why = "the library was not compiled before the program had ended"
        facts = [f"{kind.undone}{why}" for kind in KINDS]
    return {kind.fact: fact for kind, fact in zip(KINDS, facts, strict=True)}


def main(arguments: list[str]) -> None:
    path, state, folder, pid, quiet = arguments
    start = process_start(int(pid))
    file = os.open(f"{path}/{NAME}", os.O_RDWR | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(beside.ANSWER, b"1")
    os.close(beside.ANSWER)
    while os.fstat(file).st_size == 0:
        if not is_alive(int(pid), start):
            return
        time.sleep(_LOOK_S)

    def tell(line: str) -> None:
        if quiet == "0":
            _say(int(pid), f"taupy: {line}\n")

    torch = torch_library.Torch(folder)
    facts = [torch_library.fact_of(kind, torch, state, tell) for kind in KINDS]
    os.write(file, "\n".join(" ".join(fact.split()) for fact in facts).encode())


def _say(pid: int, line: str) -> None:
    """Write a line to the program's standard error, if that can be opened again.

    A regular file is left alone unless the program appends to it: the program would overwrite the
    line.
    """
    try:
        stderr = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(stderr).st_mode) or _appends(pid):
            os.write(stderr, line.encode())
    finally:
        os.close(stderr)


def _appends(pid: int) -> bool:
    """Whether a process appends to its standard error, as with `2>>`."""
    try:
        with open(f"/proc/{pid}/fdinfo/2", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
        return bool(int(facts["flags"], 8) & os.O_APPEND)
    except (OSError, KeyError, ValueError):
        return False
