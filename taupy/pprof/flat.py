"""TAU's view: one table per thread, then summaries over threads.

Names include their source location, and routines with equal short names are not summed. TAU's
default strips locations and so merges all modules of a program into one `<module>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, Literal, Protocol, get_args

from taupy.model.answer import Answer
from taupy.model.forest import members
from taupy.model.kinds import Named
from taupy.model.metric import Metric
from taupy.model.rows import ThreadRow, TimerRow
from taupy.pprof import figures
from taupy.pprof.figures import Figures, Order
from taupy.pprof.selection import Place, Test, place_of
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.units import duration, several

Statistic = Literal["total", "mean", "min", "max", "stddev"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOptions(Order):
    """Which tables to show, and in which order.

    Attributes:
        summaries: None for TAU's default: total and mean, if there are several threads.
        summary_only: omit the tables of single threads.
    """

    summaries: tuple[Statistic, ...] | None = None
    summary_only: bool = False


class Naming(Protocol):
    """The names of an answer's timers, which the few rows that are shown need."""

    def timers(self, labels: Sequence[Any]) -> Sequence[TimerRow]:
        """The timer of each label."""

    def alike(self, labels: Sequence[Any]) -> Sequence[Hashable]:
        """Something for each label that is equal if the full names are."""


class _Timers(Naming):
    """Labels that are timers."""

    def timers(self, labels: Sequence[TimerRow]) -> Sequence[TimerRow]:
        return labels

    def alike(self, labels: Sequence[TimerRow]) -> Sequence[str]:
        return [timer.timer for timer in labels]


def views(
    answer: Answer,
    threads: Sequence[ThreadRow],
    choice: FlatOptions | None = None,
    meant: Test | None = None,
    events: Mapping[Place, View] | None = None,
    kinds: Mapping[str, Sequence[ThreadRow]] | None = None,
    naming: Naming | None = None,
) -> list[View]:
    """The tables of these threads, and the chosen summaries.

    Args:
        answer: by thread and timer, with all routines of these threads, because percentages
            refer to the whole.
        threads: in order; a thread without rows was not measured in this metric: it has no
            table and does not count in a mean.
        meant: the routines to show, None for all.
        events: user events of a thread, shown below its table.
        kinds: title -> threads of one kind, which have one table with their sums instead of one
            each; there are then no summaries over all threads unless they are chosen.
        naming: where the labels of the answer's timers are not timers: what these are.
    """
    choice = choice or FlatOptions()
    kinds = kinds or {}
    together = {place_of(thread) for mine in kinds.values() for thread in mine}
    if kinds and choice.summaries is None:
        choice = replace(choice, summaries=())
    rows = _Rows(answer, naming or _Timers(), choice, meant)
    by_thread = rows.by_thread()
    measured = [thread for thread in threads if place_of(thread) in by_thread]
    counts = [thread.threads for thread in answer.threads]
    over = _Over(answer, number_of(measured), counts)
    everything = range(len(answer))
    if choice.sort == "stddev":  # which only sorts
        of_names = rows.routines(everything)
        rows.spread = {of_name[0].timer: over.spread(of_name) for of_name in of_names}
    listed_views: list[View] = []
    for thread in () if choice.summary_only else threads:
        place = place_of(thread)
        if place in together:
            continue
        if place in by_thread:
            shown, whole = rows.on_thread(by_thread[place], thread.kind)
            listed_views.append(_thread_view(thread, shown, whole, answer, choice))
        if events and place in events:
            listed_views.append(events[place])
    for title, mine in kinds.items():
        of_kind = [row for thread in mine for row in by_thread.get(place_of(thread), ())]
        if of_kind:
            over_kind = _Over(answer, number_of(mine), counts)
            summed = rows.summed(of_kind, over_kind, "total")
            listed_views.append(_summary_view("total", *summed, over_kind, choice, title))
    of_statistic: dict[Statistic, tuple[list[Figures], float]] = {}
    for statistic in _summaries(choice, answer, over.threads):
        sums: Statistic = "total" if statistic == "mean" else statistic
        if sums not in of_statistic:
            of_statistic[sums] = rows.summed(everything, over, sums)
        listed_views.append(_summary_view(statistic, *of_statistic[sums], over, choice))
    return listed_views


class _Rows:
    """The rows of an answer, by number; only those that may be shown become figures.

    Attributes:
        spread: by routine, if rows are sorted by it.
    """

    def __init__(
        self, answer: Answer, naming: Naming, choice: FlatOptions, meant: Test | None
    ) -> None:
        self._answer = answer
        self._naming = naming
        self._choice = choice
        self._meant = meant
        self._values = figures.Values.of(answer)
        self.spread: Mapping[str, float] = {}

    def by_thread(self) -> dict[Place, Sequence[int]]:
        threads, codes = self._answer.table.labels["thread"], self._answer.table.codes["thread"]
        if len(threads) == 1:
            return {place_of(threads[0]): range(len(codes))} if codes else {}
        of_code = members(codes, len(threads))
        return {place_of(thread): of_code(code) for code, thread in enumerate(threads)}

    @cached_property
    def _routine_of(self) -> Sequence[Hashable]:
        """Of each row, what is equal for equal names."""
        alike = self._naming.alike(self._answer.table.labels["timer"])
        return figures.taken(alike, self._answer.table.codes["timer"])

    def routines(self, rows: Sequence[int]) -> list[list[Figures]]:
        """The figures of these rows by routine."""
        of_routine: dict[Hashable, list[Figures]] = {}
        for row in self._figures(rows):
            of_routine.setdefault(self._routine_of[row.rows[0]], []).append(row)
        return [*of_routine.values()]

    def on_thread(self, rows: Sequence[int], kind: str) -> tuple[list[Figures], float]:
        """The figures of a thread that are shown, and the value of which percentages are shares."""
        values = self._values
        whole = max(figures.sort_keys(values.inclusive, rows), default=0)
        if kind == "stream":  # a stream has no root row with its total
            whole = max(whole, sum(figures.sort_keys(values.exclusive, rows)))
        return self._first(rows), whole

    def summed(
        self, rows: Sequence[int], over: _Over, statistic: Statistic
    ) -> tuple[list[Figures], float]:
        """The figures over threads that are shown, and the value of which percentages are shares; 0
        if there are none. (Only means of what is shown are taken: the mean has those of the
        total.)"""
        if statistic == "total" and len({*figures.taken(self._routine_of, rows)}) == len(rows):
            whole = max(figures.taken(self._values.inclusive, rows), default=0)
            return self._first(rows), whole
        summed = [over.summary(of_routine, statistic) for of_routine in self.routines(rows)]
        whole = max((routine.inclusive or 0 for routine in summed), default=0)
        chosen = [routine for routine in summed if self._meant is None or self._meant(routine)]
        total = self._answer if statistic == "total" else None
        shown = figures.first(self._sortable(chosen), self._choice, total)
        return shown, 0 if statistic == "stddev" else whole

    def _first(self, rows: Sequence[int]) -> list[Figures]:
        """The first of these rows, each by itself, and the sum of the others."""
        if self._meant is not None:
            timers = zip(rows, self._timers(rows), strict=True)
            rows = [row for row, timer in timers if self._meant(timer)]
        answer, values, order = self._answer, self._values, self._choice
        few = self._figures(figures.candidates(values, rows, order))
        shown = figures.first(self._sortable(few), order, None)
        if len(shown) == len(rows):
            return shown
        above = {row.rows[0] for row in shown}
        beyond = [row not in above for row in rows]
        calls, subroutines, own = (
            sum(compress(figures.taken(column, rows), beyond)) for column in values[:3]
        )
        if not answer.additive:
            own = answer.total(compress(rows, beyond))
        return [*shown, figures.others(calls, subroutines, own)]

    def _figures(self, rows: Sequence[int]) -> list[Figures]:
        return figures.of(self._values, rows, self._timers(rows))

    def _timers(self, rows: Sequence[int]) -> Sequence[TimerRow]:
        labels, codes = self._answer.table.labels["timer"], self._answer.table.codes["timer"]
        return self._naming.timers([labels[codes[row]] for row in rows])

    def _sortable(self, listed: Sequence[Figures]) -> Sequence[Figures]:
        if not self.spread:
            return listed
        return [row._replace(stddev=self.spread[row.timer]) for row in listed]


def thread_title(thread: ThreadRow, metric: Metric) -> str:
    """TAU's notation with the thread's name: `NODE 0;CONTEXT 0;THREAD 1: worker`."""
    place = f"NODE {thread.node};CONTEXT {thread.context};THREAD {thread.thread}:"
    name = f" {thread.name}" if thread.name else ""
    if thread.threads > 1:
        name += (
            f" ({several(thread.threads, 'thread')} of {duration(thread.least_ns)} to"
            f" {duration(thread.most_ns)} each)"
        )
    return place + name + metric_remark(metric)


def number_of(threads: Iterable[ThreadRow]) -> int:
    """How many threads these are, those included that were added up."""
    return sum(thread.threads for thread in threads)


def metric_remark(metric: Metric) -> str:
    """The addition to a title for a metric other than time."""
    return "" if metric.name == "time" else f" (metric {metric.name})"


def names(timers: Iterable[Named], meant: Test | None) -> View:
    """All routines by name: TAU's -l."""
    distinct = {
        (timer.timer, timer.short_name, timer.file, timer.line, timer.groups)
        for timer in timers
        if meant is None or meant(timer)
    }
    listed = sorted(distinct, key=lambda names: (names[0], names[-1]))
    return View(f"{len(listed)} ROUTINES:", figures.NAME_COLUMNS, listed)


# --- one thread --------------------------------------------------------------


def _thread_view(
    thread: ThreadRow,
    shown: Sequence[Figures],
    whole: float,
    answer: Answer,
    choice: FlatOptions,
) -> View:
    prefix = ("thread", *place_of(thread), thread.name)
    return View(
        thread_title(thread, answer.metric),
        _columns(answer.metric, choice, "int"),
        _cells(prefix, shown, whole),
    )


# --- over threads ------------------------------------------------------------


def _summaries(choice: FlatOptions, answer: Answer, threads: int) -> tuple[Statistic, ...]:
    if not threads:
        return ()
    if choice.summaries is not None:
        return choice.summaries
    if threads < 2 and not choice.summary_only:
        return ()
    return ("total", "mean") if answer.additive else ("total",)


@dataclass(frozen=True, slots=True)
class _Over:
    """Statistics over threads.

    A thread that never called a routine counts as 0; each of several that were added up counts as
    their mean. For a ratio, total and mean are the ratio of the sums, and the other statistics are
    over the threads that have a value.

    Attributes:
        threads: number of threads measured.
        counts: of how many threads each row of the answer is the sum.
    """

    answer: Answer
    threads: int
    counts: Sequence[int]

    def summary(self, rows: Sequence[Figures], statistic: Statistic) -> Figures:
        """One routine's figures over threads; the mean is made of the total by `mean`.

        A routine that was open when its process was forked is not called there: of its time in the
        child, which is part of its time in the parent, only the exclusive part counts.
        """
        if len(rows) == 1 and statistic == "total":
            return rows[0]
        if any(row.calls for row in rows):
            rows = [row if row.calls else row._replace(inclusive=row.exclusive) for row in rows]
        calls = [row.calls for row in rows]
        exclusive, inclusive = [row.exclusive for row in rows], [row.inclusive or 0 for row in rows]
        counts = self._counts(rows)
        summed = _STATISTICS[statistic]
        if statistic == "total":
            exclusive_per_call = figures.ratio(sum(exclusive), sum(calls))
            inclusive_per_call = figures.ratio(sum(inclusive), sum(calls))
        else:
            # A value per call needs at least one call.
            exclusive_per_call = _per_call(summed, exclusive, calls)
            inclusive_per_call = _per_call(summed, inclusive, calls)
        return rows[0]._replace(
            calls=summed(calls, counts, self.threads),
            subroutines=summed([row.subroutines for row in rows], counts, self.threads),
            exclusive=self._value(rows, "exclusive", statistic),
            inclusive=self._value(rows, "inclusive", statistic),
            exclusive_per_call=exclusive_per_call,
            inclusive_per_call=inclusive_per_call,
            rows=tuple(at for row in rows for at in row.rows),
        )

    def mean(self, total: Figures) -> Figures:
        """The mean over threads, of the total of a routine or of several."""
        return total._replace(
            calls=total.calls / self.threads,
            subroutines=total.subroutines / self.threads,
            exclusive=self.mean_value(total.exclusive),
            inclusive=None if total.inclusive is None else self.mean_value(total.inclusive),
        )

    def mean_value(self, total: float) -> float:
        return total / self.threads if self.answer.additive else total

    def _value(
        self, rows: Sequence[Figures], value: Literal["exclusive", "inclusive"], which: Statistic
    ) -> float:
        values = [getattr(row, value) for row in rows]
        if self.answer.additive:
            return _STATISTICS[which](values, self._counts(rows), self.threads)
        if which == "total":
            places = [at for row in rows for at in row.rows]
            together = self.answer.taken(places).summed([0] * len(places), 1)
            return together.values(value)[0]
        finite = [value for value in values if value == value]
        return _STATISTICS[which](finite, [1] * len(finite), len(finite)) if finite else math.nan

    def _counts(self, rows: Sequence[Figures]) -> list[int]:
        """Of how many threads each of these is the sum."""
        return [self.counts[row.rows[0]] for row in rows]

    def spread(self, rows: Sequence[Figures]) -> float:
        values = [row.exclusive for row in rows]
        if self.answer.additive:
            return _spread(values, self._counts(rows), self.threads)
        finite = [value for value in values if value == value]
        return _spread(finite, [1] * len(finite), len(finite)) if finite else 0.0


def _per_call(
    summed: Summed,
    values: Sequence[float],
    calls: Sequence[float],
) -> float | None:
    per_call = [value / count for value, count in zip(values, calls, strict=True) if count]
    return summed(per_call, [1] * len(per_call), len(per_call)) if per_call else None


Summed = Callable[[Sequence[float], Sequence[int], int], float]
"""Takes the sums of threads, of how many each is one, and the number of all threads."""


def _total(sums: Sequence[float], counts: Sequence[int], threads: int) -> float:
    return sum(sums)


def _means(sums: Sequence[float], counts: Sequence[int]) -> list[float]:
    return [
        whole / count if count > 1 else whole for whole, count in zip(sums, counts, strict=True)
    ]


def _least(sums: Sequence[float], counts: Sequence[int], threads: int) -> float:
    values = _means(sums, counts)
    return min(values) if sum(counts) == threads else min(0, *values)


def _most(sums: Sequence[float], counts: Sequence[int], threads: int) -> float:
    values = _means(sums, counts)
    return max(values) if sum(counts) == threads else max(0, *values)


def _spread(sums: Sequence[float], counts: Sequence[int], threads: int) -> float:
    """Population standard deviation of the threads' values."""
    mean = sum(sums) / threads
    values = zip(_means(sums, counts), counts, strict=True)
    squares = sum(count * (value - mean) ** 2 for value, count in values)
    return math.sqrt((squares + (threads - sum(counts)) * mean**2) / threads)


_STATISTICS: dict[Statistic, Summed] = {
    "total": _total,
    "min": _least,
    "max": _most,
    "stddev": _spread,
}


def _summary_view(
    statistic: Statistic,
    shown: list[Figures],
    whole: float,
    over: _Over,
    choice: FlatOptions,
    kind: str | None = None,
) -> View:
    """The figures over all threads, or over those of a kind."""
    is_whole = statistic in ("total", "min", "max")
    answer = over.answer
    if statistic == "mean":
        shown, whole = [over.mean(total) for total in shown], over.mean_value(whole)
    return View(
        f"{kind or f'FUNCTION SUMMARY ({statistic})'}:" + metric_remark(answer.metric),
        _columns(answer.metric, choice, "int" if is_whole else "float"),
        _cells((statistic, None, None, None, kind), shown, whole),
    )


def _columns(metric: Metric, choice: FlatOptions, counts: Kind) -> list[Column]:
    values = figures.value_columns(metric, choice.plain, counts)
    return [*figures.THREAD_COLUMNS, *values, *figures.NAME_COLUMNS]


def _cells(
    prefix: tuple[Cell, ...], chosen: Iterable[Figures], whole: float
) -> list[tuple[Cell, ...]]:
    """The rows of a table.

    Args:
        whole: the value of which percentages are shares.
    """
    shown = (row._replace(percent=figures.share(row.inclusive, whole)) for row in chosen)
    return [prefix + figures.value_cells(row) + figures.name_cells(row) for row in shown]
