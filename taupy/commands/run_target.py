"""What `taupy run` is to run: what people write, made into the words after an interpreter.

Besides what an interpreter takes, these are clear: `python x.py` and its options, a command whose
script belongs to this interpreter (`pytest`, `torchrun`), and a module without `-m`. What is no
Python program, or not there, is refused with what to write instead. No code is imported.
"""

from __future__ import annotations

import os
import sys

from taupy.errors import UsageError
from taupy.model import command_line
from taupy.pattern import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PYTHON = pattern(r"python(\d+(\.\d+)?t?)?")
_HEAD_BYTES = 512
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
_SHELL_STUB = b"'''exec'"  # how pip begins a script whose interpreter has a long path


class Target:
    """What is to be run.

    Attributes:
        words: the words behind the interpreter's options.
        options: further options of the interpreter.
        reading: how the target was understood, if that is not what was written; else "".
    """

    def __init__(
        self, words: list[str], options: list[str] | None = None, reading: str = ""
    ) -> None:
        self.words, self.options, self.reading = words, options or [], reading


def resolve(words: list[str]) -> Target:
    """The target of a command line.

    Args:
        words: what follows the options of `taupy run`; not empty.

    Raises:
        UsageError: it is no Python program, belongs to another interpreter, or is not there.
    """
    first, rest = words[0], words[1:]
    if first.startswith("-"):
        if first in ("-m", "-c") and not rest:
            raise UsageError(f"{first} needs {'a module' if first == '-m' else 'code'}")
        return Target(words)
    is_python = not os.path.isdir(first) and _is_python(os.path.basename(first))
    if is_python and (path := _which(first)):
        return _interpreted(first, path, rest)
    if os.path.exists(first):
        _check(first, first)
        return Target(words)
    if "/" not in first:
        if path := _command(first):
            _check(first, path, is_own=True)
            return Target([path, *rest], reading=f"{first} is {path}")
        if _is_module(first):
            return Target(["-m", first, *rest], reading=f"{first} is a module: run as -m {first}")
    _missing(first)


def _interpreted(name: str, path: str, words: list[str]) -> Target:
    """`python ...`, without the interpreter, which must be this one."""
    if not _is_this(path):
        raise UsageError(
            f"{name} is {os.path.realpath(path)}, and this taupy belongs to {sys.executable}: "
            f"install taupy there, or write `taupy run` without {name}"
        )
    options, target = command_line.split(words)
    if not target:
        raise UsageError(f"nothing to run: write the script behind {name}")
    inner = resolve(target)
    return Target(inner.words, [*options, *inner.options], inner.reading)


def _is_python(name: str) -> bool:
    """Whether a command's name is that of an interpreter; other names need no pattern, which takes
    long to import."""
    return name.startswith("python") and _PYTHON.fullmatch(name) is not None


def _is_this(path: str) -> bool:
    """Whether a path is that of this interpreter. Several environments may link to one
    interpreter, so the folder counts in one."""
    if os.path.realpath(path) != os.path.realpath(sys.executable):
        return False
    folders = (os.path.dirname(os.path.abspath(link)) for link in (path, sys.executable))
    return sys.prefix == sys.base_prefix or len({*map(os.path.realpath, folders)}) == 1


def _command(name: str) -> str | None:
    """The path of a command: beside this interpreter, or where a shell finds it."""
    beside = os.path.dirname(os.path.abspath(sys.executable))
    return _which(name, beside) or _which(name)


def is_command(name: str) -> bool:
    """Whether a word is the name of a command that could be run."""
    return "/" not in name and _command(name) is not None


def _commands() -> list[str]:
    """The names of the commands beside this interpreter."""
    try:
        return os.listdir(os.path.dirname(os.path.abspath(sys.executable)))
    except OSError:
        return []


def _which(name: str, path: str | None = None) -> str | None:
    """Where a shell finds a command. The launcher of a script does not need to know."""
    from shutil import which

    return which(name, path=path)


def _check(name: str, path: str, is_own: bool = False) -> None:
    """
    Args:
        is_own: it must belong to this interpreter.

    Raises:
        UsageError: a file is clearly no program that this interpreter could run.
    """
    if os.path.isdir(path):
        if not os.path.exists(os.path.join(path, "__main__.py")):
            scripts = sorted(name for name in os.listdir(path) if name.endswith(".py"))
            advice = f", such as {os.path.join(path, scripts[0])}" if scripts else ""
            raise UsageError(f"{name} is a folder without __main__.py: name a script{advice}")
        return
    if name.endswith(".ipynb"):
        raise UsageError(
            f"{name} is a notebook: make a script of it, and run that: "
            f"jupyter nbconvert --to script {name}"
        )
    head = _head(path)
    interpreter = _interpreter(head)
    program = os.path.basename(interpreter)
    if head.startswith(b"\x7fELF"):
        raise UsageError(
            f"{name} is no Python program: put `taupy run` before the Python program that it "
            f"starts, as in `{name} ... taupy run script.py`"
        )
    if name.endswith(".py"):
        return  # Python to whoever starts it by `python`, whatever its first line says
    if program in _SHELLS or (not program and name.endswith((".sh", ".bash"))):
        raise UsageError(
            f"{name} is a shell script: in it, write `taupy run script.py` instead of "
            "`python script.py`"
        )
    if program and not _is_python(program) and not _runs_as_python(path):
        raise UsageError(f"{name} is a program for {program}, which taupy does not measure")
    if is_own and interpreter.startswith("/") and not _is_this(interpreter):
        raise UsageError(
            f"{path} belongs to {interpreter}, and this taupy to {sys.executable}: install both "
            "in one environment"
        )


def _interpreter(head: bytes) -> str:
    """The interpreter that the first lines of a script name; "" for none."""
    if not head.startswith(b"#!"):
        return ""
    first, _, second = head.partition(b"\n")
    if second.startswith(_SHELL_STUB):
        first, second = b"#!" + second[len(_SHELL_STUB) :], b""
    words = os.fsdecode(first[2:]).split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0].strip("\"'") if words else ""


def _runs_as_python(path: str) -> bool:
    """Whether `python PATH` would run a file that names another interpreter, as `uv` or `pytest`:
    it is a zip archive, or its text compiles."""
    import warnings
    from zipfile import is_zipfile

    if is_zipfile(path):
        return True
    try:
        with open(path, "rb") as file, warnings.catch_warnings(action="ignore"):
            compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""  # the interpreter says what is wrong with it


def _is_module(name: str) -> bool:
    """Whether `-m NAME` would find something, as far as that is known without importing."""
    from importlib.machinery import PathFinder

    if not all(part.isidentifier() for part in name.split(".")):
        return False
    folders: list[str] | None = [os.getcwd(), *(entry for entry in sys.path if entry)]
    spec = None
    at = ""
    for part in name.split("."):
        at = f"{at}.{part}" if at else part
        spec = PathFinder.find_spec(at, folders)
        if spec is None:
            return False
        folders = list(spec.submodule_search_locations or [])
    if spec is not None and spec.submodule_search_locations is not None:
        return PathFinder.find_spec(f"{at}.__main__", folders) is not None
    return True


def _missing(name: str) -> NoReturn:
    """Say that a script or command is not there, and which in a folder below has its name, or
    which here nearly its name."""
    if os.path.islink(name):
        raise UsageError(f"{name} is a link to {os.readlink(name)}, and that is not there")
    folder, last = os.path.split(name)
    try:
        scripts = [script for script in os.listdir(folder or ".") if script.endswith(".py")]
    except OSError:
        raise UsageError(
            f"there is no {name}, nor its folder; the current one is {os.getcwd()}"
        ) from None
    from difflib import get_close_matches  # the launcher imports nothing that it may not need
    from glob import escape, glob

    commands = [] if folder or name.endswith(".py") else _commands()
    below = sorted(glob(os.path.join("*", escape(last)), root_dir=folder or "."))
    near = [file for file in below if file.endswith(".py")]
    near = near or get_close_matches(last, scripts, 1) or get_close_matches(last, commands, 1)
    if near:
        advice = f"did you mean {os.path.join(folder, near[0])}?"
    else:
        advice = "write a script, -m MODULE, -c CODE, or a command such as pytest"
    where = "" if folder else f" in {os.getcwd()}, nor a command or module of that name"
    raise UsageError(f"there is no {name}{where}; {advice}")
