"""Routines summed up by file, module or group.

Exclusive values are sums. Inclusive is the time during which any routine of the
file (module, group) was on the stack: it is counted once, however its routines call
each other. Flat profiles cannot tell that, so all comes from the call tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from taupy.model.forest import outermost
from taupy.model.profile import Metric
from taupy.model.rows import TreeRow
from taupy.pprof import figures, paths
from taupy.pprof.figures import Figures, Order
from taupy.pprof.flat import metric_remark
from taupy.pprof.view import Column, View

By = Literal["file", "module", "group"]

NO_FILE = "(no file)"


def view(
    rows: Sequence[TreeRow],
    metric: Metric,
    by: By,
    order: Order,
    meant: Callable[[TreeRow], bool] | None = None,
) -> View:
    """One line a file, module or group, over all threads of the rows.

    A routine in several groups counts in each. Calls are those of its routines, also
    among themselves.
    """
    whole = _whole(rows)
    sums = _sums(rows, _NAMES[by], meant)
    found = [one._replace(percent=figures.share(one.inclusive, whole)) for one, _ in sums]
    routines = {one.timer: count for one, count in sums}
    chosen = figures.limited(figures.ordered(found, order), order.limit)
    percent, exclusive, inclusive, calls, subroutines, _ = figures.value_columns(
        metric, order.plain
    )
    columns = [percent, exclusive, inclusive, calls, subroutines,
               Column("routines", "int", "#Routines", width=10),
               Column(by, "text", by.capitalize())]  # fmt: skip
    cells = [(*figures.value_cells(one)[:5], routines.get(one.timer), one.timer) for one in chosen]
    return View(f"FUNCTION SUMMARY (total) BY {by.upper()}:{metric_remark(metric)}", columns, cells)


def module_of(file: str | None) -> str:
    """`pkg/sub/__init__.py` is pkg.sub; what is no path within a package stays a path."""
    if file is None:
        return NO_FILE
    if frozen := re.fullmatch(r"<frozen (.+)>", file):
        return frozen[1]
    stem = re.sub(r"\.(py|pyc|pyx|pyw)$", "", file)
    parts = stem.split("/")
    if file == stem or not all(part.isidentifier() for part in parts):
        return file
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


_NAMES: dict[By, Callable[[TreeRow], Sequence[str]]] = {
    "file": lambda row: (row.file or NO_FILE,),
    "module": lambda row: (module_of(row.file),),
    "group": lambda row: row.groups.split("|"),
}


def _whole(rows: Sequence[TreeRow]) -> float:
    """100 %: the largest inclusive of each thread."""
    largest: dict[tuple[int, int, int], float] = {}
    for row in rows:
        place = row.node, row.context, row.thread
        largest[place] = max(largest.get(place, 0), row.inclusive)
    return sum(largest.values())


def _sums(
    rows: Sequence[TreeRow],
    names_of: Callable[[TreeRow], Sequence[str]],
    meant: Callable[[TreeRow], bool] | None,
) -> list[tuple[Figures, int]]:
    """Figures by name, and the number of routines in each."""
    members: dict[str, list[int]] = {}
    names_of_timer: dict[str, Sequence[str]] = {}
    for at, row in enumerate(rows):
        if meant is not None and not meant(row):
            continue
        names = names_of_timer.get(row.timer)
        if names is None:
            names = names_of_timer[row.timer] = tuple(dict.fromkeys(names_of(row)))
        for name in names:
            members.setdefault(name, []).append(at)
    inclusive = _inclusive(rows, members)
    return [
        (
            Figures(
                name, name, None, None, "",
                sum(rows[at].calls for at in found),
                sum(rows[at].subroutines for at in found),
                sum(rows[at].exclusive for at in found),
                inclusive[name],
            ),
            len({rows[at].timer for at in found}),
        )
        for name, found in members.items()
    ]  # fmt: skip


def _inclusive(rows: Sequence[TreeRow], members: dict[str, list[int]]) -> dict[str, float]:
    """Outermost activations only. A row in several groups counts in one pass for each."""
    parent = paths.parents(rows)
    sums: dict[str, float] = dict.fromkeys(members, 0)
    waiting = list(members.items())
    while waiting:
        # As many names as possible in one pass: a row has one key a pass.
        keys = [-1] * len(rows)
        passed: list[str] = []
        later = []
        for name, found in waiting:
            if any(keys[at] != -1 for at in found):
                later.append((name, found))
                continue
            for at in found:
                keys[at] = len(passed)
            passed.append(name)
        for at in outermost(parent, keys):
            sums[passed[keys[at]]] += rows[at].inclusive
        waiting = later
    return sums
