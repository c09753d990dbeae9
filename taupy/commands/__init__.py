"""The table of commands: parse, run, report errors."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enumerations
import os
import sys

from taupy import __version__
from taupy.answers import ANSWERS, EXCEPTIONS
from taupy.commands.messages import say
from taupy.errors import NOTICES, TaupyError, UsageError
from taupy.state import rights

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing delays the program that `taupy run` starts
    import argparse
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from taupy.commands.parsers import CommandLine

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
_ELSEWHERE = {
    "diff": "compare", "list": "trials", "ls": "trials", "show": "report", "stat": "report",
    "stats": "report", "view": "report",
}  # fmt: skip
"""Commands that other tools have, and ours."""
_OWN_OPTIONS = ("-h", "--help", "-V", "--version")


def top_level_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser of `taupy` itself, and its subparsers, which are still empty."""
    from taupy.commands.parsers import TopLevel

    parser = TopLevel(GROUPS, prog="taupy")
    parser.add_argument("-V", "--version", action="version", version=f"taupy {__version__}")
    return parser, parser.add_subparsers(dest="command", metavar="COMMAND")


def command_module(name: str) -> Any:
    """The module of a command, or what stands for it: `add_arguments(parser)`, `run(args)` and, in
    some, `parse`."""
    if name in ANSWERS and (name, "command") not in EXCEPTIONS:
        from taupy.answers.answer import module
        from taupy.commands.answering import Command

        return Command(module(name))
    qualified = f"taupy.commands.{_MODULES.get(name, name)}"
    __import__(qualified)  # importing importlib would delay the program that `taupy run` starts
    return sys.modules[qualified]


def command_parser(name: str) -> CommandLine:
    """The parser of one command, with its options."""
    from taupy.commands.parsers import CommandLine, Formatter

    module = command_module(name)
    parser = CommandLine(
        prog=f"taupy {name}",
        description=module.__doc__,
        formatter_class=Formatter,
    )
    parser.commands = COMMANDS
    module.add_arguments(parser)
    return parser


def check_command(name: str) -> None:
    """
    Raises:
        UsageError: no command has this name; the message suggests the nearest.
    """
    if name in COMMANDS:
        return
    from taupy.units import nearest

    alike = [_ELSEWHERE[name]] if name in _ELSEWHERE else nearest(name, COMMANDS, 1)
    advice = f"did you mean `taupy {alike[0]}`?" if alike else "`taupy --help` lists the commands"
    raise UsageError(f"there is no command '{name}': {advice}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command `taupy`; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
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


def _to_run(arguments: list[str]) -> str:
    """How a command line that begins with no command is clearly one of `taupy run`; else "".

    Raises:
        UsageError: it begins with a file or command that is no Python program.
    """
    first = arguments[0]
    if first.endswith(".py") and os.path.isfile(first):
        return f"{first} is a script"
    if first in ("-m", "-c") and arguments[1:]:
        return f"{first} begins a program"
    from taupy.units import nearest

    if first.startswith("-") or first in _ELSEWHERE or nearest(first, COMMANDS, 1):
        return ""
    from taupy.commands import run_target

    if not os.path.exists(first) and not run_target.is_command(first):
        return ""
    is_clear = run_target.resolve(arguments).words[0] != first  # a file may be anything
    return f"{first} is no command of taupy" if is_clear else ""


def _refuse(arguments: list[str]) -> None:
    """Explain what is wrong with a command line that does not begin with a command.

    Raises:
        UsageError: an option precedes the command, or the command does not exist.
    """
    import shlex

    from taupy.units import nearest

    first = arguments[0]
    if first in _OWN_OPTIONS:
        return
    at = next((at for at, word in enumerate(arguments) if word in COMMANDS), None)
    if first.isdigit() or first == "latest":  # a trial
        command = "report" if at is None else arguments.pop(at)
        raise UsageError(f"the command goes first: {shlex.join(['taupy', command, *arguments])}")
    if not first.startswith("-"):
        if os.path.exists(first) and not nearest(first, COMMANDS, 1):  # not clearly a script
            line = shlex.join(["taupy", "run", *arguments])
            raise UsageError(f"there is no command '{first}': to profile a program, write {line}")
        check_command(first)
    if at is None:
        meant = "taupy -V" if first == "-v" else f"taupy COMMAND {first}"
        if first.startswith("--") and first[2:] in COMMANDS:
            meant = shlex.join(["taupy", first[2:], *arguments[1:]])
        raise UsageError(
            f"taupy has no global option '{first}': write {meant}; "
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


def _parsed(name: str, module: Any, arguments: list[str]) -> argparse.Namespace:
    parser = command_parser(name)
    if parse := getattr(module, "parse", None):
        return parse(parser, arguments[1:])  # type: ignore[no-any-return]
    if "--" in arguments:  # a trial's name may begin with a dash, as of `taupy run -c`
        return parser.parse_args(arguments[1:])
    # Options may come between arguments: taupy compare 3 --metric flop 4
    return parser.refuse_numbers(_parse_intermixed(parser, arguments[1:]))


def _run(arguments: list[str]) -> int:
    if not arguments:
        from taupy.commands import start

        return start.show()
    if arguments[0] not in COMMANDS and (reading := _to_run(arguments)):
        words = " ".join(arguments[: 2 if arguments[0].startswith("-") else 1])
        say(f"{reading}: running it, as `taupy run {words}` does")
        arguments = ["run", *arguments]
    if arguments[0] not in COMMANDS:
        _refuse(arguments)
        parser, commands = top_level_parser()
        for command, summary in COMMANDS.items():
            commands.add_parser(command, help=summary, add_help=False)
        parser.parse_args(arguments)
        return 2
    name = arguments[0]
    if name == "run" and sys.warnoptions:
        import warnings

        warnings.simplefilter("ignore")  # -W is meant for the program
    module = command_module(name)
    parsed = module.parsed_plainly(arguments[1:]) if name == "run" else None
    if parsed is None:
        parsed = _parsed(name, module, arguments)
    if name not in _WITHOUT_DATABASE:
        import gc

        gc.disable()  # short-lived with many rows: garbage collection costs more than it frees
        # Runs that were killed are stored first, whatever the command.
        from taupy.commands import options

        options.recover_first(options.database_or_store(parsed))
    return int(module.run(parsed))
