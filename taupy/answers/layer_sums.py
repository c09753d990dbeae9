"""Sums of one thread by layer: own, forward, backward and recompute times, and calls.

A moment belongs to the innermost layer that is running, forward or backward: `own` times of
all rows add up to the thread's total time, and time outside layers has rows by phase. Forward,
backward and recompute times include nested layers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from taupy.answers import layer_facts
from taupy.answers.layer_facts import Described
from taupy.model import callpaths
from taupy.model.forest import preorder
from taupy.model.profile import LayerFacts
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table
from taupy.network.layers import is_backward, is_call, is_layer, layer_of
from taupy.network.phase_sums import row_phases
from taupy.network.phases import kind_of
from taupy.pprof.view import Column

NO_LAYER = "(no layer)"
_BACKWARD = ("_engine_run_backward", "run_backward")


TIMES = (
    Column("share_percent", "percent", "%Own", width=5),
    Column("own_ns", "time_ns", "Own", width=9),
    Column("forward_ns", "time_ns", "Forward", width=9),
    Column("validation_ns", "time_ns", "Validation", width=9, spare=True),
    Column("backward_ns", "time_ns", "Backward", width=9),
    Column("recompute_ns", "time_ns", "Recompute", width=9),
    Column("gpu_ns", "time_ns", "GPU time", width=9),
    Column("calls", "int", "Calls"),
)
"""The columns of a layer's times, and its calls."""

Counts = Mapping[tuple[int, str], Sequence[int]]
"""Calls and backward passes by node and timer of the calls."""
Growth = Mapping[tuple[ThreadRow, str, str], float]
"""Growth of resident memory by thread, layer and its class [bytes]."""


def calls_and_passes(hosts: Table) -> Counts:
    counts: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    rows = zip(
        *(hosts.row_labels(name) for name in ("thread", "timer")),
        hosts.column("calls"),
        strict=True,
    )
    for thread, timer, calls in rows:
        if is_layer(timer.groups):
            counts[thread.node, layer_of(timer.timer)][is_backward(timer.groups)] += int(calls or 0)
    return counts


class Layers:
    """The sums of one thread, or of a rank's threads, by label.

    Args:
        by: what labels are: a class with `layer_type`, a phase with `phase`, else a layer.
        depth: number of parts to which names of layers are shortened; None for whole names.

    Attributes:
        labels, parent: of each row of the table: its layer or phase, and the row above it.
        passes, again: which rows belong to backward passes of layers, and which to calls in them.
        evaluated: which other rows belong to a validation.
        counted: which rows are calls of their label.
    """

    def __init__(self, table: Table, by: str = "layer", depth: int | None = None) -> None:
        self.table, self._by, self._depth = table, by, depth
        self.parent = callpaths.parents(table)
        self._timers: Sequence[TimerRow] = [*table.row_labels("timer")]
        self._order = preorder(self.parent)
        self.labels = self._labelled()
        self.numbers: dict[str, int] = {}
        groups = [[self.numbers.setdefault(label, len(self.numbers))] for label in self.labels]
        self._count(table, groups)
        self.passes, self.again, self.evaluated = self._passes()
        first = self.first
        self.sums = self._grouped(groups, [True] * table.size)
        self.forward = self._grouped(groups, first)
        self.backward = self._grouped(groups, self.passes)
        self.recomputed = self._grouped(groups, self.again)
        self.validation = self._grouped(groups, self.evaluated)
        self.within = self._nested_in()
        self.whole = sum(self.value(label, "exclusive") for label in self.numbers)
        self.described = {label: Described() for label in self.numbers}

    def know(
        self,
        threads: Collection[ThreadRow],
        facts_of_trial: Mapping[tuple[int, str], LayerFacts],
        growth: Growth,
        everywhere: Counts,
    ) -> None:
        """Add the facts other than times.

        Args:
            facts_of_trial: by node and timer.
            everywhere: calls and backward passes of each layer on all threads. A backward pass may
                run on a thread of PyTorch's own; it counts for the thread that calls the layer.
        """
        nodes = {thread.node for thread in threads}
        facts = layer_facts.of_nodes(facts_of_trial, nodes)
        calls: dict[tuple[str, str], int] = {}
        counts = self.table.column("calls")
        for row, (timer, label) in enumerate(zip(self._timers, self.labels, strict=True)):
            if is_call(timer.groups):
                key = label, timer.timer
                calls[key] = calls.get(key, 0) + int(counts[row] or 0)
        for (label, name), count in calls.items():
            all_calls = sum(everywhere[node, name][0] for node in nodes)
            passes = sum(everywhere[node, name][1] for node in nodes)
            share = count / all_calls if all_calls else 0
            self.described[label].add(facts.get(name), count, passes * share)
        for (of, name, kind), grown in growth.items():
            label = self._label(name, kind)
            if of in threads and label in self.described:
                described = self.described[label]
                described.growth_bytes = (described.growth_bytes or 0) + grown

    def _labelled(self) -> list[str]:
        """Each row's layer; or, without one, the kind of the nearest phase."""
        if self._by == "phase":
            return [f"({kind.strip('()')})" for kind in row_phases(self.table)[0]]
        labels = [self._label(name, kind) for name, kind in _names(self.table)]
        outside = [NO_LAYER] * len(labels)
        for row in self._order:
            kind = kind_of(self._timers[row].groups)
            above = self.parent[row]
            if kind is not None:
                outside[row] = f"({kind})"
            elif above >= 0:
                outside[row] = outside[above]
            if labels[row] == NO_LAYER:
                labels[row] = outside[row]
        return labels

    def _count(self, table: Table, groups: Sequence[Sequence[int]]) -> None:
        types = table.row_labels("layer_type")
        rows = zip(self._timers, self.labels, types, strict=True)
        self.counted = [is_call(timer.groups) and label in (timer.short_name, kind)
                        for timer, label, kind in rows]  # fmt: skip
        calls = self._grouped(groups, self.counted)[table.named("calls")]
        counted = [(self.labels[row], types[row]) for row, here in enumerate(self.counted) if here]
        self.types: dict[str, str] = dict(counted)
        self.calls = {label: int(calls[self.numbers[label]] or 0) for label in self.types}

    @property
    def first(self) -> list[bool]:
        """Which rows are neither of a backward pass nor of a validation."""
        others = zip(self.passes, self.again, self.evaluated, strict=True)
        return [not any(other) for other in others]

    def _passes(self) -> tuple[list[bool], list[bool], list[bool]]:
        """Which rows belong to backward passes of layers, which to calls within such a pass, and
        which others to a validation."""
        passes, again = [False] * self.table.size, [False] * self.table.size
        inside, evaluated = [False] * self.table.size, [False] * self.table.size
        for row in self._order:
            timer, above = self._timers[row], self.parent[row]
            if above >= 0:
                passes[row], again[row], inside[row] = passes[above], again[above], inside[above]
                evaluated[row] = evaluated[above]
            evaluated[row] |= kind_of(timer.groups) == "validation"
            inside[row] |= timer.short_name in _BACKWARD or is_backward(timer.groups)
            if is_layer(timer.groups):
                passes[row] = is_backward(timer.groups)
                again[row] = not passes[row] and inside[row]
        rows = zip(evaluated, passes, again, strict=True)
        return passes, again, [here and not (back or more) for here, back, more in rows]

    def _grouped(self, groups: Sequence[Sequence[int]], wanted: Sequence[bool]) -> Any:
        chosen = [mine if here else [] for mine, here in zip(groups, wanted, strict=True)]
        return callpaths.grouped(self.table, self.parent, chosen, len(self.numbers))

    def _nested_in(self) -> dict[str, set[str]]:
        """For each layer, its own label and those of the layers called in it."""
        around: list[frozenset[str]] = [frozenset()] * self.table.size
        inside: dict[str, set[str]] = {label: {label} for label in self.numbers}
        for row in self._order:
            above, label = self.parent[row], self.labels[row]
            outer = around[above] if above >= 0 else frozenset()
            if is_backward(self._timers[row].groups):
                outer = frozenset()
            elif is_call(self._timers[row].groups):
                for layer in outer:
                    inside[layer].add(label)
                outer = outer | {label}
            around[row] = outer
        return inside

    def value(self, label: str, name: str, sums: Any = None) -> float:
        """A sum of times [ns], 0 if there is none."""
        if label not in self.numbers:
            return 0
        for column, numbers in (self.sums if sums is None else sums).items():
            if column.value == name and column.metric:
                return float(numbers[self.numbers[label]] or 0)
        return 0

    def nested(self) -> dict[str, int]:
        """Labels in tree order, siblings by name, each with the number of layers around it.

        A layer called from several places is listed once, under another layer if one calls it.
        """
        depth_of: dict[str, int] = {}
        by_name = sorted(range(self.table.size), key=lambda row: _with_numbers(self.labels[row]))
        rows = preorder(self.parent, by_name)
        for row in (row for row in rows if is_call(self._timers[row].groups)):
            above = self.parent[row]
            around = depth_of.get(self.labels[above], -1) if above >= 0 else -1
            depth_of.setdefault(self.labels[row], around + 1)
        rest = {label: 0 for label in self.numbers if label not in depth_of}
        return {**rest, **depth_of}

    @property
    def owned(self) -> float:
        """Time in layers [ns]."""
        return sum(self.value(label, "exclusive") for label in self.numbers if is_of_layers(label))

    def _label(self, name: str | None, kind: str) -> str:
        if name is None:
            return NO_LAYER
        if self._by == "layer_type":
            return kind
        return name if self._depth is None else ".".join(name.split(".")[: self._depth])


def _with_numbers(label: str) -> list[str | tuple[int, str]]:
    """A sort key that places `layers.2` before `layers.10`, and `(no layer)` last."""
    parts = re.split(r"([0-9]+)", label)
    names = [(int(part), part) if at % 2 else part for at, part in enumerate(parts)]
    return ["1" if label.startswith("(") else "0", *names]


def thread_title(thread: ThreadRow) -> str:
    """`NODE 0, CONTEXT 0, THREAD 0 (MainThread)`."""
    name = f" ({thread.name})" if thread.name else ""
    return f"NODE {thread.node}, CONTEXT {thread.context}, THREAD {thread.thread}{name}"


def is_of_layers(label: str) -> bool:
    """Whether a label means layers, as `(other Linear)` does, rather than time outside layers."""
    return not label.startswith("(") or label.startswith("(other ")


def _names(table: Table) -> list[tuple[str | None, str]]:
    return [
        (layer, kind or "")
        for layer, kind in zip(
            table.row_labels("layer"), table.row_labels("layer_type"), strict=True
        )
    ]
