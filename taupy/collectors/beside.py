"""Processes of ours that run beside the program, and are not its children.

The launcher becomes the program: what it started would be a child that the program did not
start, which `os.wait` would find. So a sampler's parent is gone before the program begins.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Sequence

ANSWER = 3
"""The descriptor on which a sampler may answer; it is to be closed soon."""

_BOOTSTRAP = (
    "import sys; sys.path.extend(p for p in {paths!r} if p not in sys.path);"
    "from {module} import main; main(sys.argv[1:])"
)


def begin(module: str, arguments: Sequence[str]) -> int | None:
    """Run `main(arguments)` of a module of ours in a process of its own.

    Returns:
        A descriptor from which its answer can be read; None if it could not be started.
    """
    paths = [path for path in sys.path if path]
    command = [sys.executable, "-I", "-c", _BOOTSTRAP.format(paths=paths, module=module)]
    answer, ours = os.pipe()
    child = os.fork()
    if child:
        os.close(ours)
        if os.waitpid(child, 0)[1] == 0:
            return answer
        os.close(answer)
        return None
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        kept = fcntl.fcntl(ours, fcntl.F_DUPFD, 10)  # out of the way
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(ANSWER):
            os.dup2(null, descriptor)
        os.dup2(kept, ANSWER)
        os.closerange(ANSWER + 1, 1024)
        os.chdir("/")
        os.execv(command[0], [*command, *arguments])
    finally:
        os._exit(1)
