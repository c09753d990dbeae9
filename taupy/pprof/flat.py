"""TAU's view: one table a thread, then summaries over threads.

Locations are kept and equal names are never summed: TAU's own default strips
them, and shows one `<module>` for all modules of a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from taupy.model.profile import Metric
from taupy.model.rows import FlatRow, ThreadRow
from taupy.pprof import figures
from taupy.pprof.figures import Figures, Order
from taupy.pprof.selection import Place, place_of
from taupy.pprof.view import Cell, Column, Kind, View

Statistic = Literal["total", "mean", "min", "max", "stddev"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Order):
    """Which tables there are, and their order.

    Attributes:
        summaries: None for TAU's: total and mean, where there are several threads.
        summary_only: no tables of threads.
        additive: False for a ratio, of which a thread without the routine has none, not 0.
    """

    summaries: tuple[Statistic, ...] | None = None
    summary_only: bool = False
    additive: bool = True


def views(
    rows: Sequence[FlatRow],
    threads: Sequence[ThreadRow],
    metric: Metric,
    choice: Choice | None = None,
    meant: Callable[[FlatRow], bool] | None = None,
    events: Mapping[Place, View] | None = None,
) -> list[View]:
    """The tables of these threads, and the summaries that were chosen.

    Args:
        rows: of these threads, all routines: shares in percent are of the whole.
        threads: in order; one without rows was not measured in this metric, has no
            table and does not count in a mean.
        meant: the routines to show, None for all.
        events: a thread's user events, to stand under its table.
    """
    choice = choice or Choice()
    by_thread: dict[Place, list[FlatRow]] = {place_of(thread): [] for thread in threads}
    for row in rows:
        by_thread[row.node, row.context, row.thread].append(row)
    measured = [thread for thread in threads if by_thread[place_of(thread)]]
    merged = merge(rows)
    if choice.additive:
        spread = {key: _spread(merged[key].exclusive, len(measured)) for key in merged}
    else:
        spread = {key: _spread_of_ratio(merged[key].exclusive) for key in merged}
    made: list[View] = []
    if not choice.summary_only:
        for thread in threads:
            if on_thread := by_thread[place_of(thread)]:
                made.append(
                    _thread_view(
                        thread, _on_thread(on_thread, spread, meant, thread.kind), metric, choice
                    )
                )
            if events and place_of(thread) in events:
                made.append(events[place_of(thread)])
    for statistic in _summaries(choice, len(measured)):
        summed = [
            _summary(routine, statistic, len(measured), spread[key], choice.additive)
            for key, routine in merged.items()
        ]
        whole = max((one.inclusive or 0 for one in summed), default=0)
        shares = statistic != "stddev"
        found = [
            one._replace(percent=figures.share(one.inclusive, whole) if shares else None)
            for one in summed
            if meant is None or meant(merged[one.timer].first)
        ]
        made.append(_summary_view(statistic, found, metric, choice))
    return made


def thread_title(thread: ThreadRow, metric: Metric) -> str:
    """`NODE 0;CONTEXT 0;THREAD 1: worker`, as TAU writes it, with the thread's name."""
    place = f"NODE {thread.node};CONTEXT {thread.context};THREAD {thread.thread}:"
    return place + (f" {thread.name}" if thread.name else "") + metric_remark(metric)


def metric_remark(metric: Metric) -> str:
    return "" if metric.name == "time" else f" (metric {metric.name})"


def names(rows: Sequence[FlatRow], meant: Callable[[FlatRow], bool] | None) -> View:
    """All routines by name: TAU's -l."""
    found = {
        (row.timer, row.short_name, row.file, row.line, row.groups)
        for row in rows
        if meant is None or meant(row)
    }
    listed = sorted(found, key=lambda names: names[0])
    return View(f"{len(listed)} ROUTINES:", figures.NAME_COLUMNS, listed)


# --- one thread --------------------------------------------------------------


def _on_thread(
    rows: Sequence[FlatRow],
    spread: dict[str, float],
    meant: Callable[[FlatRow], bool] | None,
    kind: str,
) -> list[Figures]:
    whole = max((figures.sortable(row.inclusive) for row in rows), default=0)
    if kind == "stream":  # it has no row for the whole of its work
        whole = max(whole, sum(figures.sortable(row.exclusive) for row in rows))
    return [
        Figures(
            timer=row.timer,
            short_name=row.short_name,
            file=row.file,
            line=row.line,
            groups=row.groups,
            calls=row.calls,
            subroutines=row.subroutines,
            exclusive=row.exclusive,
            inclusive=row.inclusive,
            percent=figures.share(row.inclusive, whole),
            exclusive_per_call=figures.ratio(row.exclusive, row.calls),
            inclusive_per_call=figures.ratio(row.inclusive, row.calls),
            stddev=spread[row.timer],
        )
        for row in rows
        if meant is None or meant(row)
    ]


def _thread_view(
    thread: ThreadRow, found: Sequence[Figures], metric: Metric, choice: Choice
) -> View:
    prefix = ("thread", *place_of(thread), thread.name)
    return View(
        thread_title(thread, metric),
        _columns(metric, choice, "int"),
        _cells(prefix, found, choice),
    )


# --- over threads ------------------------------------------------------------


@dataclass(slots=True)
class Merged:
    """One routine's values on the threads that have it, in parallel lists."""

    first: FlatRow
    calls: list[float]
    subroutines: list[float]
    exclusive: list[float]
    inclusive: list[float]


def merge(rows: Sequence[FlatRow]) -> dict[str, Merged]:
    """Rows of several threads by routine."""
    merged: dict[str, Merged] = {}
    for row in rows:
        routine = merged.get(row.timer)
        if routine is None:
            routine = merged[row.timer] = Merged(row, [], [], [], [])
        routine.calls.append(row.calls)
        routine.subroutines.append(row.subroutines)
        routine.exclusive.append(row.exclusive)
        routine.inclusive.append(row.inclusive)
    return merged


def _summaries(choice: Choice, threads: int) -> tuple[Statistic, ...]:
    if not threads:
        return ()
    if choice.summaries is not None:
        return choice.summaries
    if threads < 2 and not choice.summary_only:
        return ()
    return ("total", "mean") if choice.additive else ("total",)


def _summary(
    merged: Merged, statistic: Statistic, threads: int, spread: float, additive: bool
) -> Figures:
    """One routine over threads. A thread that never called it counts as 0; not so in a ratio."""
    summed = _STATISTICS[statistic]
    exclusive, inclusive = (
        summed(values, threads) if additive else _summed_ratio(statistic, values)
        for values in (merged.exclusive, merged.inclusive)
    )
    calls = summed(merged.calls, threads)
    if statistic in ("total", "mean"):
        exclusive_per_call = figures.ratio(sum(merged.exclusive), sum(merged.calls))
        inclusive_per_call = figures.ratio(sum(merged.inclusive), sum(merged.calls))
    else:
        # Per call there is a value only where there was a call.
        exclusive_per_call = _per_call(summed, merged.exclusive, merged.calls)
        inclusive_per_call = _per_call(summed, merged.inclusive, merged.calls)
    return Figures(
        timer=merged.first.timer,
        short_name=merged.first.short_name,
        file=merged.first.file,
        line=merged.first.line,
        groups=merged.first.groups,
        calls=calls,
        subroutines=summed(merged.subroutines, threads),
        exclusive=exclusive,
        inclusive=inclusive,
        exclusive_per_call=exclusive_per_call,
        inclusive_per_call=inclusive_per_call,
        stddev=spread,
    )


def _per_call(
    summed: Callable[[Sequence[float], int], float],
    values: Sequence[float],
    calls: Sequence[float],
) -> float | None:
    there = [value / count for value, count in zip(values, calls, strict=True) if count]
    return summed(there, len(there)) if there else None


def _total(values: Sequence[float], threads: int) -> float:
    return sum(values)


def _mean(values: Sequence[float], threads: int) -> float:
    return sum(values) / threads


def _least(values: Sequence[float], threads: int) -> float:
    return min(values) if len(values) == threads else min(0, *values)


def _most(values: Sequence[float], threads: int) -> float:
    return max(values) if len(values) == threads else max(0, *values)


def _spread(values: Sequence[float], threads: int) -> float:
    """The standard deviation of the threads' values: of all there are, not of a sample."""
    mean = sum(values) / threads
    squares = sum((value - mean) ** 2 for value in values)
    return math.sqrt((squares + (threads - len(values)) * mean**2) / threads)


def _summed_ratio(statistic: Statistic, values: Sequence[float]) -> float:
    """Over the threads that have a value; a sum and a mean are of what the ratio is made of."""
    if statistic in ("total", "mean"):
        return sum(values)
    there = [float(value) for value in values if value == value]
    return _STATISTICS[statistic](there, len(there)) if there else math.nan


def _spread_of_ratio(values: Sequence[float]) -> float:
    there = [float(value) for value in values if value == value]
    return _spread(there, len(there)) if there else 0.0


_STATISTICS: dict[Statistic, Callable[[Sequence[float], int], float]] = {
    "total": _total,
    "mean": _mean,
    "min": _least,
    "max": _most,
    "stddev": _spread,
}


def _summary_view(
    statistic: Statistic, found: Sequence[Figures], metric: Metric, choice: Choice
) -> View:
    whole = statistic in ("total", "min", "max")
    sums = statistic in ("total", "mean")
    return View(
        f"FUNCTION SUMMARY ({statistic}):" + metric_remark(metric),
        _columns(metric, choice, "int" if whole else "float"),
        _cells((statistic, None, None, None, None), found, choice, sums),
    )


def _columns(metric: Metric, choice: Choice, counts: Kind) -> list[Column]:
    values = figures.value_columns(metric, choice.plain, counts)
    return [*figures.THREAD_COLUMNS, *values, *figures.NAME_COLUMNS]


def _cells(
    prefix: tuple[Cell, ...], found: Sequence[Figures], choice: Choice, sums: bool = True
) -> list[tuple[Cell, ...]]:
    """The rows of a table; where values do not add up (`sums`), there are no others."""
    chosen = figures.ordered(found, choice)
    chosen = figures.limited(chosen, choice.limit) if sums else chosen[: choice.limit]
    return [prefix + figures.value_cells(one) + figures.name_cells(one) for one in chosen]
