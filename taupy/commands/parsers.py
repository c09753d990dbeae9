"""The parsers of command lines: their help, and their errors in one line."""

from __future__ import annotations

import argparse
import re
import sys

from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.escaping import columns

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing delays the program that `taupy run` starts
    from collections.abc import Container, Iterator, Mapping
    from typing import Any, NoReturn

# There are no translations of argparse's words: each look-up would try the files of all languages.
setattr(argparse, "_", str)  # noqa: B010

_ELSEWHERE = {
    "--html": ("-o", "-o FILE.html for a page"),
    "--seconds": ("--for", "--for 10s"),
    "--duration": ("--for", "--for 10s"),
}
"""Options that other tools have, the option of a command that does the same, and what to write."""
_MISSING = "the following arguments are required: "
_NO_NUMBER = re.compile(r"invalid (int|float) value: (.+)")
_WITHOUT_FILE = "argument -o/--output: expected one argument"
_GAP = re.compile(r"(?<=\S)  +(?=\S)|^ {9,}(?=\S)")
"""Between what one would type and what it does."""


_NUMBER = re.compile(r"-\d+")
_LETTERS = str.maketrans("01", "ol")
"""Digits that look like letters."""


class Formatter(argparse.HelpFormatter):
    """Formats for the terminal's width without importing `shutil`, as argparse does. Of a
    description, what is indented is what one would type, with what it does beside it."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": columns(sys.stdout) - 2, **more})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join("\n".join(_filled(part, width)) for part in text.strip().split("\n\n"))


def _filled(paragraph: str, width: int) -> Iterator[str]:
    """A paragraph of a description, or its examples, in so many columns."""
    from textwrap import wrap

    lines = paragraph.splitlines()
    if not any(line.startswith(" ") for line in lines):
        yield from wrap(paragraph, width)
        return
    examples: list[tuple[str, int, str]] = []  # what to type, the column of the remark, the remark
    for line in lines:
        typed, remark = line.rstrip(), ""
        if gap := _GAP.search(line):
            typed, remark = line[: gap.start()], line[gap.end() :].rstrip()
        if not typed.strip() and examples:  # the last remark goes on
            before, at, begun = examples.pop()
            examples.append((before, at, f"{begun} {remark}"))
        else:
            examples.append((typed, len(line) - len(remark), remark))
    for typed, at, remark in examples:
        at = min(max(at, len(typed) + 1), width // 2)
        beside = len(typed) < at
        if remark and beside:
            first, *more = wrap(remark, width - at)
            yield f"{typed:<{at}}{first}"
        else:
            yield typed
            at, more = min(at, 8), wrap(remark, width - 8) if remark else []
        yield from (" " * at + line for line in more)


class _TrustFiles(argparse.Action):
    """Sets a switch of the whole process."""

    def __call__(self, *_: object) -> None:
        from taupy.store.trusted import trust_files

        trust_files()


class _TrustFolder(argparse.Action):
    """Sets a switch of the whole process, and notes it for `run`, whose storer is another."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object
    ) -> None:
        from taupy.model.project import trust_project
        from taupy.state.sqlite import trust_folders

        trust_folders()
        trust_project()
        namespace.trust_folder = True


class _Renamed(argparse.Action):
    """An option under its old name, for one version: prints the new name.

    add_argument("--old", dest="new", action=RENAMED, help=argparse.SUPPRESS)

    With `nargs=0` it is a flag, and `const` is what the new option would be given.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        new = f"--{self.dest.replace('_', '-')}"
        say(f"{option_string} is now {new if self.nargs != 0 else f'{new} {self.const}'}")
        setattr(namespace, self.dest, values if self.nargs != 0 else self.const)


_ACTIONS = {
    options.SWITCH: argparse.BooleanOptionalAction,
    options.TRUST_FILES: _TrustFiles,
    options.TRUST_FOLDER: _TrustFolder,
    options.RENAMED: _Renamed,
}


class _Parser(argparse.ArgumentParser):
    """A parser that knows the actions of `options`, and takes no part of an option's name for it:
    `clean --al` may mean another option than `--all`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(allow_abbrev=False, **more)
        for name, action in _ACTIONS.items():
            self.register("action", name, action)


class CommandLine(_Parser):
    """A command's parser. Its help begins with what one would type, and errors are a `UsageError`:
    one line, like other errors."""

    commands: Container[str] = ()
    """The names of all commands, of which an option may be meant for one."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def refuse_numbers(self, parsed: argparse.Namespace) -> argparse.Namespace:
        """Refuse `-0` where a trial's name may stand: argparse takes it for a number."""
        for action in self._get_positional_actions():
            given = getattr(parsed, action.dest, None)
            for word in given if isinstance(given, list) else [given]:
                if action.nargs != argparse.REMAINDER and _NUMBER.fullmatch(str(word)):
                    self.error(f"unrecognized arguments: {word}")
        return parsed

    def _with_value(self, word: str) -> list[str]:
        """`--trace=host` for `--trace-host`: an option and a value that it takes."""
        for option, action in self._option_string_actions.items():
            value = word.removeprefix(f"{option}-")
            if value == word or (action.type is None and action.choices is None):
                continue
            try:
                self._check_value(action, self._get_value(action, value))
            except argparse.ArgumentError:
                continue
            return [f"{option}={value}"]
        return []

    def _near(self, word: str) -> list[str]:
        """The option most like a word, if one is; dashes, which all have, make none alike."""
        from taupy.units import nearest

        options = {option.lstrip("-"): option for option in self._option_string_actions}
        return [options[name] for name in nearest(word.lstrip("-"), options, 1)]

    def _first_example(self) -> str:
        """What one would type, as the help says first."""
        lines = (self.description or "").splitlines()
        line = next(line for line in lines if line.startswith(f"    {self.prog} "))
        return _GAP.split(line.strip())[0]

    def error(self, message: str) -> NoReturn:
        advice = f"`{self.prog} --help` lists the options"
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            word = unknown.split()[0].partition("=")[0]
            alike = self._with_value(word)
            alike += self._near(word.translate(_LETTERS))
            option, example = _ELSEWHERE.get(word, ("", ""))
            if option in self._option_string_actions:
                advice = f"write {example}; {advice}"
            elif word.startswith("--") and word[2:] in self.commands:
                advice = f"did you mean `taupy {word[2:]}`? {advice}"
            elif alike:
                advice = f"did you mean {alike[0]}? {advice}"
            message = f"{'unknown option' if word[:1] == '-' else 'unexpected argument'} {unknown}"
        elif message == _WITHOUT_FILE and self.prog == "taupy report":
            message = "-o needs the name of a page: -o r.html"
        elif message.startswith(_MISSING):
            message = f"{message.removeprefix(_MISSING)} is missing, as in: {self._first_example()}"
        message = _NO_NUMBER.sub(r"\2 is not a number", message)
        raise UsageError(f"{self.prog.removeprefix('taupy ')}: {message}; {advice}")


class TopLevel(_Parser):
    """The parser of `taupy` itself, whose help lists the commands by what they are for."""

    def __init__(self, groups: Mapping[str, Mapping[str, str]] | None = None, **more: Any) -> None:
        super().__init__(**more)
        self._groups = groups or {}

    def format_help(self) -> str:
        lines = ["usage: taupy COMMAND [options]: taupy run script.py, then taupy report", ""]
        for title, group in self._groups.items():
            lines += _listed(title, group)
        return "\n".join([*lines, "", "taupy help COMMAND shows its options; -V the version.", ""])


def _listed(title: str, group: Mapping[str, str]) -> list[str]:
    """A line for each command, the first behind the title of the group."""
    heads = [title] + [""] * (len(group) - 1)
    return [
        f"{head:<9}{name:<12}{does}"
        for head, (name, does) in zip(heads, group.items(), strict=True)
    ]
