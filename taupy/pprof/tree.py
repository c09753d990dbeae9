"""The call-path tree: every routine under its caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from taupy import units
from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.forest import Links
from taupy.model.metric import Metric
from taupy.model.rows import ThreadRow, TimerRow
from taupy.pprof import figures, paths
from taupy.pprof.figures import Order, SortKey
from taupy.pprof.flat import metric_remark, thread_title
from taupy.pprof.selection import Place, Test, place_of
from taupy.pprof.view import Cell, Column, View


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions(Order):
    """Which part of a tree to show, and how. `sort` is the order of siblings.

    Attributes:
        limit: show this many call paths, those with the largest inclusive values.
        depth: show this many levels below the root.
        min_percent: show call paths with at least this inclusive share.
        summary_only: show one tree, summed over all threads.
        indent: maximum indentation in levels; deeper levels show their depth in brackets.
    """

    depth: int | None = None
    min_percent: float = 0.0
    summary_only: bool = False
    indent: int = 30


def views(
    answer: Answer,
    threads: Sequence[ThreadRow],
    choice: TreeOptions,
    meant: Test | None = None,
    kinds: Mapping[str, Sequence[ThreadRow]] | None = None,
) -> list[View]:
    """One tree for each of these threads that has call paths, or one for their sum.

    Args:
        answer: the complete trees of these threads.
        meant: the routines to show, with the call paths leading to them; None for all.
        kinds: title -> threads of one kind, which have one tree together instead of one each.
    """
    remark = metric_remark(answer.metric)

    def summed(of: Answer, title: str, kind: str | None = None) -> View:
        prefix = ("total", None, None, None, kind)
        return _Tree.of(paths.over_threads(of)).view(title + remark, prefix, choice, meant)

    if choice.summary_only:
        return [summed(answer, "CALL TREE SUMMARY (total):")]
    by_thread: dict[Place, list[int]] = {place_of(thread): [] for thread in threads}
    for row, thread in enumerate(answer.threads):
        by_thread[place_of(thread)].append(row)
    together = {place_of(thread) for mine in (kinds or {}).values() for thread in mine}
    trees = [
        _Tree.of(answer.taken(rows) if len(rows) < len(answer) else answer).view(
            "CALL TREE " + thread_title(thread, answer.metric),
            ("thread", *place_of(thread), thread.name),
            choice,
            meant,
        )
        for thread in threads
        if place_of(thread) not in together and (rows := by_thread[place_of(thread)])
    ]
    for kind, mine in (kinds or {}).items():
        if rows := sorted(row for thread in mine for row in by_thread[place_of(thread)]):
            trees.append(summed(answer.taken(rows), f"CALL TREE OF {kind}:", kind))
    return trees


def _notes(choice: TreeOptions) -> list[str]:
    """What is not shown, and the option that changes it."""
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


@dataclass(frozen=True, slots=True)
class _Tree:
    """Call paths as columns, callers before callees; `parent` is a position, -1 for a root."""

    metric: Metric
    timers: Sequence[TimerRow]
    callpath: Sequence[int]
    parent: Sequence[int]
    calls: Sequence[int]
    subroutines: Sequence[int]
    inclusive: Sequence[float]
    exclusive: Sequence[float]

    @classmethod
    def of(cls, answer: Answer) -> _Tree:
        return cls(
            answer.metric,
            answer.timers,
            answer.table.row_labels("callpath"),
            callpaths.parents(answer.table),
            answer.calls(),
            answer.subroutines(),
            answer.values("inclusive"),
            answer.values("exclusive"),
        )

    def view(
        self, title: str, prefix: tuple[Cell, ...], choice: TreeOptions, meant: Test | None
    ) -> View:
        whole = max(map(figures.sortable, self.inclusive), default=0)
        depth = callpaths.depths(self.parent)
        shown = self._shown(whole, depth, choice, meant)
        cells = []
        for at, name in self._outline(shown, choice):
            above = self.parent[at]
            cells.append(
                (*prefix, figures.share(self.inclusive[at], whole), self.exclusive[at],
                 self.inclusive[at], self.calls[at], self.subroutines[at],
                 figures.ratio(self.inclusive[at], self.calls[at]), name, depth[at],
                 self.callpath[at], self.callpath[above] if above >= 0 else None,
                 *self.timers[at])
            )  # fmt: skip
        return View(title, _columns(self.metric, choice.plain), cells, _notes(choice))

    def _shown(
        self, whole: float, depth: Sequence[int], choice: TreeOptions, meant: Test | None
    ) -> Sequence[bool]:
        """The rows to show; a shown row's ancestors are shown, too."""
        shown = [True] * len(self.parent)
        if meant is not None:
            shown = list(map(meant, self.timers))
            for at in range(len(shown) - 1, -1, -1):
                if shown[at] and self.parent[at] >= 0:
                    shown[self.parent[at]] = True
        least = choice.min_percent * whole / 100 if choice.min_percent else -math.inf
        deepest = len(shown) if choice.depth is None else choice.depth
        reach = self._reach()
        for at in range(len(shown)):
            if depth[at] > deepest or reach[at] < least:
                shown[at] = False
        if choice.limit is not None:
            order = sorted(
                (at for at, here in enumerate(shown) if here),
                # With equal times the caller comes first, because its callee needs it.
                key=lambda at: (-figures.sortable(reach[at]), depth[at], self.timers[at].timer),
            )
            for at in order[choice.limit :]:
                shown[at] = False
        for at, above in enumerate(self.parent):
            if above >= 0 and not shown[above]:
                shown[at] = False
        return shown

    def _reach(self) -> list[float]:
        """Inclusive values for selecting rows; a row without values has those of its callees.

        Imported trees have such rows above call paths with unknown callers.
        """
        reach = list(self.inclusive)
        for at in range(len(reach) - 1, -1, -1):
            above = self.parent[at]
            if above >= 0 and not (self.inclusive[above] or self.calls[above]):
                reach[above] += reach[at]
        return reach

    def _outline(self, shown: Sequence[bool], choice: TreeOptions) -> list[tuple[int, str]]:
        """The shown rows from top to bottom, with indented names."""
        order = self._order([at for at, here in enumerate(shown) if here], choice)
        links = Links(self.parent, order)
        outline: list[tuple[int, str]] = []
        # Row, prefix of its name, prefix of its callees' names, depth.
        stack = [(root, "", "", 0) for root in reversed(links.roots)]
        while stack:
            at, lead, below, depth = stack.pop()
            outline.append((at, lead + self.timers[at].timer))
            children = links.children(at)
            depth += 1
            for child in reversed(children):
                if depth > choice.indent:
                    stack.append((child, f"{below}[{depth}] ", below, depth))
                elif child == children[-1]:
                    stack.append((child, below + "└ ", below + "  ", depth))
                else:
                    stack.append((child, below + "├ ", below + "│ ", depth))
        return outline

    def _order(self, positions: list[int], choice: TreeOptions) -> list[int]:
        by_name = choice.sort == "name"
        positions.sort(key=lambda at: self.timers[at].timer, reverse=by_name and choice.reverse)
        if not by_name:
            value = self._sorted_by(choice.sort)
            positions.sort(key=lambda at: figures.sortable(value(at)), reverse=not choice.reverse)
        return positions

    def _sorted_by(self, key: SortKey) -> Callable[[int], float | None]:
        keys: dict[SortKey, Callable[[int], float | None]] = {
            "inclusive": self.inclusive.__getitem__,
            "exclusive": self.exclusive.__getitem__,
            "calls": self.calls.__getitem__,
            "subroutines": self.subroutines.__getitem__,
            "exclusive-per-call": lambda at: figures.ratio(self.exclusive[at], self.calls[at]),
            "inclusive-per-call": lambda at: figures.ratio(self.inclusive[at], self.calls[at]),
        }
        return keys[key]
