"""Find child processes that look like Python but left no profile, so that the trial names them.

Both engines note the processes that a measured process starts, or becomes (os.exec*), as
metadata of its part, `taupy.child.N`:

    PID BEGAN ENDED \\0 folder \\0 executable \\0 word \\0 word ...

with times in ns of CLOCK_MONOTONIC (ENDED is 0 if unknown) and PID 0 if unknown (os.system), or
the part's own if the process becomes the command. This module compares the notes with the parts.
Whether a command runs Python is inferred from its words, its symbolic link or its first line; a
shell or launcher (env, nice, mpirun) counts as measured if any Python below it was: the part of a
process that was not forked lists the ids of all its ancestors as `taupy.ancestors`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from taupy.dataclass import dataclass, replace
from taupy.model import command_line
from taupy.model.masking import UNMASKED, Masking
from taupy.pattern import pattern
from taupy.record.forks import Fork, take_forks
from taupy.record.part_data import EXEC, RUNNING, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

PREFIX, ANCESTORS = "taupy.child.", "taupy.ancestors"
_PYTHON = pattern(r"(python|pypy)w?[\d.]*t?d?(-dbg)?")
_SHELL = pattern(r"(ba|da|z|k|mk|a|fi)?sh")
_LAUNCHERS = pattern(
    "aprun|chrt|chroot|command|doas|env|exec|flux|flock|gdb|ionice|jsrun|mpiexec|mpirun|ncu|nice|"
    "nohup|nsys|numactl|perf|prlimit|prterun|runuser|setarch|setsid|srun|stdbuf|strace|su|sudo|"
    "taskset|time|timeout|unshare|uv|valgrind|xargs|xvfb-run"
)
_COMMAND_OPTION = pattern(r"-[a-z]*c")
_BETWEEN_COMMANDS = pattern(r"[;&|()\n`]+")
_ASSIGNMENT = pattern(r"\w+=")
_NO_PROGRAM = frozenset({"-V", "-VV", "--version", "-h", "-?", "--help", "--help-all"})
_KEYWORDS = frozenset({"!", "{", "(", "do", "else", "elif", "if", "then", "until", "while"})
_NAMED_AT_MOST, COMMAND_LENGTH = 8, 100


def _is(kind: Pattern[str], *names: str) -> bool:
    """Whether any of these is the name of such a program."""
    return any(kind.fullmatch(name) for name in names)


@dataclass(frozen=True, slots=True)
class Child:
    """A process started by a measured process, as noted there."""

    parent: int
    pid: int
    began_ns: int
    ended_ns: int
    folder: str
    executable: str
    words: tuple[str, ...]

    @property
    def is_unknown(self) -> bool:
        return not self.executable and not self.words

    @property
    def is_shell_line(self) -> bool:
        """Whether it is a command line passed to os.system."""
        return not self.executable and len(self.words) == 1

    @property
    def is_indirect(self) -> bool:
        """Whether it may run Python in another process."""
        name = os.path.basename(self.words[0] if self.words else self.executable)
        return self.is_shell_line or _is(_SHELL, name) or _is(_LAUNCHERS, name)

    def masked(self, masking: Masking) -> Child:
        """The same without secrets in its command line."""
        line = self.words[:1]
        words = map(masking.line, line) if self.is_shell_line else masking.words(self.words)
        return replace(self, words=tuple(words))

    @property
    def command(self) -> str:
        joined = command_line.joined(self.words)
        line = self.words[0] if self.is_shell_line else joined or self.executable
        text = " ".join(line.split())
        return text if len(text) <= COMMAND_LENGTH else text[: COMMAND_LENGTH - 3] + "..."


@dataclass(frozen=True, slots=True)
class Arrival:
    """A process measured from its start, or from the start of a new image (os.exec*)."""

    pid: int
    began_ns: int
    above: frozenset[int]


@dataclass(frozen=True, slots=True)
class Notes:
    """What the parts of a run say about processes: which were started, and which were measured.

    Attributes:
        masking: of command lines; the children's are masked already.
    """

    children: list[Child]
    arrivals: list[Arrival]
    measured: frozenset[int]
    forks: list[Fork]
    masking: Masking = UNMASKED


def take_notes(parts: Sequence[Part], masking: Masking = UNMASKED) -> Notes:
    """Take the notes out of the parts' metadata, and mark forks that became their commands."""
    children = [child.masked(masking) for part in parts for child in _children(part)]
    above = [_ancestors(part) for part in parts]
    arrivals = [
        Arrival(part.pid, part.start_ns, ancestors)
        for part, ancestors in zip(parts, above, strict=True)
        if not part.forked
    ]
    started = {child.pid for child in children}
    for part in parts:
        if part.forked and part.state == RUNNING and part.pid in started:
            part.state = EXEC  # preexec_fn of subprocess ran in it
    forks = [fork for part in parts for fork in take_forks(part)]
    measured = frozenset(process.pid for part in parts for process in part.processes)
    return Notes(children, arrivals, measured, forks, masking)


def _children(part: Part) -> list[Child]:
    names = [name for name in part.metadata if name.startswith(PREFIX)]
    noted = [_child(part.pid, part.metadata.pop(name)) for name in names]
    children = [child for child in noted if child is not None]
    becomes = [child for child in children if child.pid == part.pid]
    last = becomes[-1:] if part.state == EXEC else []  # the other attempts failed
    return [child for child in children if child.pid != part.pid] + last


def _ancestors(part: Part) -> frozenset[int]:
    above = part.metadata.pop(ANCESTORS, "").split()
    return frozenset(int(pid) for pid in above if pid.isdigit())


def _child(parent: int, note: str) -> Child | None:
    try:
        head, folder, executable, *words = note.split("\0")
        pid, began_ns, ended_ns = map(int, head.split())
    except ValueError:
        return None
    return Child(
        parent=parent,
        pid=pid,
        began_ns=began_ns,
        ended_ns=ended_ns,
        folder=folder,
        executable=executable,
        words=tuple(words),
    )


def without_command(name: str, note: str) -> str:
    """A note of this name without folder and command, for where neither is looked at; other
    metadata unchanged."""
    return note.partition("\0")[0] + "\0\0" if name.startswith(PREFIX) else note


def unmeasured(
    notes: Notes, reached: Collection[int], is_running: Callable[[int], bool]
) -> dict[str, str]:
    """A message about unmeasured children that look like Python, by name of the health metadata.

    Args:
        notes: of the run's parts.
        reached: ids of processes that are not lost although none of their parts was read.
        is_running: whether the process with this id is still running.
    """
    missing = lost(notes, reached)
    health = {}
    if pythons := [child for child in missing if not child.is_unknown and runs_python(child)]:
        named = [
            f"{child.command} (process {child.pid or 'unknown'}"
            + (", still running)" if child.pid and is_running(child.pid) else ")")
            for child in pythons[:_NAMED_AT_MOST]
        ]
        count = (
            "1 child process looks" if len(pythons) == 1 else f"{len(pythons)} child processes look"
        )
        more = "; ..." if len(pythons) > len(named) else ""
        health["children_unmeasured"] = (
            f"{count} like Python and left no profile: {'; '.join(named)}{more}"
        )
    return health


def lost(notes: Notes, reached: Collection[int]) -> list[Child]:
    """Children that were not measured at all."""
    return [
        child
        for child in notes.children
        if child.pid not in reached
        and not any(_brought(child, arrival, notes.measured) for arrival in notes.arrivals)
    ]


def _brought(child: Child, arrival: Arrival, measured: frozenset[int]) -> bool:
    """Whether the measured process is this child or a descendant of it."""
    if arrival.began_ns < child.began_ns or 0 < child.ended_ns < arrival.began_ns:
        return False
    if child.pid and child.pid == arrival.pid:
        return True
    if not child.is_indirect or not arrival.above:
        return False
    # A process whose parents have ended may descend from any process.
    return (child.pid or child.parent) in arrival.above or measured.isdisjoint(arrival.above)


def runs_python(child: Child) -> bool:
    """Whether the child runs Python, judging by its command."""
    if child.is_shell_line:
        return _line_runs_python(child.words[0], child.folder)
    return _runs_python(child.words or (child.executable,), child.folder, child.executable)


def _runs_python(words: Sequence[str], folder: str, executable: str = "") -> bool:
    if not words:
        return False
    path = _path(executable or words[0], folder)
    names = {os.path.basename(words[0]), os.path.basename(path)}
    if _is(_PYTHON, *names):
        _, given = command_line.split(list(words[1:]))
        code = given[1] if given[:1] == ["-c"] and len(given) > 1 else ""
        is_tracker = code.startswith("from ") and "resource_tracker import main" in code[:99]
        return not is_tracker and not _NO_PROGRAM.intersection(words[1:2])
    if _is(_SHELL, *names):
        for option, line in pairwise(words[1:]):
            if _COMMAND_OPTION.fullmatch(option):
                return _line_runs_python(line, folder)
        return False
    if _is(_LAUNCHERS, *names):
        for at, word in enumerate(words[1:], 1):
            if not word.startswith("-") and "=" not in word and _is_program(word, folder):
                return _runs_python(words[at:], folder)
        return False
    shebang = map(os.path.basename, _first_line(path).split())
    return _is(_PYTHON, *shebang)


def _is_program(word: str, folder: str) -> bool:
    name = os.path.basename(word)
    if any(_is(kind, name) for kind in (_PYTHON, _SHELL, _LAUNCHERS)):
        return True
    path = _path(word, folder)
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _line_runs_python(line: str, folder: str) -> bool:
    """Whether a shell command line runs Python."""
    import shlex

    for command in _BETWEEN_COMMANDS.split(line):
        try:
            words = shlex.split(command)
        except ValueError:  # a separator inside quotes
            words = command.split()
        while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
            del words[0]
        if _runs_python(words, folder):
            return True
    return False


def _path(name: str, folder: str) -> str:
    """The path of an executable, with symbolic links resolved."""
    if "/" not in name:
        import shutil

        return os.path.realpath(shutil.which(name) or name)
    return os.path.realpath(os.path.join(folder, name))


def _first_line(path: str) -> str:
    """The text after #! in a script; "" if there is none or it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        start = os.read(descriptor, 256)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return start[2:].split(b"\n", 1)[0].decode("utf-8", "replace") if start[:2] == b"#!" else ""
