"""The call-path tree: every routine under its caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taupy import units
from taupy.model.forest import Links
from taupy.model.profile import Metric
from taupy.model.rows import ThreadRow, TreeRow
from taupy.pprof import figures, paths
from taupy.pprof.figures import Order, SortKey
from taupy.pprof.flat import metric_remark, thread_title
from taupy.pprof.selection import Place, place_of
from taupy.pprof.view import Cell, Column, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Order):
    """How much of a tree is shown, and how. `sort` is the order of siblings.

    Attributes:
        limit: the so many call paths with the largest inclusive.
        depth: so many levels below the root.
        min_percent: call paths with an inclusive share of at least this.
        summary_only: one tree, all threads summed up.
        indent: levels that are indented; deeper ones stand below each other, with
            their depth in brackets.
    """

    depth: int | None = None
    min_percent: float = 0.0
    summary_only: bool = False
    indent: int = 30


def views(
    rows: Sequence[TreeRow],
    threads: Sequence[ThreadRow],
    metric: Metric,
    choice: Choice,
    meant: Callable[[TreeRow], bool] | None = None,
) -> list[View]:
    """One tree for each of these threads that has rows, or one for all together.

    Args:
        rows: of these threads, whole trees.
        meant: the routines to show, with the paths that lead to them; None for all.
    """
    if choice.summary_only:
        prefix = ("total", None, None, None, None)
        title = "CALL TREE SUMMARY (total):" + metric_remark(metric)
        return [_view(title, prefix, paths.over_threads(rows), metric, choice, meant)]
    by_thread: dict[Place, list[TreeRow]] = {place_of(thread): [] for thread in threads}
    for row in rows:
        by_thread[row.node, row.context, row.thread].append(row)
    return [
        _view(
            "CALL TREE " + thread_title(thread, metric),
            ("thread", *place_of(thread), thread.name),
            found,
            metric,
            choice,
            meant,
        )
        for thread in threads
        if (found := by_thread[place_of(thread)])
    ]


def _view(
    title: str,
    prefix: tuple[Cell, ...],
    rows: Sequence[TreeRow],
    metric: Metric,
    choice: Choice,
    meant: Callable[[TreeRow], bool] | None,
) -> View:
    parent = paths.parents(rows)
    whole = max((figures.sortable(row.inclusive) for row in rows), default=0)
    shown = _shown(rows, parent, whole, choice, meant)
    made = []
    for at, name in _outline(rows, parent, shown, choice):
        row = rows[at]
        made.append(
            (*prefix, figures.share(row.inclusive, whole), row.exclusive, row.inclusive,
             row.calls, row.subroutines, figures.ratio(row.inclusive, row.calls), name,
             row.depth, row.callpath_id, row.parent_id,
             row.timer, row.short_name, row.file, row.line, row.groups)
        )  # fmt: skip
    return View(title, _columns(metric, choice.plain), made, _notes(choice))


def _notes(choice: Choice) -> list[str]:
    """What is left out, and how to see it."""
    left_out = []
    if choice.min_percent > 0:
        left_out.append(f"call paths below {units.number(choice.min_percent)} % (--min-share)")
    if choice.depth is not None:
        left_out.append(f"call paths below level {choice.depth} (--depth)")
    if choice.limit is not None:
        left_out.append(f"all but the {choice.limit} largest call paths (--limit)")
    return ["not shown: " + ", ".join(left_out)] if left_out else []


def _columns(metric: Metric, plain: bool) -> list[Column]:
    percent, exclusive, inclusive, calls, subroutines, per_call = figures.value_columns(
        metric, plain
    )
    timer, *names = figures.NAME_COLUMNS
    return [
        *figures.THREAD_COLUMNS,
        percent,
        exclusive,
        inclusive,
        calls,
        Column(subroutines.name, subroutines.kind, audience="machines"),
        Column(per_call.name, per_call.kind, audience="machines"),
        Column("outline", "text", "Name", audience="people"),
        Column("depth", "int", audience="machines"),
        Column("callpath_id", "int", audience="machines"),
        Column("parent_id", "int", audience="machines"),
        Column(timer.name, audience="machines"),
        *names,
    ]


def _shown(
    rows: Sequence[TreeRow],
    parent: Sequence[int],
    whole: float,
    choice: Choice,
    meant: Callable[[TreeRow], bool] | None,
) -> Sequence[bool]:
    """Which rows are shown; a row is never shown without its ancestors."""
    shown = [True] * len(rows)
    if meant is not None:
        shown = [meant(row) for row in rows]
        for at in range(len(rows) - 1, -1, -1):
            if shown[at] and parent[at] >= 0:
                shown[parent[at]] = True
    least = choice.min_percent * whole / 100 if choice.min_percent else -math.inf
    deepest = len(rows) if choice.depth is None else choice.depth
    depth = paths.depths(parent)
    reach = _reach(rows, parent)
    for at in range(len(rows)):
        if depth[at] > deepest or reach[at] < least:
            shown[at] = False
    if choice.limit is not None:
        order = sorted(
            (at for at, here in enumerate(shown) if here),
            # At equal time the caller goes first: it is the callee's way in.
            key=lambda at: (-figures.sortable(reach[at]), depth[at], rows[at].timer),
        )
        for at in order[choice.limit :]:
            shown[at] = False
    for at, above in enumerate(parent):
        if above >= 0 and not shown[above]:
            shown[at] = False
    return shown


def _reach(rows: Sequence[TreeRow], parent: Sequence[int]) -> list[float]:
    """What a row's inclusive counts for: that of its callees where it has no values itself.

    Imported trees have such rows, over call paths whose callers the file does not tell.
    """
    reach = [row.inclusive for row in rows]
    for at in range(len(rows) - 1, -1, -1):
        above = parent[at]
        if above >= 0 and not (rows[above].inclusive or rows[above].calls):
            reach[above] += reach[at]
    return reach


def _outline(
    rows: Sequence[TreeRow], parent: Sequence[int], shown: Sequence[bool], choice: Choice
) -> list[tuple[int, str]]:
    """The shown rows from top to bottom, each with its indented name."""
    order = _order([at for at, here in enumerate(shown) if here], rows, choice)
    links = Links(parent, order)
    found: list[tuple[int, str]] = []
    # Row, what stands before its name, what stands before its callees' names, depth.
    stack = [(root, "", "", 0) for root in reversed(links.roots)]
    while stack:
        at, lead, below, depth = stack.pop()
        found.append((at, lead + rows[at].timer))
        children = links.children(at)
        depth += 1
        for child in reversed(children):
            if depth > choice.indent:
                stack.append((child, f"{below}[{depth}] ", below, depth))
            elif child == children[-1]:
                stack.append((child, below + "└ ", below + "  ", depth))
            else:
                stack.append((child, below + "├ ", below + "│ ", depth))
    return found


def _order(positions: list[int], rows: Sequence[TreeRow], choice: Choice) -> list[int]:
    positions.sort(key=lambda at: rows[at].timer, reverse=choice.sort == "name" and choice.reverse)
    if choice.sort != "name":
        value = _VALUES[choice.sort]
        positions.sort(key=lambda at: figures.sortable(value(rows[at])), reverse=not choice.reverse)
    return positions


_VALUES: dict[SortKey, Callable[[TreeRow], float | None]] = {
    "inclusive": lambda row: row.inclusive,
    "exclusive": lambda row: row.exclusive,
    "calls": lambda row: row.calls,
    "subroutines": lambda row: row.subroutines,
    "exclusive-per-call": lambda row: figures.ratio(row.exclusive, row.calls),
    "inclusive-per-call": lambda row: figures.ratio(row.inclusive, row.calls),
}
