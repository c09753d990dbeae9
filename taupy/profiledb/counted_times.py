"""Times of a program that counted its operations (`taupy.count`), minus the cost of counting.

The helpers of `taupy.count` are called between a routine and its operations: `a @ b` runs inside
`binary`. The time of helpers that only forward counts for the routine; the time of helpers that
record something, with everything below them, is discarded. The result approximates a plain run;
each call of a helper costs about 0.1 us.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from taupy.model import callpaths
from taupy.model.forest import outermost, preorder
from taupy.model.table import Table, numbered

HELPERS = re.compile(r"[{/\\]taupy[/\\]count(_torch)?\.py}")
"""The file of `taupy.count`, as part of routine names."""

_PASSES_ON = re.compile(
    r"(binary|in_place|in_place_item|in_place_attribute|call|main|<module>"
    r"|_Loader\.exec_module|_watch_torch\.<locals>\.exec_module"
    r"|watch\.<locals>\.Counting\.__torch_dispatch__) \["
)
# PyTorch calls these around a dispatch mode; without counting they would not run.
WRAPPERS = re.compile(
    r"[{/\\](_compile\.py|_dynamo[/\\]eval_frame\.py|utils[/\\]_python_dispatch\.py)}"
)
_DISPATCH = "Counting.__torch_dispatch__ ["
# These run the dispatched operator; their time belongs to the operator, at any depth.
_OPERATORS = re.compile(r"[{/\\]torch[/\\]_ops\.py}")


class _Kind:
    PROGRAM, PASSES_ON, DISPATCH, NOTES, WRAPS, RUNS = range(6)


def _kind(name: str) -> int:
    if not HELPERS.search(name):
        if "torch" in name and WRAPPERS.search(name):
            return _Kind.WRAPS
        return _Kind.RUNS if _OPERATORS.search(name) else _Kind.PROGRAM
    if _DISPATCH in name:
        return _Kind.DISPATCH
    return _Kind.PASSES_ON if _PASSES_ON.match(name) else _Kind.NOTES


def counted_times(paths: Table) -> Table:
    """Inclusive and exclusive time of the program itself, by thread and timer.

    Args:
        paths: exclusive time of one trial's host, by thread, call path, parent and timer.
    """
    parent = callpaths.parents(paths)
    order = preorder(parent)
    kinds = [_kind(timer.timer) for timer in paths.labels["timer"]]
    kind = [kinds[code] for code in paths.codes["timer"]]
    owner, above = _owners(kind, parent, order)
    time = paths.named("exclusive", "time")
    counting = [-1 if here == _Kind.WRAPS else own for here, own in zip(kind, owner, strict=True)]
    exclusive = paths.summed(counting, len(paths))[time]
    inclusive = callpaths.rolled_up(exclusive, above, order)
    owned = replace(paths, columns={time._replace(value="inclusive"): inclusive, time: exclusive})
    keys = {name: paths.codes[name] for name in ("thread", "timer")}
    groups, firsts = numbered(*keys.values(), size=len(paths))
    groups = [group if owner[row] == row else -1 for row, group in enumerate(groups)]
    columns = owned.summed(groups, len(firsts), outermost(above, groups))
    codes = {name: [column[row] for row in firsts] for name, column in keys.items()}
    flat = Table(codes, paths.labels, columns, len(firsts))
    return flat.taken([row for row, own in enumerate(columns[time]) if own is not None])


def _owners(
    kinds: Sequence[int], parent: Sequence[int], order: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The row to which each row's time is added (-1: none), and the next program row above it."""
    owner, above = [-1] * len(parent), [-1] * len(parent)
    for row in order:
        kind, caller = kinds[row], parent[row]
        if caller >= 0:
            noting = kinds[caller] == _Kind.DISPATCH
            if owner[caller] < 0 or (noting and kind != _Kind.RUNS):
                continue  # below a helper that records
            if kind == _Kind.RUNS and not noting:
                kind = _Kind.PROGRAM
            if kind == _Kind.NOTES:
                continue
            above[row] = owner[caller]
        owner[row] = row if kind == _Kind.PROGRAM or caller < 0 else owner[caller]
    return owner, above
