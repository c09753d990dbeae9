"""Read Hatchet's own JSON: a graph of frames, and a data frame with values of its nodes.

A node with several callers (Hatchet's graphs may share nodes) is placed under each of them, with
all values under the first, because the file does not separate them. Hatchet has no units: taupy's
own exports add them, and names of threads; times in other files become a separate metric,
`hatchet.time`.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taupy.formats import limits
from taupy.formats.reading import refusal, whole
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.stacks import profile_of, routine_timer
from taupy.model.forest import subroutines
from taupy.model.kinds import ThreadKind
from taupy.model.profile import (
    ROOT_TIMER,
    TIME,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.progress import Progress
from taupy.model.timers import Timers

_INCLUSIVE = " (inc)"
_GRAPH = re.compile(rb"\s*\{\s*\"graph\"\s*:\s*\[\s*\{")
_PLACE = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)

Values = dict[str, dict[Thread, dict[str, Any]]]
"""Rows of the data frame, by node of the graph and thread."""


def recognises(path: Path, first_bytes: bytes) -> bool:
    return _GRAPH.match(first_bytes) is not None and b'"children"' in first_bytes


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    data = whole(source, progress, limits.DOCUMENT_BYTES, "Hatchet's JSON")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise refusal(source, "", f"not JSON: {problem}") from None
    yield _Reading(source, document).profile()


class _Reading:
    def __init__(self, source: Path, document: Any) -> None:
        self._source = source
        self._timers = Timers()
        self._nodes: dict[str, tuple[int, list[str]]] = {}
        self._roots: list[str] = []
        for number, graph in enumerate(self._list(document, "graph")):
            self._graph(graph, f"graph[{number}]")
        ours = document.get("taupy") if isinstance(document, dict) else None
        self._ours: dict[str, Any] = ours if isinstance(ours, dict) else {}
        self._metrics = self._named(document)
        self._values: Values = {}
        self._threads: dict[Thread, None] = {}
        for number, row in enumerate(self._list(document, "dataframe")):
            self._row(row, f"dataframe[{number}]")

    def _list(self, document: Any, name: str) -> list[Any]:
        value = document.get(name) if isinstance(document, dict) else None
        if not isinstance(value, list):
            raise refusal(self._source, name, "not a list")
        return value

    def _graph(self, graph: Any, place: str) -> None:
        if not isinstance(graph, dict):
            raise refusal(self._source, place, "not an object")
        below: set[str] = set()
        for key, node in graph.items():
            frame = node.get("data") if isinstance(node, dict) else None
            children = node.get("children") if isinstance(node, dict) else None
            if not isinstance(frame, dict) or not isinstance(children, list):
                raise refusal(self._source, f"{place}[{key}]", "not a frame with children")
            names = [str(child) for child in children]
            if any(name not in graph for name in names):
                raise refusal(self._source, f"{place}[{key}]", "a child that does not exist")
            below.update(names)
            self._nodes[key] = self._timers.place(_timer(frame)), names
        roots = [key for key in graph if key not in below]
        if graph and not roots:
            raise refusal(self._source, place, "a cycle of nodes")
        self._roots += roots

    def _named(self, document: Any) -> dict[str, Metric]:
        """Our metric for each column of the data frame that holds one."""
        units = self._ours.get("units")
        units = units if isinstance(units, dict) else {}
        columns = [*self._list(document, "exclusive_metrics")]
        columns += self._list(document, "inclusive_metrics")
        metrics: dict[str, Metric] = {}
        for column in columns:
            if not isinstance(column, str):
                raise refusal(self._source, "exclusive_metrics", "a name that is not a text")
            name = column.removesuffix(_INCLUSIVE)
            unit = units.get(name)
            if isinstance(unit, str):
                metrics[name] = TIME if name == TIME.name else Metric(name, unit)
            else:
                metrics[name] = Metric("hatchet.time" if name == TIME.name else name, "")
        return metrics

    def _row(self, row: Any, place: str) -> None:
        if not isinstance(row, dict) or "node" not in row:
            raise refusal(self._source, place, "not a row of a node")
        node = str(row["node"])
        if node not in self._nodes:
            raise refusal(self._source, place, f"node {node} is not in the graph")
        thread = self._thread(row, place)
        self._threads[thread] = None
        self._values.setdefault(node, {})[thread] = row

    def _thread(self, row: dict[str, Any], place: str) -> Thread:
        """The row's thread: taupy writes `thread` as node.context.thread; in other files `rank`
        and `thread` are numbers."""
        thread = row.get("thread", 0)
        if isinstance(thread, str) and (match := _PLACE.fullmatch(thread)):
            node, context, number = (int(part) for part in match.groups())
            names = self._ours.get("threads")
            name = names.get(thread) if isinstance(names, dict) else None
            kind: ThreadKind = "stream" if context else "host"
            return Thread(node, context, number, kind, name if isinstance(name, str) else "")
        numbers = [row.get("rank", 0), thread]
        if not all(isinstance(number, int) and 0 <= number < 1 << 31 for number in numbers):
            raise refusal(self._source, place, "rank and thread are not numbers")
        return Thread(numbers[0], 0, numbers[1])

    def profile(self) -> Profile:
        if not self._threads:
            raise refusal(self._source, "dataframe", "contains no row")
        threads = sorted(self._threads, key=lambda thread: thread.place)
        thread_profiles = [ThreadProfile(thread, self._tree(thread)) for thread in threads]
        metrics = list(self._metrics.values())
        profile = profile_of(self._source, self._timers.timers, thread_profiles, metrics)
        if any(metric.name == "hatchet.time" for metric in metrics):
            profile.metadata[IMPORT_NOTES] = (
                "Hatchet's files do not state the unit of time: it is stored as hatchet.time"
            )
        return profile

    def _tree(self, thread: Thread) -> CallTree:
        """The nodes for which the thread has values, and their callers."""
        order = self._order(thread)
        if len({root for root, above, _ in order if above < 0}) > 1:
            top = self._timers.place(Timer(ROOT_TIMER, groups=("TAUPY",)))
        else:
            top = -1
        shift = 1 if top >= 0 else 0
        timer = array("q", [top] * shift)
        parent = array("q", [-1] * shift)
        rows: list[list[dict[str, Any]]] = [[] for _ in range(shift)]
        at: list[int] = []  # the tree's row of each node
        row_of: dict[tuple[int, int], int] = {}
        for key, above, first in order:
            parent_row = at[above] if above >= 0 else shift - 1
            own_timer = self._nodes[key][0]
            row = row_of.setdefault((parent_row, own_timer), len(rows))
            at.append(row)
            if row == len(rows):  # frames that become one timer are summed
                parent.append(parent_row)
                timer.append(own_timer)
                rows.append([])
            if first and (values := self._values.get(key, {}).get(thread)):
                rows[row].append(values)
        calls = array("q", [self._count(self._sum(some, "calls")) for some in rows])
        tree = CallTree(timer, parent, calls, subroutines(parent, calls))
        for name, metric in self._metrics.items():
            own = [self._sum(some, name) for some in rows]
            total = [self._sum(some, name + _INCLUSIVE) for some in rows]
            if all(value != value for value in (*own, *total)):
                continue  # not measured on this thread
            tree.inclusive[metric.name], tree.exclusive[metric.name] = _completed(
                parent, own, total
            )
        return tree

    def _order(self, thread: Thread) -> list[tuple[str, int, bool]]:
        """Nodes, callers first: key, position of the caller, and whether this is the node's first
        occurrence."""
        needed = self._needed(thread)
        order: list[tuple[str, int, bool]] = []
        placed: set[str] = set()
        stack = [(root, -1, 0) for root in reversed(self._roots) if root in needed]
        while stack:
            key, above, depth = stack.pop()
            if depth > limits.HATCHET_DEPTH:
                raise refusal(self._source, f"node {key}", "call paths that never end")
            first = key not in placed
            order.append((key, above, first))
            placed.add(key)
            if not first:
                continue  # the callees of a shared node are placed once
            row = len(order) - 1
            below = [child for child in self._nodes[key][1] if child in needed]
            stack += [(child, row, depth + 1) for child in reversed(below)]
        return order

    def _needed(self, thread: Thread) -> set[str]:
        above: dict[str, list[str]] = {}
        for key, (_, children) in self._nodes.items():
            for child in children:
                above.setdefault(child, []).append(key)
        needed = {key for key, rows in self._values.items() if thread in rows}
        waiting = list(needed)
        while waiting:
            for caller in above.get(waiting.pop(), ()):
                if caller not in needed:
                    needed.add(caller)
                    waiting.append(caller)
        return needed

    def _number(self, value: Any) -> float:
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(self._source, "dataframe", f"a value that is not a number: {value!r}")
        if not -(1 << 62) < value < 1 << 62:
            raise refusal(self._source, "dataframe", f"a value that is too large: {value!r}")
        return value

    def _sum(self, rows: list[dict[str, Any]], column: str) -> float:
        numbers = [self._number(row.get(column)) for row in rows]
        finite = [number for number in numbers if number == number]
        return sum(finite) if finite else math.nan

    def _count(self, number: float) -> int:
        if number != number:
            return 0
        if number < 0 or number != int(number):
            raise refusal(self._source, "dataframe", f"{number!r} calls")
        return int(number)


def _timer(frame: dict[str, Any]) -> Timer:
    name, file, line = frame.get("name"), frame.get("file"), frame.get("line")
    named = name if isinstance(name, str) and name else str(frame.get("type", "(no name)"))
    if isinstance(file, str) and named.endswith(f" [{{{file}}}{{{line}}}]"):
        return routine_timer(named)  # in our own spelling, with file and line
    return routine_timer(
        named, file if isinstance(file, str) else None, line if isinstance(line, int) else None
    )


def _completed(
    parent: array[int], own: list[float], total: list[float]
) -> tuple[array[int], array[int]]:
    """Inclusive and exclusive values; where the file has only one, compute the other."""
    below = [0.0] * len(own)
    for row in range(len(own) - 1, -1, -1):
        if total[row] != total[row] and (own[row] == own[row] or below[row]):
            total[row] = (own[row] if own[row] == own[row] else 0) + below[row]
        if own[row] != own[row] and total[row] == total[row]:
            own[row] = total[row] - below[row]
        if parent[row] >= 0 and total[row] == total[row]:
            below[parent[row]] += total[row]
    return _column(total), _column(own)


def _column(values: list[float]) -> array[int]:
    if all(value == value and value == int(value) for value in values):
        return array("q", map(int, values))
    return array("d", values)  # type: ignore[return-value]
