"""Arguments that `taupy compare` shares with other commands: conditions, files of code."""

from __future__ import annotations

import argparse
import os
import re

from taupy.analysis.comparable import KINDS
from taupy.analysis.match import NameTable
from taupy.commands import options
from taupy.errors import UsageError
from taupy.model.project import read_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.study.gate import Conclusion, Judgement

_CODE_FILE = re.compile(r".*\.(cubin|fatbin|ptx|a|so(\.\d+)*)", re.DOTALL)


def add_gate_arguments(group: argparse._ArgumentGroup, required: bool = False) -> None:
    """Add `--fail-on`, `--undecided`, `--allow` and `--junit`."""
    group.add_argument(
        "--fail-on", required=required, action="append", default=[], metavar="CONDITION",
        help="'time > +5%%', 'time of forward > +2 ms', 'calls of load > +0'; exit code 3 if "
        "it fails, 4 if it is undecided; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--undecided", choices=("pass", "fail"), default=None,
        help="how to treat an undecided gate (default: exit code 4)",
    )  # fmt: skip
    group.add_argument(
        "--allow", action="append", default=[], metavar="WHAT", type=_kinds,
        help="allowed differences between the sides: " + ", ".join(KINDS) + ", or all",
    )  # fmt: skip
    group.add_argument(
        "--junit", metavar="FILE", help="also write the rulings as a JUnit report (XML)"
    )


def allowed(args: argparse.Namespace) -> set[str]:
    """The differences that `--allow` permits."""
    return {kind for kinds in args.allow for kind in kinds}


def write_junit(path: str | None, judgement: Judgement, conclusion: Conclusion) -> None:
    """Write the report of `--junit`, if it is asked for.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None:
        return
    from taupy.state.saving import save_named
    from taupy.study.gate_view import junit

    try:
        save_named(path, junit(judgement, conclusion))
    except OSError as problem:
        raise UsageError(f"--junit: {path} cannot be written: {problem.strerror}") from None


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in (*KINDS, "all"):
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(KINDS)}, all")
    return names


def means_code(args: argparse.Namespace) -> bool:
    """Whether the arguments name files with GPU code rather than trials. One with the suffix of
    such a file is enough: the others must be files, too."""
    paths = [of_chip(text)[0] for text in named(args)]
    return any(map(_CODE_FILE.fullmatch, paths)) or (bool(paths) and all(map(_is_code, paths)))


def named(args: argparse.Namespace) -> list[str]:
    """The arguments to compare, the baseline first."""
    return [*([args.baseline] if args.baseline else []), *args.trials]


def _is_code(path: str) -> bool:
    """Whether it is a folder, or a path with a slash to an existing file; trials' names are
    neither."""
    return os.path.isdir(path) or ("/" in path and os.path.exists(path))


def of_chip(text: str) -> tuple[str, list[str]]:
    """A file and the chips to read: one for FILE@sm_90, none for all chips."""
    path, at, chip = text.rpartition("@")
    return (path, [chip]) if at and not os.path.exists(text) else (text, [])


def match_table(file: str | None) -> NameTable | None:
    """The user's table of name patterns, from this file or else from the project.

    Raises:
        UsageError: the file cannot be read or is not such a table.
    """
    if file is None:
        table, source = options.project_settings().get("match"), "[tool.taupy.match]"
        if table is None:
            return None
    else:
        source = file
        try:
            table = read_toml(file)
        except ValueError as problem:
            raise UsageError(f"{source} cannot be read: {problem}") from None
        table = table.get("match", table)
    if not isinstance(table, dict):
        raise UsageError(f"{source} is not a table of names and patterns")
    return NameTable(table, source)
