"""`taupy compare` of files with GPU code: the numbers of each kernel, and a gate without a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from taupy.commands import bar
from taupy.commands.compare_arguments import named, of_chip, write_junit
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.study.conditions import Condition
from taupy.units import several

ROWS = 25


def run(args: argparse.Namespace, parsed: Sequence[Condition]) -> int:
    """Compare two files; the exit code is the gate's."""
    from taupy.commands.static import read
    from taupy.study import gate, gate_view, kernel_gate
    from taupy.study.kernel_gate import CodeSide

    texts = named(args)
    if len(texts) != 2:
        named_files = several(len(texts), "file")
        raise UsageError(f"{named_files} named; code is compared two by two: OLD NEW")
    sides, notes = [], []
    with bar.shown("reading kernels"):
        for text in texts:
            path, chips = of_chip(text)
            codes, remarks = read([path], chips)
            sides.append(CodeSide(text, tuple(codes)))
            notes += remarks
    pairs, more = kernel_gate.pairs(sides[0], sides[1], args.match, args.table)
    machines = terminal.is_for_programs(args.form)
    limit = args.limit if args.limit is not None else None if machines or args.whole else ROWS
    views = [kernel_gate.table(pairs, (sides[0], sides[1]), [*notes, *more], limit)]
    code = 0
    if parsed:
        judgement = kernel_gate.judge(pairs, parsed)
        conclusion = gate.conclusion(judgement, args.undecided)
        code = conclusion.code
        write_junit(args.junit, judgement, conclusion)
        views.insert(0, gate_view.conclusion_view(parsed, judgement, conclusion, machines))
    terminal.show_all(views, args.form)
    return code
