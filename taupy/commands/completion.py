"""Print a script that completes taupy's commands and options in a shell.

    taupy completion bash > ~/.local/share/bash-completion/completions/taupy
    taupy completion zsh > ~/.zfunc/_taupy          (with ~/.zfunc in $fpath)
    taupy completion tcsh > ~/.taupy.tcsh           (and source it in ~/.tcshrc)

The script is static: completion does not start Python. Print it again after an upgrade.
"""

from __future__ import annotations

import argparse

from taupy import commands

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")


def run(args: argparse.Namespace) -> int:
    import shtab

    parser, table = commands.top_level_parser()
    for name, summary in commands.COMMANDS.items():
        command = table.add_parser(name, help=summary)
        commands.command_module(name).add_arguments(command)
        if name == "help":
            command._actions[-1].choices = list(commands.COMMANDS)
    _complete_files(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete file names for arguments that name a file, and for the program of `run`."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command)
        elif action.metavar in ("FILE", "FOLDER"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    if parser.prog == "taupy run":
        program = parser.add_argument("program", nargs="*", help="the program and its arguments")
        program.complete = shtab.FILE  # type: ignore[attr-defined]
