"""Call paths summed by a dimension: file, module, group, kernel, node, rank, device ...

Exclusive values are sums. Inclusive is the time during which any routine of the file (module,
group) was on the stack, counted once however its routines call each other. This requires the
call tree; flat profiles do not contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.rows import TimerRow
from taupy.model.table import Table
from taupy.pprof import figures
from taupy.pprof.figures import Order
from taupy.pprof.flat import metric_remark
from taupy.pprof.selection import Test
from taupy.pprof.view import Column, View


def view(
    answer: Answer,
    by: Column,
    source: Literal["timer", "thread"],
    labels: Mapping[Any, Sequence[str]],
    order: Order,
    meant: Test | None = None,
) -> View:
    """One line per label, over all threads of the call paths.

    A routine in several groups counts in each of them. Calls include calls between routines of
    the same label.

    Args:
        by: the dimension's column.
        source: what the label depends on; `labels` has one entry per timer or thread.
    """
    table, metric, whole = answer.table, answer.metric, _whole(answer)
    wanted = [meant is None or meant(timer) for timer in table.labels["timer"]]
    names: dict[str, int] = {}
    routines: dict[str, set[int]] = {}
    numbers: list[tuple[int, ...]] = [() for _ in table.labels[source]]
    rows_of = dict.fromkeys(zip(table.codes[source], table.codes["timer"], strict=True))
    for code, timer in rows_of:
        if wanted[timer]:
            here = list(dict.fromkeys(labels[table.labels[source][code]]))
            numbers[code] = tuple(names.setdefault(name, len(names)) for name in here)
            for name in here:
                routines.setdefault(name, set()).add(timer)
    of_row = [
        numbers[code] if wanted[timer] else ()
        for code, timer in zip(table.codes[source], table.codes["timer"], strict=True)
    ]
    sums = callpaths.grouped(table, callpaths.parents(table), of_row, len(names))
    summed = replace(answer, table=Table({}, {}, sums, len(names)))
    listed = [
        row._replace(percent=figures.share(row.inclusive, whole))
        for row in figures.of(
            figures.Values.of(summed),
            range(len(names)),
            [TimerRow(name, name, None, None, "") for name in names],
        )
    ]
    chosen = figures.first(listed, order, summed)
    percent, exclusive, inclusive, calls, subroutines, _ = figures.value_columns(
        metric, order.plain
    )
    columns = [percent, exclusive, inclusive, calls, subroutines,
               Column("routines", "int", "#Routines", width=10),
               by]  # fmt: skip
    counts = {name: len(timers) for name, timers in routines.items()}
    cells = [(*figures.value_cells(row)[:5], counts.get(row.timer), row.timer) for row in chosen]
    title = f"FUNCTION SUMMARY (total) BY {by.heading.upper()}:{metric_remark(metric)}"
    return View(title, columns, cells)


def _whole(answer: Answer) -> float:
    """The value of 100 %: the sum of each thread's largest inclusive value."""
    largest: dict[int, float] = {}
    for thread, value in zip(answer.table.codes["thread"], answer.values("inclusive"), strict=True):
        largest[thread] = max(largest.get(thread, 0), value)
    return sum(largest.values())
