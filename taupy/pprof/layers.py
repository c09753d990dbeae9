"""Layers of a network: where the time of each thread goes, module by module.

A moment belongs to the innermost layer that is at work: `own` times of all rows add up to the
thread's whole time, and what no layer owns has a row of its own. `time` counts the layers
within, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from taupy.model import callpaths
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table
from taupy.pprof.view import Cell, Column, View

NO_LAYER = "(no layer)"
DIMENSIONS = ("thread", "callpath", "parent", "timer", "layer", "layer_type")
"""What the table is grouped by."""

By = Literal["layer", "type"]

_BACKWARD = ("_engine_run_backward", "run_backward")
_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("thread", "int", audience="machines"),
    Column("share_percent", "percent", "%Own", width=5),
    Column("own_ns", "time_ns", "Own", width=9),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("recompute_ns", "time_ns", "Recompute", width=9),
    Column("gpu_ns", "time_ns", "GPU time", width=9),
    Column("calls", "int", "Calls"),
    Column("type", heading="Class"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is shown.

    Attributes:
        by: one row a layer, or one a class.
        depth: names of layers are cut after so many parts; None for whole names.
        tree: in the order of calls, indented; else the largest own time first.
    """

    by: By = "layer"
    depth: int | None = None
    tree: bool = False


def views(table: Table, choice: Choice) -> list[View]:
    """One table for each host thread that called layers, the one with the most first.

    Args:
        table: calls, inclusive and exclusive time of call paths by `DIMENSIONS`.
    """
    threads: Sequence[ThreadRow] = table.labels["thread"]
    codes = table.codes["thread"]
    rows: dict[int, list[int]] = {code: [] for code in range(len(threads))}
    for row, code in enumerate(codes):
        rows[code].append(row)
    parts = [(threads[code], table.taken(mine)) for code, mine in rows.items()]
    gpus = [(thread, part) for thread, part in parts if thread.kind == "stream"]
    by_time: list[tuple[float, View]] = []
    for thread, part in parts:
        if thread.kind == "host" and any(label is not None for label in part.row_labels("layer")):
            layers = _Layers(part, choice)
            on_gpu = [_Layers(other, choice) for of, other in gpus if of.node == thread.node]
            by_time.append((layers.owned, _view(thread, layers, on_gpu, choice)))
    by_time.sort(key=lambda pair: -pair[0])
    return [view for _, view in by_time]


class _Layers:
    """One thread's sums by label."""

    def __init__(self, table: Table, choice: Choice) -> None:
        self.table = table
        labels = [_label(name, kind, choice) for name, kind in _names(table)]
        self.numbers: dict[str, int] = {}
        groups = [[self.numbers.setdefault(label, len(self.numbers))] for label in labels]
        parent = callpaths.parents(table)
        self.sums = callpaths.grouped(table, parent, groups, len(self.numbers))
        self.calls: dict[str, int] = {}
        self.types: dict[str, str] = {}
        calls = table.column("calls")
        types = table.row_labels("layer_type")
        for row, (timer, label) in enumerate(zip(table.row_labels("timer"), labels, strict=True)):
            if is_layer(timer) and label in (timer.short_name, types[row]):
                self.calls[label] = self.calls.get(label, 0) + int(calls[row] or 0)
                self.types[label] = types[row]
        self._labels, self._parent = labels, parent
        again = _below_backward(table, parent)
        recomputed = [mine if here else [] for mine, here in zip(groups, again, strict=True)]
        self.recomputed = callpaths.grouped(table, parent, recomputed, len(self.numbers))
        self.whole = sum(self.value(label, "exclusive") for label in self.numbers)

    def value(self, label: str, name: str, sums: Any = None) -> float:
        """A sum of time [ns], 0 where there is none."""
        if label not in self.numbers:
            return 0
        for column, numbers in (self.sums if sums is None else sums).items():
            if column.value == name and column.metric:
                return float(numbers[self.numbers[label]] or 0)
        return 0

    def nested(self) -> dict[str, int]:
        """Labels in the order of the call tree, and how many layers are around each."""
        inclusive = [value or 0 for value in self.table.column("inclusive", "time")]
        depth_of = {NO_LAYER: 0}
        for row in callpaths.in_order(self.table, inclusive):
            above = self._parent[row]
            outer = self._labels[above] if above >= 0 else NO_LAYER
            around = 0 if outer == NO_LAYER else depth_of[outer] + 1
            depth_of.setdefault(self._labels[row], around)
        return depth_of

    @property
    def owned(self) -> float:
        """Time in layers [ns]."""
        return sum(self.value(label, "exclusive") for label in self.numbers if label != NO_LAYER)


def _names(table: Table) -> list[tuple[str | None, str]]:
    return [
        (layer, kind or "")
        for layer, kind in zip(
            table.row_labels("layer"), table.row_labels("layer_type"), strict=True
        )
    ]


def _label(name: str | None, kind: str, choice: Choice) -> str:
    if name is None:
        return NO_LAYER
    if choice.by == "type":
        return kind
    return name if choice.depth is None else ".".join(name.split(".")[: choice.depth])


def is_layer(timer: TimerRow) -> bool:
    return "LAYER" in timer.groups.split("|")


def _below_backward(table: Table, parent: Sequence[int]) -> list[bool]:
    """Was it called by a backward pass? Parents may stand after their children."""
    names = [timer.short_name in _BACKWARD for timer in table.labels["timer"]]
    is_below: list[bool | None] = [None] * table.size
    for start in range(table.size):
        path, row = [], start
        while row >= 0 and is_below[row] is None and not names[table.codes["timer"][row]]:
            path.append(row)
            row = parent[row]
        below = row >= 0 and (is_below[row] is not False)
        for ancestor in path:
            is_below[ancestor] = below
        if row >= 0 and is_below[row] is None:
            is_below[row] = True
    return [bool(below_backward) for below_backward in is_below]


def _view(thread: ThreadRow, layers: _Layers, on_gpu: Sequence[_Layers], choice: Choice) -> View:
    order = layers.nested() if choice.tree else dict.fromkeys(layers.numbers, 0)
    if not choice.tree:
        own = {label: layers.value(label, "exclusive") for label in order}
        order = dict.fromkeys(sorted(order, key=own.__getitem__, reverse=True), 0)
    named = Column(choice.by, heading="Layer" if choice.by == "layer" else "Class")
    columns = _COLUMNS if choice.by == "layer" else _COLUMNS[:-1]
    cells = [
        (
            *(thread.node, thread.thread, *_cells(label, layers, on_gpu))[: len(columns)],
            "  " * around + label,
        )
        for label, around in order.items()
    ]
    place = f"NODE {thread.node}, CONTEXT {thread.context}, THREAD {thread.thread}"
    title = f"LAYERS OF {place}{f' ({thread.name})' if thread.name else ''}"
    return View(title, (*columns, named), cells)


def _cells(label: str, layers: _Layers, on_gpu: Sequence[_Layers]) -> tuple[Cell, ...]:
    """From the share on; what no layer owns has own times alone."""
    own = layers.value(label, "exclusive")
    share = 100 * own / layers.whole if layers.whole else None
    if label == NO_LAYER:
        return share, own, None, None, None, None, None
    recomputed = layers.value(label, "inclusive", layers.recomputed)
    gpu = sum(launches.value(label, "inclusive") for launches in on_gpu) if on_gpu else None
    time = layers.value(label, "inclusive")
    calls, kind = layers.calls.get(label), layers.types.get(label)
    return share, own, time, recomputed or None, gpu, calls, kind
