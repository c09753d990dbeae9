"""A fidelity case: a small program, how it is started, and the expected result.

`status` is plain Python's: without it, a program that fails for an unintended reason would agree
with itself.
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
"""The start of most programs: a routine whose calls must be in the profile."""


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        source: text of the program, written to `target` (kinds script, module),
            given to -c or to standard input. Dedented.
        target: the program on the command line; for a script also the file that
            `source` is written to, unless `files` contains it.
        files: further files by path: bytes or text; a text that begins with "->" is a
            symbolic link.
        before: shell lines run in the folder before the program (to create a
            zip, a .pyc); `$PYTHON` is the interpreter.
        options: options of the interpreter itself.
        environment: variables set for the program; None removes one.
        status: exit status of plain Python, negative for death by a signal.
        says: bytes that plain Python's output (stdout, then stderr) must contain.
        keeps: routines that the profile must contain, with their calls; None or a lone
            name for any number; () if only a trial is required.
        trials: expected number of trials in the database; None for any number.
        state: expected state of the trial; None for any.
        sends: signal sent once the program has written a line "ready".
        types: bytes typed at the terminal once it has written "ready".
        sees_the_end: False if the process ends as another program, so that taupy does not
            learn the exit code.
        unlike: pattern of paths that may or may not exist.
        awaits: file created later by a grandchild, which must exist before comparing.
        ignored, blocked: signals with this disposition when the program starts.
        limits: soft and hard resource limits when the program starts.
        lateness_s: how much longer than plain it may take on an idle machine.
        compares_stderr: False if plain Python's stderr varies.
        shows_depth: it prints its recursion depth, which is slightly less with the plain engine.
        depth_through_c: its recursion goes through C functions, whose levels the interpreter counts
            differently while any profile function is set, such as the plain engine's.
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
        """Why the case cannot run here; None if it can."""
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
