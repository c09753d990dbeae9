"""The parts of a command that runs Python: the interpreter's options, and the program."""

from __future__ import annotations

from taupy.pattern import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
_WITH_VALUE = "WX"
_ENDS = "cm"
_PYTHON = pattern(r"python[\d.]*t?$")

_LONGEST = 1_000_000
"""Characters of a command that are looked at. shlex reads some 4 MB a second, and metadata of files
from elsewhere may be of any length."""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """The interpreter's options in `words`, which follow the interpreter, and what it runs with
    the arguments: `(["-u"], ["-m", "pkg", "x"])`."""
    at = 0
    options: list[str] = []
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word in ("-", "--"):
            break
        at += 1
        if word.startswith("--"):
            takes_value = word == "--check-hash-based-pycs"
        else:
            # Letters may be bundled; -W and -X take a value, -c and -m end the options.
            ends = next(
                (n for n, letter in enumerate(word) if n and letter in _ENDS + _WITH_VALUE),
                len(word),
            )
            if word[ends : ends + 1] in tuple(_ENDS):
                bundled = [word[:ends]] if ends > 1 else []
                return options + bundled, ["-" + word[ends:], *words[at:]]
            takes_value = ends == len(word) - 1
        options.append(word)
        if takes_value:
            options.append(words[at] if at < len(words) else "")
            at += 1
    return options, words[at:]


def joined(words: Iterable[str]) -> str:
    """As `shlex.join`, whose module imports `re`: the prompt waits for what names a command."""
    return " ".join(
        word if word and _PLAIN.issuperset(word) else "'" + word.replace("'", "'\"'\"'") + "'"
        for word in words
    )


def program(command: str) -> str:
    """What a command runs: without the interpreter and the script's folder, and without the
    interpreter's options."""
    return joined(_parts(command)[1])


def meant(command: str) -> str:
    """The same with options that may change what the program does (`-O`, not `-u`)."""
    options, words = _parts(command)
    return joined([*(option for option in options if option != "-u"), *words])


def _parts(command: str) -> tuple[list[str], list[str]]:
    import shlex

    command = command[:_LONGEST]
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    options: list[str] = []
    if words and _PYTHON.search(words[0]):
        options, words = split(words[1:])
    if words and not words[0].startswith("-"):
        words[0] = words[0].rpartition("/")[2]
    return options, words
