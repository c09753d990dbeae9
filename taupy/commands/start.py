"""What `taupy` alone prints: how to begin, and the latest trials."""

from __future__ import annotations

import argparse
import os

from taupy import __version__
from taupy.commands import options
from taupy.escaping import visible
from taupy.units import duration

_LATEST = 3


def show() -> int:
    """Print three commands and the latest trials on stdout. A database that cannot be read is
    named by the commands that need it."""
    from taupy.errors import TaupyError

    lines = [
        f"taupy {__version__}: exact profiles of Python and CUDA programs",
        "",
        "  taupy run script.py [args]   measure a program",
        "  taupy report                 where its time went and what to do",
        "  taupy report -o r.html       the same as a page, with source and flame graph",
        "",
    ]
    try:
        lines += _latest(options.database_or_store(argparse.Namespace()))
    except TaupyError as problem:
        lines.append(f"trials: {visible(str(problem))}")
    print("\n".join([*lines, "", "taupy --help lists all commands."]))
    return 0


def _latest(path: str) -> list[str]:
    """A line for each of the latest trials of a database."""
    from taupy.profiledb.address import is_address
    from taupy.profiledb.opening import opened

    shown = visible(os.path.relpath(path) if os.path.dirname(path) == os.getcwd() else path)
    if not is_address(path) and not os.path.exists(path):
        return [f"no trials yet in {shown}. Is everything ready?  taupy doctor"]
    with opened(path) as db:
        trials = db.trials()[-_LATEST:]
    if not trials:
        return [f"no trials yet in {shown}. Is everything ready?  taupy doctor"]
    rows = [
        (str(trial.id), trial.application, duration(trial.duration_ns), trial.started_at[:16])
        for trial in reversed(trials)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [f"latest in {shown}"] + [
        f"  {number:>{widths[0]}}  {visible(name):<{widths[1]}}  {time:>{widths[2]}}  "
        f"{started.replace('T', ' ')}"
        for number, name, time, started in rows
    ]
