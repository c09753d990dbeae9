"""Print a script that completes taupy's commands and options in a shell.

    taupy completion bash > ~/.local/share/bash-completion/completions/taupy
    taupy completion zsh > ~/.zfunc/_taupy          (with ~/.zfunc in $fpath)
    taupy completion fish > ~/.config/fish/completions/taupy.fish
    taupy completion tcsh > ~/.taupy.tcsh           (and source it in ~/.tcshrc)

The script is static, except for trials: it asks `taupy completion trials` for them. Print it again
after an upgrade.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from taupy import commands
from taupy.commands import options
from taupy.errors import TaupyError

SHELLS = ("bash", "zsh", "fish", "tcsh")
TRIALS = "trials"
_PLAIN = re.compile(r"[\w./@+=-]+", re.ASCII)
"""Names that are complete in a shell: bash expands the words that it completes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=(*SHELLS, TRIALS), help="the shell to write for; or list the trials"
    )


def run(args: argparse.Namespace) -> int:
    if args.shell == TRIALS:
        from taupy.profiledb.opening import opened

        with opened(options.database_or_store(args)) as db:
            words = ["latest"]
            for trial in reversed(db.trials()):
                name = f"{trial.application}/{trial.experiment}/{trial.name}"
                words += [str(trial.id), *([name] if _PLAIN.fullmatch(name) else [])]
        print("\n".join(words))
        return 0
    try:
        import shtab
    except ImportError as problem:
        raise TaupyError(
            f"completion needs shtab ({problem}): pip install 'taupy-profiler[completion]'"
        ) from None

    parser, table = commands.top_level_parser()
    for name, summary in commands.COMMANDS.items():
        command = table.add_parser(name, help=summary)
        commands.command_module(name).add_arguments(command)
        if name == "help":
            command._actions[-1].choices = list(commands.COMMANDS)
    _complete_files(parser)
    script = shtab.complete(parser, args.shell)
    if args.shell == "zsh":  # shtab completes the first of several arguments only
        script = script.replace('"(*)::', '"*:')
    print(script)
    return 0


def _trials() -> dict[str, Any]:
    """How each shell completes trials. zsh would ask for them when it loads the script."""
    import shtab

    ask = "taupy completion trials 2>/dev/null"
    ways: dict[str, Any] = shtab.cmd(ask)
    listed = f'_taupy_trials() {{ compadd -- ${{(f)"$({ask})"}} }}'
    return ways | {"zsh": "_taupy_trials", "preamble": ways["preamble"] | {"zsh": listed}}


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete file names for arguments that name a file, and for the program of `run`; trials."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command)
        elif action.metavar in ("FILE", "FOLDER"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "TRIAL":
            action.complete = _trials()  # type: ignore[attr-defined]
    if parser.prog == "taupy run":
        program = parser.add_argument("program", nargs="*", help="the program and its arguments")
        program.complete = shtab.FILE  # type: ignore[attr-defined]
