"""What a fidelity case is: a small program, how it is started, what must come of it.

`status` is what plain Python must give; a program that fails for another
reason than the one it was written for would otherwise agree with itself.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["script", "module", "code", "stdin"]
Stream = Literal["pipe", "closed", "full", "broken", "terminal"]

WORK = "def work():\n    return sum(range(10))\n\n\nwork()\n"
"""The start of most programs: the routine whose record must survive the rest."""


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        source: text of the program, written to `target` (kinds script, module),
            given to -c or to standard input. Dedented.
        target: what stands on the command line; for a script also the file
            that `source` is written to, unless `files` holds it.
        files: further files, by path; bytes as they are, a leading "->" in a
            text makes a symbolic link.
        before: shell lines run in the folder before the program (to make a
            zip, a .pyc); `$PYTHON` is the interpreter.
        options: options of the interpreter itself.
        environment: variables set for the program; None removes one.
        status: exit status of plain Python, negative for death by a signal.
        says: bytes that plain Python's output (stdout, then stderr) must hold.
        keeps: routines that the profile must show, with their calls, None for
            any number. A lone name means any number; () asks for a trial only.
        trials: how many the database must hold afterwards, None for any number.
        state: state of the trial, None where either will do.
        sends: signal sent once the program has written a line "ready".
        types: bytes typed at the terminal once it has written "ready".
        sees_the_end: False where the process ends as another program, so that nobody
            of ours learns the exit code.
        unlike: pattern of paths that may be there or not.
        awaits: file that a grandchild makes later; waited for before comparing.
        ignored, blocked: signals that are so when the program starts.
        limits: soft and hard resource limits that hold when the program starts.
        lateness_s: how much longer than plain it may take on an idle machine.
        compares_stderr: False where plain Python's own is not the same twice.
        shows_depth: it prints how deep it got, which the plain engine makes a little less.
        depth_through_c: its recursion goes through C functions, whose levels the interpreter counts
            otherwise as long as any profile function is set, such as that of the plain engine.
        needs: a module, "root", or "file:PATH" without which the case is skipped.
    """

    name: str
    source: str = ""
    kind: Kind = "script"
    target: str | bytes = "prog.py"
    args: tuple[str | bytes, ...] = ()
    files: Mapping[str | bytes, str | bytes] = field(default_factory=dict)
    before: str = ""
    options: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    stdin: bytes | Literal["closed"] = b""
    stdout: Stream = "pipe"
    stderr: Stream = "pipe"
    status: int = 0
    says: str | bytes = b""
    keeps: str | tuple[str, ...] | Mapping[str, int | None] = "work"
    trials: int | None = 1
    state: str | None = "complete"
    sends: int | None = None
    types: bytes = b""
    sees_the_end: bool = True
    unlike: bytes = b"(?!)"
    awaits: str | None = None
    ignored: tuple[int, ...] = ()
    blocked: tuple[int, ...] = ()
    limits: Mapping[int, int] = field(default_factory=dict)
    lateness_s: float = 5.0
    compares_stderr: bool = True
    shows_depth: bool = False
    depth_through_c: bool = False
    since: tuple[int, int] = (3, 11)
    before_version: tuple[int, int] = (9, 0)
    needs: tuple[str, ...] = ()

    @property
    def routines(self) -> dict[str, int | None]:
        if isinstance(self.keeps, str):
            return {self.keeps: None}
        if isinstance(self.keeps, Mapping):
            return dict(self.keeps)
        return dict.fromkeys(self.keeps)

    @property
    def hindrance(self) -> str | None:
        """Why the case cannot run here, None when it can."""
        version = sys.version_info[:2]
        if version < self.since:
            return f"needs Python {self.since[0]}.{self.since[1]}"
        if version >= self.before_version:
            return f"not on Python {version[0]}.{version[1]}"
        for need in self.needs:
            if need == "root":
                if os.geteuid() != 0:
                    return "needs root"
            elif need.startswith("file:"):
                if not os.path.exists(need[5:]):
                    return f"no {need[5:]} here"
            elif importlib.util.find_spec(need) is None:
                return f"no module {need} here"
        return None
