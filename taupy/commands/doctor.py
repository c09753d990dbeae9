"""Report what works on this machine, and how to fix what does not.

    taupy doctor           the machine, the installation, the database
    taupy doctor FILE      check every invariant of a database

FILE is not changed, unless --upgrade is given; the exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
from pathlib import Path

from taupy import __version__
from taupy.commands import bar, doctor_gpu, options
from taupy.escaping import visible
from taupy.pprof import terminal
from taupy.pprof.view import Column, View
from taupy.units import several

_OK, _WARN, _BAD = "ok", "note", "PROBLEM"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="*", metavar="FILE", help="a database to check")
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="give a database that an older taupy wrote the current schema; a copy is kept",
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.upgrade:
        from taupy.profiledb.opening import editable

        args.file = args.file or [options.database_or_store(args)]
        for path in args.file:
            with bar.shown(f"upgrading {path}"):
                editable(path).close()
    if args.file:
        from taupy.commands.audit import examine

        return examine(args.file, args.form)
    with bar.shown("looking at this machine"):
        checks = [
            ("taupy", _OK, f"{__version__} in {Path(__file__).parent.parent}"),
            _python(),
            _engine(),
            _boot(),
            _state(),
            *_libraries(),
            *_torch(),
            *doctor_gpu.checks(),
            ("sqlite", _OK, sqlite3.sqlite_version),
            _database(options.database_or_store(args)),
            _other_users(options.database_or_store(args)),
            *_leftovers(),
        ]
    if args.form == "json":
        import json

        names = ("check", "state", "text")
        lines = json.dumps([dict(zip(names, check, strict=True)) for check in checks])
        terminal.write(lines + "\n")
    elif args.form in ("text", "wide"):
        for name, state, text in checks:
            terminal.write(f"{state:8}{name:14}{visible(text)}\n")
    else:
        columns = (Column("check", heading="Check"), Column("state", heading="State"))
        terminal.show(
            View("", (*columns, Column("text", heading="Text", sentence=True)), checks),
            form=args.form,
        )
    return 1 if any(state == _BAD for _, state, _ in checks) else 0


def _python() -> tuple[str, str, str]:
    from taupy.instrument import launch

    text = f"{platform.python_version()} {sys.executable}"
    if launch.is_free_threaded():
        return "python", _BAD, f"{text}: a free-threaded build, which taupy cannot measure"
    return "python", _OK, text


def _engine() -> tuple[str, str, str]:
    try:
        from taupy._native import engine
    except ImportError as problem:
        return (
            "engine",
            _WARN,
            "plain Python (sys.setprofile): only Python routines of one process, and many times "
            f"slower; the compiled engine is missing ({problem}). Install a C compiler and "
            "Python's headers, then reinstall: TAUPY_REQUIRE_NATIVE=1 pip install "
            "--force-reinstall . in the checkout",
        )
    facts = engine.describe()
    return "engine", _OK, f"compiled: {facts['hook']}, clock: {facts['clock']}"


def _boot() -> tuple[str, str, str]:
    from taupy.instrument import launch

    if launch.is_boot_installed([]):
        return "start-up hook", _OK, f"{launch.PTH} is installed"
    return (
        "start-up hook",
        _WARN,
        f"{launch.PTH} is not in site-packages; PYTHONPATH is used instead, which -I and -E "
        "disable. `pip install` installs the hook",
    )


def _state() -> tuple[str, str, str]:
    from taupy.instrument.runfolder import open_states, state_folders

    usable, _ = open_states()
    trusted = {state.path for state in usable}
    for state in usable:
        state.close()
    for folder in state_folders():
        if os.path.lexists(folder) and os.path.abspath(folder) not in trusted:
            continue  # `_leftovers` says why
        place = folder
        while not os.path.exists(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        if os.access(place, os.W_OK | os.X_OK):
            return "run folders", _OK, folder
    return "run folders", _BAD, "cannot create a folder for running profiles: set TAUPY_STATE_DIR"


def _libraries() -> list[tuple[str, str, str]]:
    """The packages that taupy needs, those of each extra, and what pip would complain about."""
    from taupy.commands.packages import Package, packages

    by_extra: dict[str, list[Package]] = {}
    for package in packages():
        by_extra.setdefault(package.extra, []).append(package)
    checks = []
    for extra, members in by_extra.items():
        installed = ", ".join(
            f"{package.name} {package.version}" for package in members if package.version
        )
        missing = [package.name for package in members if not package.version]
        wrong = [package for package in members if package.version and not package.fits]
        name = extra or "packages"
        if missing:
            remedy = f"pip install 'taupy-profiler{f'[{extra}]' if extra else ''}'"
            text = f"not installed: {', '.join(missing)}: {remedy}"
            checks.append(
                (name, _WARN if extra else _BAD, f"{text}; {installed}" if installed else text)
            )
        elif not wrong:
            checks.append((name, _OK, installed))
        for package in wrong:
            text = (
                f"{package.name} {package.version} is installed, but {package.asked_by} asks for "
            )
            checks.append((name, _WARN, f"{text}{package.name}{package.wanted}"))
    return checks


def _torch() -> list[tuple[str, str, str]]:
    """What is recorded of programs that use PyTorch, if that is installed for this Python."""
    from taupy.instrument import torch_library
    from taupy.instrument.runfolder import open_states
    from taupy.network.layers import not_built

    torch = torch_library.installed(sys.path)
    if torch is None:
        return []
    usable, _ = open_states()
    states = [state.path for state in usable]
    for state in usable:
        state.close()
    causes: dict[str, list[str]] = {}
    for kind in torch_library.KINDS if states else ():
        try:
            torch_library.kept(kind, torch, states[0])
        except torch_library.Unusable as problem:
            causes.setdefault(str(problem), []).append(kind.what)
    if not states:
        causes[not_built(torch.version)] = [kind.what for kind in torch_library.KINDS]
    missing = [
        ("PyTorch", _WARN, f"{', '.join(what)}: not recorded, since {cause}")
        for cause, what in causes.items()
    ]
    everything = ", ".join(kind.what for kind in torch_library.KINDS)
    return missing or [("PyTorch", _OK, f"{torch.version}: {everything} are recorded")]


def _database(path: str) -> tuple[str, str, str]:
    from taupy.profiledb.address import is_address

    if not is_address(path) and not os.path.exists(path):
        return "database", _OK, f"{path} (does not exist yet)"
    from taupy.errors import TaupyError
    from taupy.profiledb.opening import opened

    try:
        with opened(path) as db:
            return "database", _OK, f"{path}: {several(len(db.trials()), 'trial')}"
    except TaupyError as problem:
        return "database", _BAD, str(problem)


def _other_users(database: str) -> tuple[str, str, str]:
    """Who else can change what taupy reads and writes here."""
    from taupy.instrument.runfolder import state_folders
    from taupy.model.project import project_file
    from taupy.profiledb.address import is_address
    from taupy.state.changers import others

    places = {"the state folder": [*state_folders()][:1], "the settings": [project_file()]}
    if not is_address(database):
        places["the database or its folder"] = [os.path.dirname(database), database]
    open_to_others = [
        f"{what} ({why})"
        for what, paths in places.items()
        if (why := next(filter(None, (others(at) for at in paths if at)), ""))
    ]
    if open_to_others:
        return "other users", _WARN, "can change " + "; ".join(open_to_others)
    return "other users", _OK, "cannot change the database, the state folder or the settings"


def _leftovers() -> list[tuple[str, str, str]]:
    from taupy.session import leftovers

    left = leftovers()
    runs = [
        (
            "left over",
            _WARN,
            f"{folder}: a run of {' '.join(settings.arguments)} for {settings.database} was not "
            f"stored; any command with --db {settings.database} stores it",
        )
        for folder, settings in left.runs
    ]
    return runs + [("left alone", _WARN, text) for text in left.refused]
