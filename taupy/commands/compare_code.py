"""`taupy compare` of files with GPU code: the numbers of each kernel, and a gate without a GPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from taupy.analysis.gate import Condition
from taupy.analysis.match import Table
from taupy.errors import UsageError
from taupy.pprof import terminal

_ENDINGS = (".cubin", ".fatbin", ".so", ".ptx", ".a")
ROWS = 25


def means_code(args: argparse.Namespace) -> bool:
    """Are files with GPU code named, and not trials?"""
    named = _named(args)
    return bool(named) and all(_is_code(text) for text in named)


def _named(args: argparse.Namespace) -> list[str]:
    return [*([args.baseline] if args.baseline else []), *args.trials]


def _is_code(text: str) -> bool:
    """A file that is there and ends like one with code; of a trial's name neither is true."""
    path = _parts(text)[0]
    return os.path.exists(path) and (os.path.isdir(path) or path.endswith(_ENDINGS) or "/" in path)


def _parts(text: str) -> tuple[str, list[str]]:
    """A file and its chip: FILE@sm_90."""
    path, at, chip = text.rpartition("@")
    return (path, [chip]) if at and not os.path.exists(text) else (text, [])


def run(args: argparse.Namespace, parsed: Sequence[Condition], names: Table | None) -> int:
    """Compare two files; the exit code is the gate's."""
    from taupy.commands.static import read
    from taupy.comparison import gate_view, kernel_gate
    from taupy.comparison.kernel_gate import CodeSide

    texts = _named(args)
    if len(texts) != 2:
        raise UsageError(f"{len(texts)} files were named; code is compared two by two: OLD NEW")
    sides, notes = [], []
    with terminal.busy("reading kernels ..."):
        for text in texts:
            path, chips = _parts(text)
            codes, remarks = read([path], chips)
            sides.append(CodeSide(text, tuple(codes)))
            notes += remarks
    pairs, more = kernel_gate.pairs(sides[0], sides[1], args.match, names)
    machines = args.form in ("csv", "json")
    limit = args.limit if args.limit is not None else None if machines or args.all else ROWS
    views = [kernel_gate.table(pairs, (sides[0], sides[1]), [*notes, *more], limit)]
    code = 0
    if parsed:
        judgement = kernel_gate.judge(pairs, parsed)
        conclusion = kernel_gate.concluded(judgement, args.undecided)
        code = conclusion.code
        views.insert(
            0, gate_view.conclusion_view(parsed, judgement, conclusion, args.form == "json")
        )
    terminal.show_all(views, args.form or "text")
    return code
