"""Layers of a network: where the time of each thread goes, module by module.

A moment belongs to the innermost layer that is running, forward or backward: `own` times of
all rows add up to the thread's total time, and time outside layers has rows by phase. Forward,
backward and recompute times include nested layers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from taupy.model import callpaths
from taupy.model.forest import preorder
from taupy.model.profile import LayerFacts
from taupy.model.question import VALUES, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table
from taupy.network.layers import is_backward, is_call, is_layer, layer_of
from taupy.network.phase_sums import row_phases
from taupy.network.phases import kind_of
from taupy.pprof import layer_facts
from taupy.pprof.layer_facts import Described
from taupy.pprof.view import Cell, Column, View

NO_LAYER = "(no layer)"
By = Literal["layer", "layer_type", "phase", "rank"]

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
_COLUMNS = (
    *TIMES,
    *layer_facts.COLUMNS,
    Column("type", heading="Class"),
)


_OF_PHASES = ("node", "thread", "share_percent", "own_ns", "gpu_ns", "phase")
_NAMED = {
    "layer_type": Column("type", heading="Class"),
    "phase": Column("phase", heading="Phase"),
}


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """What is shown.

    Attributes:
        by: one row per layer, one per class, or one per phase, in layers and outside; or one table
            of layers per rank, with all its threads.
        depth: number of parts to which names of layers are shortened; None for whole names.
        tree: in the order of calls, indented; otherwise the largest own time first.
    """

    by: By = "layer"
    depth: int | None = None
    tree: bool = False

    @property
    def split(self) -> str:
        """The dimension by which tables are split."""
        return "rank" if self.by == "rank" else "thread"


@dataclass(frozen=True, slots=True)
class Beside:
    """Facts about layers other than their times.

    Attributes:
        facts: by node and timer.
        growth: of resident memory, by thread, layer and its class [bytes].
        unknown: why facts are unknown; "" if they are known.
    """

    facts: Mapping[tuple[int, str], LayerFacts] = field(default_factory=dict)
    growth: Mapping[tuple[ThreadRow, str, str], float] = field(default_factory=dict)
    unknown: str = ""


Counts = Mapping[tuple[int, str], Sequence[int]]
"""Calls and backward passes by node and timer of the calls."""


def _counts(hosts: Table) -> Counts:
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


def question(trial: int, by: By = "layer") -> Question:
    """What `views` needs: the call trees of all threads, with their layers."""
    tree = ("thread", "callpath", "parent", "timer", "layer", "layer_type")
    return Question((trial,), by=(*tree, "rank") if by == "rank" else tree, values=VALUES)


def views(table: Table, choice: LayerOptions, beside: Beside | None = None) -> list[View]:
    """One table for each host thread that called layers, by decreasing time in layers; or one for
    each rank that did, by number.

    Args:
        table: the answer to `question`.
    """
    beside = beside or Beside()
    kinds: list[str] = [thread.kind for thread in table.row_labels("thread")]
    hosts, streams = (
        table.taken([row for row, kind in enumerate(kinds) if kind == wanted])
        for wanted in ("host", "stream")
    )
    counts = _counts(hosts)
    gpus: list[tuple[ThreadRow, Table]] = [*streams.parts("thread").items()]
    by_time: list[tuple[float, View]] = []
    for label, part in hosts.parts(choice.split).items():
        if any(layer is not None for layer in part.row_labels("layer")):
            threads: set[ThreadRow] = {*part.row_labels("thread")}
            nodes = {thread.node for thread in threads}
            layers = Layers(part, choice)
            layers.know(threads, beside, choice, counts)
            on_gpu = [Layers(other, choice) for of, other in gpus if of.node in nodes]
            view = _view(label, layers, on_gpu, choice)
            notes = [beside.unknown] if beside.unknown else view.notes
            order = -layers.owned if choice.split == "thread" else label
            by_time.append((order, replace(view, notes=notes)))
    by_time.sort(key=lambda pair: pair[0])
    return [view for _, view in by_time]


class Layers:
    """The sums of one thread, or of a rank's threads, by label.

    Attributes:
        labels, parent: of each row of the table: its layer or phase, and the row above it.
        passes, again: which rows belong to backward passes of layers, and which to calls in them.
        evaluated: which other rows belong to a validation.
        counted: which rows are calls of their label.
    """

    def __init__(self, table: Table, choice: LayerOptions) -> None:
        self.table = table
        self.parent = callpaths.parents(table)
        self._timers: Sequence[TimerRow] = [*table.row_labels("timer")]
        self._order = preorder(self.parent)
        self.labels = self._labelled(choice)
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
        beside: Beside,
        choice: LayerOptions,
        everywhere: Counts,
    ) -> None:
        """Add the facts other than times.

        Args:
            everywhere: calls and backward passes of each layer on all threads. A backward pass may
                run on a thread of PyTorch's own; it counts for the thread that calls the layer.
        """
        nodes = {thread.node for thread in threads}
        facts = layer_facts.of_nodes(beside.facts, nodes)
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
        for (of, name, kind), grown in beside.growth.items():
            label = _label(name, kind, choice)
            if of in threads and label in self.described:
                described = self.described[label]
                described.growth_bytes = (described.growth_bytes or 0) + grown

    def _labelled(self, choice: LayerOptions) -> list[str]:
        """Each row's layer; or, without one, the kind of the nearest phase."""
        if choice.by == "phase":
            return [f"({kind.strip('()')})" for kind in row_phases(self.table)[0]]
        labels = [_label(name, kind, choice) for name, kind in _names(self.table)]
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


def _with_numbers(label: str) -> list[str | tuple[int, str]]:
    """A sort key that places `layers.2` before `layers.10`, and `(no layer)` last."""
    parts = re.split(r"([0-9]+)", label)
    names = [(int(part), part) if at % 2 else part for at, part in enumerate(parts)]
    return ["1" if label.startswith("(") else "0", *names]


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


def _label(name: str | None, kind: str, choice: LayerOptions) -> str:
    if name is None:
        return NO_LAYER
    if choice.by == "layer_type":
        return kind
    return name if choice.depth is None else ".".join(name.split(".")[: choice.depth])


def _view(
    place: ThreadRow | int, layers: Layers, on_gpu: Sequence[Layers], choice: LayerOptions
) -> View:
    """The table of a thread, or of a rank, given by its number."""
    order = layers.nested() if choice.tree else dict.fromkeys(layers.numbers, 0)
    if not choice.tree:
        own = {label: layers.value(label, "exclusive") for label in order}
        order = dict.fromkeys(sorted(order, key=own.__getitem__, reverse=True), 0)
    named = _NAMED.get(choice.by, Column("layer", heading="Layer"))
    columns = _COLUMNS if named.name == "layer" else _COLUMNS[:-1]
    title, names, numbers = _placed(place)
    cells = [
        (*numbers, *_cells(label, layers, on_gpu)[: len(columns)], "  " * around + label)
        for label, around in order.items()
    ]
    where = [Column(name, "int", audience="machines") for name in names]
    notes = layer_facts.notes([*layers.described.values()])
    view = View(f"LAYERS OF {title}", (*where, *columns, named), cells, notes)
    return _of_phases(view) if choice.by == "phase" else view


def _of_phases(view: View) -> View:
    """Without the columns that only layers have."""
    kept = [at for at, column in enumerate(view.columns) if column.name in _OF_PHASES]
    columns = [view.columns[at] for at in kept]
    return View(view.title, columns, [[row[at] for at in kept] for row in view.rows])


def _placed(place: ThreadRow | int) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """The title of a thread or rank, and its columns with their values."""
    if isinstance(place, int):
        return f"RANK {place}", ("rank",), (place,)
    return thread_title(place), ("node", "thread"), (place.node, place.thread)


def thread_title(thread: ThreadRow) -> str:
    """`NODE 0, CONTEXT 0, THREAD 0 (MainThread)`."""
    name = f" ({thread.name})" if thread.name else ""
    return f"NODE {thread.node}, CONTEXT {thread.context}, THREAD {thread.thread}{name}"


def _cells(label: str, layers: Layers, on_gpu: Sequence[Layers]) -> tuple[Cell, ...]:
    """The cells from the share on; time outside layers has own times only."""
    own = layers.value(label, "exclusive")
    share = 100 * own / layers.whole if layers.whole else None
    if not is_of_layers(label):
        on_gpus = sum(launches.value(label, "exclusive") for launches in on_gpu)
        return share, own, *[None] * 4, on_gpus or None, *[None] * (len(_COLUMNS) - 7)
    recompute = layers.value(label, "inclusive", layers.recomputed)
    within = layers.within[label]
    backward = sum(layers.value(inner, "exclusive", layers.backward) for inner in within)
    forward = layers.value(label, "inclusive", layers.forward)
    gpu = sum(launches.value(label, "inclusive") for launches in on_gpu) if on_gpu else None
    calls, kind = layers.calls.get(label), layers.types.get(label)
    validation = layers.value(label, "inclusive", layers.validation) or None
    passes = forward, validation, backward or None, recompute or None
    times = share, own, *passes, gpu, calls
    return *times, *layers.described[label].cells(), kind
