"""Show the options of a command.

    taupy help              the list of commands
    taupy help pprof        the same as taupy pprof --help

Without a command, `taupy help` lists all of them by what they are for.
"""

from __future__ import annotations

import argparse

from taupy import commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="default: list all")


def run(args: argparse.Namespace) -> int:
    if args.command is None:
        return commands.main(["--help"])
    commands.check_command(args.command)
    commands.command_parser(args.command).print_help()
    return 0
