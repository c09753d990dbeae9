"""The table of commands: parse, run, report errors."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys

from taupy import __version__
from taupy.answers import ANSWERS, EXCEPTIONS
from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import NOTICES, TaupyError, UsageError
from taupy.state import rights

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing delays the program that `taupy run` starts
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

GROUPS = {
    "Measure": {
        "run": "run a program and store its profile as a trial",
        "top": "runs under way, or any Python process: routines, lines",
        "attach": "look at a Python program that runs already, from outside",
        "dump": "where each thread of a running Python program is, once",
        "setup": "build what PyTorch needs to be measured in full, once",
        "doctor": "what works on this machine, and how to fix the rest",
    },
    "Look": {
        "report": "where the time went and what to do (-o r.html: a page)",
        "pprof": "routines: flat profile, call tree, callers",
        **{name: does for name, (_, does) in ANSWERS.items() if does},
    },
    "Compare": {
        "compare": "trials or sets of runs, also in CI",
        "gate": "run two versions in turn until one is clearly slower",
        "sweep": "the effect of a parameter: speed-up, efficiency",
        "pivot": "many trials in one table: programs or kernels by GPU",
    },
    "GPU": {
        "static": "what the machine code of kernels says, without a GPU",
        "roofline": "kernels, routines and phases against the roofs",
        "ceilings": "measure this machine's peak rates",
        "avail": "counters of this machine or of any chip",
        "derive": "metrics computed from others",
    },
    "Keep": {
        "trials": "list, search, show, rename, tag and delete trials",
        "query": "ask the database in SQL",
        "serve": "open the database in a browser",
        "import": "read profiles of other tools",
        "export": "write a trial for other tools",
        "merge": "combine several databases into one",
        "store": "create and check a team's store",
        "push": "copy trials into a team's store",
        "pull": "copy trials from a team's store",
        "clean": "remove what taupy keeps outside databases",
    },
    "Help": {
        "completion": "complete commands and options in a shell",
        "help": "show the options of a command",
    },
}
"""The commands and what each does, as `taupy --help` lists them: a line of 80 columns each."""
COMMANDS = {name: does for group in GROUPS.values() for name, does in group.items()}
_MODULES = {"import": "import_", "help": "help_", "store": "team_store"}
_WITHOUT_DATABASE = (
    "run",
    "static",
    "top",
    "attach",
    "dump",
    "store",
    "setup",
    "clean",
    "completion",
    "help",
)
_ELSEWHERE = {"--html": "-o FILE.html for a page"}
"""Options that other tools have, and what to write here."""
_GAP = re.compile(r"(?<=\S)  +(?=\S)|^ {9,}(?=\S)")
"""Between what one would type and what it does."""
_OWN_OPTIONS = ("-h", "--help", "-V", "--version")


class Formatter(argparse.HelpFormatter):
    """Formats for the terminal's width without importing `shutil`, as argparse does. Of a
    description, what is indented is what one would type, with what it does beside it."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **more})

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


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _near(word: str, words: Iterable[str]) -> list[str]:
    """The most similar word, if one is similar enough."""
    import difflib

    return difflib.get_close_matches(word, words, 1)


class CommandLine(argparse.ArgumentParser):
    """A command's parser. Its help begins with what one would type, and errors are a `UsageError`:
    one line, like other errors."""

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

    def error(self, message: str) -> NoReturn:
        advice = f"`{self.prog} --help` lists the options"
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            word = unknown.split()[0].partition("=")[0]
            near = _near(word, self._option_string_actions)
            if word in _ELSEWHERE:
                advice = f"write {_ELSEWHERE[word]}; {advice}"
            elif near:
                advice = f"did you mean {near[0]}? {advice}"
            message = f"{'unknown option' if word[:1] == '-' else 'unexpected argument'} {unknown}"
        raise UsageError(f"{self.prog.removeprefix('taupy ')}: {message}; {advice}")


class _TopLevel(argparse.ArgumentParser):
    """The parser of `taupy` itself, whose help lists the commands by what they are for."""

    def format_help(self) -> str:
        lines = ["usage: taupy COMMAND [options]: taupy run script.py, then taupy report", ""]
        for title, group in GROUPS.items():
            lines += _listed(title, group)
        return "\n".join([*lines, "", "taupy help COMMAND shows its options; -V the version.", ""])


def _listed(title: str, group: Mapping[str, str]) -> list[str]:
    """A line for each command, the first behind the title of the group."""
    heads = [title] + [""] * (len(group) - 1)
    return [
        f"{head:<9}{name:<12}{does}"
        for head, (name, does) in zip(heads, group.items(), strict=True)
    ]


def top_level_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser of `taupy` itself, and its subparsers, which are still empty."""
    parser = _TopLevel(prog="taupy")
    parser.add_argument("-V", "--version", action="version", version=f"taupy {__version__}")
    return parser, parser.add_subparsers(dest="command", metavar="COMMAND")


def command_module(name: str) -> Any:
    """The module of a command, or what stands for it: `add_arguments(parser)`, `run(args)` and, in
    some, `parse`."""
    from importlib import import_module

    if name in ANSWERS and (name, "command") not in EXCEPTIONS:
        from taupy.answers.answer import module
        from taupy.commands.answering import Command

        return Command(module(name))
    return import_module(f"taupy.commands.{_MODULES.get(name, name)}")


def command_parser(name: str) -> CommandLine:
    """The parser of one command, with its options."""
    module = command_module(name)
    parser = CommandLine(
        prog=f"taupy {name}",
        description=module.__doc__,
        formatter_class=Formatter,
    )
    module.add_arguments(parser)
    return parser


def check_command(name: str) -> None:
    """
    Raises:
        UsageError: no command has this name; the message suggests the nearest.
    """
    if name in COMMANDS:
        return
    near = _near(name, COMMANDS)
    advice = f"did you mean `taupy {near[0]}`?" if near else "`taupy --help` lists the commands"
    raise UsageError(f"there is no command '{name}': {advice}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command `taupy`; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _unwind)
        if rights.are_raised():
            for name in [name for name in os.environ if name.startswith(("TAUPY_", "TAU_"))]:
                del os.environ[name]
    try:
        return _run(arguments)
    except TaupyError as problem:
        say(str(problem))
        return problem.exit_code
    except MemoryError:
        say("there is not enough memory for this here (see `ulimit -a`); nothing was lost")
        return 1
    except KeyboardInterrupt as stop:
        say(f"stopped by Ctrl-C; {str(stop) or 'nothing is left half written'}")
        return 130
    except BrokenPipeError:
        # The reader closed the pipe, so nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    finally:
        say(*NOTICES)
        NOTICES.clear()


def _unwind(number: int, frame: object) -> NoReturn:
    """Turn a signal into SystemExit, so that temporary folders are removed. (`exec` resets the
    signals for the program of `taupy run`.)"""
    raise SystemExit(128 + number)


def _is_script(word: str) -> bool:
    return word.endswith(".py") and os.path.isfile(word)


def _refuse(arguments: list[str]) -> None:
    """Explain what is wrong with a command line that does not begin with a command.

    Raises:
        UsageError: an option precedes the command, or the command does not exist.
    """
    import shlex

    first = arguments[0]
    if first in _OWN_OPTIONS:
        return
    if not first.startswith("-"):
        if os.path.exists(first) and not _near(first, COMMANDS):  # not clearly a script
            line = shlex.join(["taupy", "run", *arguments])
            raise UsageError(f"there is no command '{first}': to profile a program, write {line}")
        check_command(first)
    at = next((at for at, word in enumerate(arguments) if word in COMMANDS), None)
    if at is None:
        raise UsageError(
            f"taupy has no global option '{first}': write taupy COMMAND {first}; "
            "`taupy --help` lists the commands"
        )
    before, command, after = arguments[:at], arguments[at], arguments[at + 1 :]
    line = shlex.join(["taupy", command, *before, *after])
    raise UsageError(f"options go after the command: {line}")


def _parse_intermixed(parser: CommandLine, arguments: list[str]) -> argparse.Namespace:
    """Like `parse_intermixed_args`, which hides a signal behind an AttributeError (3.12)."""
    try:
        return parser.parse_intermixed_args(arguments)
    except AttributeError as problem:
        if isinstance(problem.__context__, KeyboardInterrupt | SystemExit):
            raise problem.__context__ from None
        raise


def _run(arguments: list[str]) -> int:
    if not arguments:
        from taupy.commands import start

        return start.show()
    if arguments[0] not in COMMANDS and _is_script(arguments[0]):
        say(f"{arguments[0]} is a script: running it, as `taupy run {arguments[0]}` does")
        arguments = ["run", *arguments]
    if arguments[0] not in COMMANDS:
        _refuse(arguments)
        parser, commands = top_level_parser()
        for command, summary in COMMANDS.items():
            commands.add_parser(command, help=summary, add_help=False)
        parser.parse_args(arguments)
        return 2
    name = arguments[0]
    if name == "run":
        import warnings

        warnings.simplefilter("ignore")  # -W is meant for the program
    module = command_module(name)
    parser = command_parser(name)
    parse = getattr(module, "parse", None)
    if parse:
        parsed = parse(parser, arguments[1:])
    elif "--" in arguments:  # a trial's name may begin with a dash, as of `taupy run -c`
        parsed = parser.parse_args(arguments[1:])
    else:  # options may come between arguments: taupy compare 3 --metric flop 4
        parsed = _parse_intermixed(parser, arguments[1:])
    if name not in _WITHOUT_DATABASE:
        import gc

        gc.disable()  # short-lived with many rows: garbage collection costs more than it frees
        # Runs that were killed are stored first, whatever the command.
        options.recover_first(options.database_or_store(parsed))
    return int(module.run(parsed))
