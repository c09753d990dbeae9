"""Options shared by several commands: the database, project settings, recovery."""

from __future__ import annotations

import os

from taupy.commands.messages import say
from taupy.errors import DatabaseError, UsageError, note
from taupy.model.project import project_file
from taupy.model.project import project_settings as project_settings
from taupy.state.places import DEFAULT_DATABASE, usual_database

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing delays the program that `taupy run` starts
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from taupy.delivery import Delivery
    from taupy.pprof.terminal import ParquetFile
    from taupy.profiledb.database import ProfileDB

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


SWITCH, TRUST_FILES, TRUST_FOLDER, RENAMED = "switch", "trust files", "trust folder", "renamed"
"""Actions of arguments, by the names under which `parsers.CommandLine` knows them."""

THREADS = 200
"""How many ended threads of one beginning keep rows of their own, unless `--threads` says it."""
_THREADS_AT_MOST = 1 << 62


def add_database_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--db",
        metavar="FILE",
        help="the database (default: $TAUPY_DB, else `db` of [tool.taupy] in pyproject.toml, "
        f"else ./{DEFAULT_DATABASE})",
    )
    add_trust_argument(parser)


def named(args: argparse.Namespace) -> str:
    """What a further command needs to find the same database: ` --db FILE`, or nothing."""
    import shlex

    return f" --db {shlex.quote(args.db)}" if args.db else ""


def add_trust_argument(parser: argparse._ActionsContainer) -> None:
    """`--trust-folder`, for databases where others can write, and `--trust-files`, for stores."""
    add_trust_files_argument(parser)
    parser.add_argument(
        "--trust-folder",
        nargs=0,
        action=TRUST_FOLDER,
        default=False,
        help="trust this folder and the project's, also later: use another user's pyproject.toml "
        "and taupy.db, and a server that the project names; and, this time, a -journal or -wal "
        "beside a database although others can write there: whoever put it there decides what is "
        "in the database",
    )


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """`--db`, and `--cluster` for questions about several trials of a store; for `opened`."""
    add_database_argument(parser)
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="of a store: let the workers of this Dask scheduler add up, such as tcp://HOST:8786 "
        "(default: $TAUPY_CLUSTER, else `cluster` of [tool.taupy] in pyproject.toml)",
    )


def add_trust_files_argument(parser: argparse._ActionsContainer) -> None:
    """`--trust-files`, for a store whose files are at a URL."""
    parser.add_argument(
        "--trust-files",
        nargs=0,
        action=TRUST_FILES,
        help="of a store: use and remember the URL at which it says that its files are",
    )


def add_form_arguments(parser: argparse._ActionsContainer, csv: Sequence[str] = ("--csv",)) -> None:
    """`--csv`, `--json`, `--markdown`, `--parquet`, `--wide`; without them, text as wide as the
    terminal."""
    forms = parser.add_mutually_exclusive_group()
    for names, form, what in (
        (csv, "csv", "comma-separated values, unrounded"),
        (("--json",), "json", "JSON, unrounded"),
        (("--markdown",), "markdown", "a Markdown table"),
        (("--wide",), "wide", "text that is not cut: all rows and whole names"),
    ):
        forms.add_argument(
            *names, dest="form", action="store_const", const=form, default="text", help=what
        )
    forms.add_argument(
        "--parquet",
        dest="form",
        type=_parquet_file,
        metavar="FILE",
        help="write the table to a Parquet file, as a notebook gets it",
    )


def _parquet_file(path: str) -> ParquetFile:
    from taupy.pprof.terminal import ParquetFile

    return ParquetFile(path)


def add_color_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="default: auto, on a terminal without NO_COLOR",
    )


def colored(args: argparse.Namespace) -> bool | None:
    """The value of `--color`; None: decided by the output and NO_COLOR."""
    return {"auto": None, "always": True, "never": False}[args.color]


def add_limit_argument(
    parser: argparse._ActionsContainer, text: str = "show N rows", default: int | None = None
) -> None:
    parser.add_argument("--limit", "-n", type=count, default=default, metavar="N", help=text)


def add_list_argument(
    parser: argparse._ActionsContainer,
    name: str,
    metavar: str,
    text: str,
    convert: Callable[[str], object] = str,
) -> None:
    """An option that may be repeated: a list of its values."""
    parser.add_argument(name, action="append", default=[], type=convert, metavar=metavar, help=text)


def add_switch_argument(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    """`--NAME` and `--no-NAME`; None without either."""
    parser.add_argument(name, action=SWITCH, default=None, help=text)


def add_keep_secrets_argument(parser: argparse._ActionsContainer) -> None:
    """`--keep-secrets`, for what `secrets` returns."""
    add_switch_argument(
        parser,
        "--keep-secrets",
        "store command lines and metadata as they are (default: values that look like passwords, "
        "keys and tokens are replaced by a digest)",
    )


def add_threads_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--threads",
        metavar="N|all",
        help="of threads that have ended, began in the same routine and have no name of their own, "
        "keep the first N, and add up further ones in one row; likewise of forked children that "
        f"ended alike (default: {THREADS}; all: keep each)",
    )


def threads(given: str | None, project: Any = None) -> int | None:
    """How many ended threads of one beginning keep rows of their own; None: all."""
    text = given if given is not None else str(THREADS if project is None else project)
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < _THREADS_AT_MOST:
        where = "--threads" if given is not None else "`threads` of [tool.taupy]"
        raise UsageError(f"{where} is a number from 1 on, or all, not {text!r}")
    return int(text)


def add_with_source_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--with-source",
        action="store_true",
        help="also copy the text of the programs' source files (default: only which files)",
    )


def secrets(args: argparse.Namespace) -> dict[str, Any]:
    """What is masked in command lines and metadata; nothing if nothing is set."""
    project = project_settings()
    names, keeps = project.get("secrets", []), project.get("keep_secrets", False)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"`secrets` of [tool.taupy] must be a list of names of options, not {names!r}"
        )
    if not isinstance(keeps, bool):
        raise UsageError(f"`keep_secrets` of [tool.taupy] must be true or false, not {keeps!r}")
    chosen = {"keep_secrets": keeps if args.keep_secrets is None else args.keep_secrets}
    return {name: value for name, value in {**chosen, "secrets": names}.items() if value}


def add_trials_argument(parser: argparse._ActionsContainer, text: str) -> None:
    """Any number of trials; `text` tells how many are needed, or which is the default."""
    parser.add_argument(
        "trials",
        nargs="*",
        metavar="TRIAL",
        help="latest, an id, app/experiment/trial, tag:NAME, gpu=MODEL, meta.NAME=VALUE, or "
        f"several of these joined by commas{text}",
    )


def add_routines_arguments(parser: argparse._ActionsContainer) -> None:
    """`--group` and `--filter`, which select routines."""
    add_list_argument(parser, "--group", "NAME", "only routines in this group: PYTHON, PHASE, ...")
    add_list_argument(
        parser,
        "--filter",
        "PATTERN",
        "only routines whose name contains TEXT, matches a pattern with * and ?, or /REGEX/",
    )


def refusal(why: str) -> Exception:
    """What an argument's `type` raises, with the words that argparse shows."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(why)


def count(text: str) -> int:
    """An option's value that is a count: 0, 1, 2, ..."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise refusal(f"{text!r} is not a count, 0 or more")
    return int(text)


def steps(text: str) -> str:
    """An option's value that is a range of steps (100:120, 100:, :20, 7): `100:120` or `100:`."""
    first, colon, last = text.partition(":")
    ends = [count(end) if end else None for end in (first, last)]
    begin, end = ends[0] or 1, ends[1] if colon else ends[0]
    if not any(ends) or 0 in ends or (end is not None and end < begin):
        raise refusal(
            f"{text!r} is not a range of steps such as 100:120, 100: or :20, which count from 1"
        )
    return f"{begin}:{'' if end is None else end}"


def traced(text: str) -> list[str]:
    """An option's value that names where single activities are recorded: host, gpu, or both."""
    kinds = text.split(",")
    if not {"host", "gpu"}.issuperset(kinds):
        raise refusal(f"{text!r} is not host, gpu or host,gpu")
    return kinds


def seconds(text: str) -> float:
    """An option's value that is a time: 90, 90s, 10m, 10min, 2h."""
    import re

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text)
    if match is None:
        raise refusal(f"{text!r} is not a time such as 90s, 10m or 2h")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def database_or_store(args: argparse.Namespace) -> str:
    """Path of the database or address of the store: from option, environment, project or default,
    in this order."""
    from taupy.profiledb.address import is_address

    chosen = _chosen_database(getattr(args, "db", None)) or _default_database()
    return chosen if is_address(chosen) else os.path.abspath(chosen)


def _default_database() -> str:
    name, why = usual_database()
    if why:
        note(f"{why}; --db {DEFAULT_DATABASE} uses the other")
    return name


def file_and_store(args: argparse.Namespace) -> tuple[str, str]:
    """The file into which a command stores, and the store to which it then pushes, or ""."""
    from taupy.profiledb.address import checked, is_address

    chosen = database_or_store(args)
    if is_address(chosen):
        return os.path.abspath(_default_database()), checked(chosen)
    return chosen, ""


def trial_to_grow(args: argparse.Namespace, text: str) -> tuple[str, str]:
    """The file with a trial that will get more metrics, and its uuid; a store's is pulled first.

    Raises:
        NoSuchTrial: there is none.
    """
    from taupy.profiledb import selector
    from taupy.profiledb.opening import opened

    file, store = file_and_store(args)
    with opened(store or file) as db:
        uuid = selector.trial(db, text).uuid
    if store:
        from taupy.store.pull import pull

        pull(store, file, [uuid])
    return file, uuid


def opened(args: argparse.Namespace) -> ProfileDB:
    """The database or store, for reading.

    Raises:
        UsageError: a cluster is named, for a file.
    """
    from taupy.profiledb.address import is_address
    from taupy.profiledb.opening import opened

    chosen, cluster = database_or_store(args), getattr(args, "cluster", None)
    if cluster and not is_address(chosen):
        raise UsageError(f"--cluster is for a store, and {chosen} is a file (--db ADDRESS)")
    from taupy.commands import bar

    with bar.shown(f"opening {chosen}"):
        return opened(chosen, cluster)


def store_address(given: str | None) -> str:
    """The address of a store, from an option, the environment or the project.

    Raises:
        UsageError: none is given, or it is not one.
    """
    from taupy.profiledb.address import checked

    chosen = _chosen_database(given)
    if not chosen:
        raise UsageError("name the store: postgresql://USER@HOST/DATABASE, here or in TAUPY_DB")
    return checked(chosen)


def _chosen_database(given: str | None) -> str | None:
    from taupy.profiledb.address import is_address

    chosen = given or os.environ.get("TAUPY_DB")
    if chosen:
        return chosen
    configured = project_settings().get("db")
    if not isinstance(configured, str | None):
        note(
            f"`db` of [tool.taupy] in pyproject.toml is not a string, and not used: {configured!r}"
        )
        return None
    if not configured or is_address(configured):
        return configured
    return os.path.join(os.path.dirname(project_file()), configured)


def recover_first(database: str) -> None:
    """Store the runs of killed programs before reading anything, and push those meant for a store;
    print a line for each."""
    from taupy.instrument.runfolder import has_run_folders

    if not has_run_folders(database):
        return
    from taupy.commands import bar, pushing
    from taupy.session import recover

    parts: dict[tuple[str, int], list[Delivery]] = {}
    with bar.shown("storing interrupted runs"):
        recovered = recover(database)
    for delivery in recovered:
        if delivery.trial_id is not None:
            parts.setdefault((delivery.database, delivery.trial_id), []).append(delivery)
        elif delivery.problem:
            say(f"not recovered: {delivery.problem}")
    for (_, trial), deliveries in parts.items():
        # The ranks of a job are runs of their own, and one trial.
        states = [delivery.profile.state for delivery in deliveries if delivery.profile]
        if states:
            state = " (incomplete)" if "incomplete" in states else ""
            of_ranks = f", from {len(states)} runs" if len(states) > 1 else ""
            name = f"trial {trial}, {deliveries[-1].name}{state}{of_ranks}"
            say(f"recovered an interrupted run: {name}")
        try:
            with bar.shown("pushing"):
                line = pushing.delivered(max(deliveries, key=lambda delivery: delivery.running))
            say(*[line] if line else [])
        except DatabaseError as problem:  # which its own command reports as well
            say(str(problem))
