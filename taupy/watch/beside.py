"""taupy's own processes, which run beside the program and are not its children.

The launcher becomes the program: a process it started would be a child that the program did not
start, and `os.wait` would find it. A sampler's parent therefore ends before the program begins.
If the launcher itself adopts it (as process 1 of a container, or a subreaper), no sampler is
started.
"""

from __future__ import annotations

import os
import sys

from taupy.watch import ANSWER as ANSWER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Under a limit on the size of files, Python would leave truncated bytecode behind.
# taupy is imported first, from where this process has it: another one may be installed.
_BOOTSTRAP = (
    "import resource, sys;"
    "sys.dont_write_bytecode |= resource.getrlimit(resource.RLIMIT_FSIZE)[0] != -1;"
    "sys.path.extend(p for p in {paths!r} if p not in sys.path);"
    "sys.path.insert(0, {home!r}); import taupy; del sys.path[0];"
    "from taupy import importing; importing.begin();"
    "from {module} import main; main(sys.argv[1:])"
)
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OUT_OF_THE_WAY = 10


def begin(
    module: str,
    arguments: Sequence[str],
    paths: Sequence[str] | None = None,
    options: Sequence[str] = ("-I",),
) -> int | None:
    """Run `main(arguments)` of a module of taupy in a process of its own.

    Args:
        module: its full name.
        arguments: the process's `sys.argv[1:]`.
        paths: folders to import from, besides taupy's own modules; None: this process's `sys.path`.
        options: the interpreter's options.

    Returns:
        A descriptor from which its answer can be read; None if it could not be started.
    """
    of_process = begun(module, arguments, paths, options)
    return None if of_process is None else of_process[0]


def begun(
    module: str,
    arguments: Sequence[str],
    paths: Sequence[str] | None = None,
    options: Sequence[str] = ("-I",),
    wanted: Callable[[], Sequence[str] | None] | None = None,
) -> tuple[int, int] | None:
    """As `begin`, with the process's id, too.

    Args:
        wanted: called in the new process, which has neither this one's descriptors nor its folder.
            Returns further arguments; None: the process is not needed, and ends.
    """
    searched = [path for path in sys.path if path] if paths is None else paths
    code = _BOOTSTRAP.format(paths=list(searched), home=_HOME, module=module)
    command = [sys.executable, *options, "-c", code, *arguments]
    answer, ours = os.pipe()
    try:
        child = os.fork()
    except OSError:  # the limit on processes is reached
        child = -1
    if child == 0:
        _double_fork(command, ours, wanted)
    os.close(ours)
    if child > 0 and os.waitpid(child, 0)[1] == 0 and (process := _unadopted(answer)):
        return answer, process
    os.close(answer)
    return None


def _double_fork(
    command: Sequence[str], answer: int, wanted: Callable[[], Sequence[str] | None] | None
) -> None:
    """The child's side: start the process, report its id, and exit. Never returns."""
    try:
        os.setsid()
        if process := os.fork():
            os.write(answer, b"%d\n" % process)
            os._exit(0)
        _leave_all(answer)
        more = () if wanted is None else wanted()
        if more is not None:
            os.execv(command[0], [*command, *more])
    finally:
        os._exit(1)


def _leave_all(answer: int) -> None:
    """Keep none of the program's descriptors, nor its folder."""
    kept = os.dup(answer)
    while kept < _OUT_OF_THE_WAY:  # lower descriptors may be closed in the program
        kept = os.dup(answer)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(ANSWER):
        os.dup2(null, descriptor)
    os.dup2(kept, ANSWER)
    os.closerange(ANSWER + 1, max(1024, os.sysconf("SC_OPEN_MAX")))
    os.chdir("/")


def _unadopted(answer: int) -> int:
    """The new process's id. If this process became its parent, it is ended; then, or if it never
    began, 0."""
    from taupy.model.processes import parent

    text = b""
    while not text.endswith(b"\n"):
        if not (more := os.read(answer, 1)):
            return 0
        text += more
    process = int(text)
    if parent(process) != os.getpid():
        return process
    import signal

    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 0
