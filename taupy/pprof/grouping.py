"""Routines summed up by file, module or group.

Exclusive values are sums. Inclusive is the time during which any routine of the
file (module, group) was on the stack: it is counted once, however its routines call
each other. Flat profiles cannot tell that, so all comes from the call tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.names import NO_FILE, module_of
from taupy.model.rows import TimerRow
from taupy.model.table import Table
from taupy.pprof import figures
from taupy.pprof.figures import Order
from taupy.pprof.flat import metric_remark
from taupy.pprof.selection import Test
from taupy.pprof.view import Column, View

By = Literal["file", "module", "group"]

_NAMES: dict[By, Callable[[TimerRow], Sequence[str]]] = {
    "file": lambda timer: (timer.file or NO_FILE,),
    "module": lambda timer: (module_of(timer.file),),
    "group": lambda timer: tuple(dict.fromkeys(timer.groups.split("|"))),
}


def view(answer: Answer, by: By, order: Order, meant: Test | None = None) -> View:
    """One line a file, module or group, over all threads of the call paths.

    A routine in several groups counts in each. Calls are those of its routines, also
    among themselves.
    """
    table, metric, whole = answer.table, answer.metric, _whole(answer)
    names: dict[str, int] = {}
    groups: list[tuple[int, ...]] = [() for _ in table.labels["timer"]]
    routines: Counter[str] = Counter()
    for code in dict.fromkeys(table.codes["timer"]):
        timer = table.labels["timer"][code]
        if meant is None or meant(timer):
            routines.update(_NAMES[by](timer))
            groups[code] = tuple(names.setdefault(name, len(names)) for name in _NAMES[by](timer))
    of_row = [groups[code] for code in table.codes["timer"]]
    sums = callpaths.grouped(table, callpaths.parents(table), of_row, len(names))
    summed = replace(answer, table=Table({}, {}, sums, len(names)))
    found = [
        one._replace(percent=figures.share(one.inclusive, whole))
        for one in figures.of(summed, [TimerRow(name, name, None, None, "") for name in names])
    ]
    chosen = figures.limited(figures.ordered(found, order), order.limit, summed)
    percent, exclusive, inclusive, calls, subroutines, _ = figures.value_columns(
        metric, order.plain
    )
    columns = [percent, exclusive, inclusive, calls, subroutines,
               Column("routines", "int", "#Routines", width=10),
               Column(by, "text", by.capitalize())]  # fmt: skip
    cells = [(*figures.value_cells(one)[:5], routines.get(one.timer), one.timer) for one in chosen]
    return View(f"FUNCTION SUMMARY (total) BY {by.upper()}:{metric_remark(metric)}", columns, cells)


def _whole(answer: Answer) -> float:
    """100 %: the largest inclusive of each thread."""
    largest: dict[int, float] = {}
    for thread, value in zip(answer.table.codes["thread"], answer.values("inclusive"), strict=True):
        largest[thread] = max(largest.get(thread, 0), value)
    return sum(largest.values())
