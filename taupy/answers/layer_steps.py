"""Layers step by step: `layer_sums.py` for the spans of a trace, instead of sums over the run.

The spans of a call path add up to its inclusive time. Own times are therefore those of a path's
spans without the spans right below it, and the rows of a step add up to the step's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taupy.answers.answer import column_of
from taupy.answers.layer_sums import NO_LAYER, TIMES, Layers, is_of_layers, thread_title
from taupy.answers.steps import notable
from taupy.errors import UsageError
from taupy.model.forest import callers_first, outermost
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import NO_STEP, Spans, Stamped, Step
from taupy.model.step_times import step_times
from taupy.model.table import Table
from taupy.network.steps import BRIEF
from taupy.pprof.view import Cell, Column, View
from taupy.units import listing, several

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]

_OUTSIDE = "(no step)"
_OWN, _FORWARD, _VALIDATION, _BACKWARD, _RECOMPUTE, _GPU, _CALLS = range(7)

_FROM = "from the start and end of each call of a layer or phase, which --trace=host recorded"

_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("thread", "int", audience="machines"),
    Column("kind", audience="machines"),
    Column("step", "int", audience="machines"),
    Column("steps", "int", audience="machines"),
    Column("name", heading="Step", audience="people"),
    *TIMES,
    column_of("layer_type"),
    column_of("layer"),
)


def check(trial: int, stamped: Stamped) -> None:
    """Raises UsageError if the trial has no steps, or no spans of layers and phases."""
    if not stamped.steps:
        raise UsageError(f"trial {trial} has no steps: see docs/steps.md")
    if not stamped.spans:
        raise UsageError(
            f"trial {trial} has sums over the run, not over each step: `taupy run --trace=host` "
            "stamps every call of a layer, `taupy run --steps A:B` sums up some steps"
        )


def views(
    table: Table,
    stamped: Stamped,
    layers_of: Callable[[Table], Layers],
    tree: bool = False,
    limit: int | None = None,
    whole: bool = True,
) -> list[View]:
    """One table for each host thread that called layers: a row per step and layer.

    Args:
        table: the answer to `layers.question`.
        layers_of: the sums of a thread's part of the table.
        tree: in the order of calls, indented; otherwise the largest own time first.
        limit: layers of each step, those with the largest own time.
        whole: show all steps; otherwise the first, the last, and the slowest outliers.
    """
    by_time, left = [], []
    for thread, part in table.parts("thread").items():
        has_layers = any(label is not None for label in part.row_labels("layer"))
        if thread.kind == "host" and has_layers and thread not in stamped.spans:
            left.append(f"{thread.node}.{thread.context}.{thread.thread} ({thread.name})")
        elif thread.kind == "host" and has_layers:
            layers = layers_of(part)
            on_gpus = [
                (layers_of(other), stamped.streams[stream])
                for stream, other in table.parts("thread").items()
                if stream in stamped.streams and stream.node == thread.node
            ]
            divided = _Divided(thread, layers, stamped, on_gpus)
            shown = divided.recorded if whole else _shown(stamped, divided.recorded)
            by_time.append((divided.layers.owned, _view(thread, divided, shown, tree, limit)))
    by_time.sort(key=lambda pair: -pair[0])
    tables = [view for _, view in by_time]
    notes = [f"threads without a trace: {listing(left, 4)}"] if left else []
    notes += stamped.notes
    tables[-1:] = [replace(view, notes=[*view.notes, *notes]) for view in tables[-1:]]
    return tables


def _shown(stamped: Stamped, recorded: set[int]) -> set[int]:
    """Those of the recorded steps that people see."""
    shown: set[int] = set()
    for place, (_, series) in enumerate(stamped.series):
        mine = {
            stamped.steps[row].at: row for row in recorded if stamped.steps[row].series == place
        }
        chosen = notable(series, step_times(series), sorted(mine)) if mine else []
        shown |= {mine[at] for at in chosen}
    return shown


class _Divided:
    """One thread's times by step and label.

    Attributes:
        step, label: of each sum; a label is its position among `layers.numbers`.
        sums: own, forward, validation, backward, recompute and GPU time, and calls.
        recorded: positions of the steps of which at least half was recorded in detail.
    """

    def __init__(
        self,
        thread: ThreadRow,
        layers: Layers,
        stamped: Stamped,
        on_gpus: Sequence[tuple[Layers, Spans]] = (),
    ) -> None:
        self.layers, self.steps = layers, stamped.steps
        spans = stamped.spans[thread]
        row_of = _row_of(layers)
        row = _whole([row_of[id] for id in spans.callpaths])
        above = _nearest(layers.parent, row)[row]
        number = _whole([layers.numbers[label] for label in layers.labels])
        stored = spans.step, spans.path, spans.time_ns, spans.calls
        step, path, time, calls = map(_whole, stored)
        here, around = number[row][path], above[path]
        inner = around >= 0
        passes = _whole(layers.passes)
        masks = (mask[row][path] for mask in self._counts(number))
        counted, forward, evaluated, again = masks
        back, back_inner = passes[row][path] > 0, inner & (passes[around] > 0)
        inside, inside_of = self._around(here[back])
        less, less_of = self._around(number[around][back_inner])
        rest_of, rest = self._rest(thread, stamped, step[~inner], time[~inner])
        nowhere = np.full(len(rest), layers.numbers.setdefault(NO_LAYER, len(layers.numbers)))
        parts = [
            (_OWN, step, here, time),
            (_OWN, step[inner], number[around][inner], -time[inner]),
            (_OWN, rest_of, nowhere, rest),
            (_FORWARD, step[forward], here[forward], time[forward]),
            (_VALIDATION, step[evaluated], here[evaluated], time[evaluated]),
            (_RECOMPUTE, step[again], here[again], time[again]),
            (_BACKWARD, step[back][inside_of], inside, time[back][inside_of]),
            (_BACKWARD, step[back_inner][less_of], less, -time[back_inner][less_of]),
            (_CALLS, step[counted], here[counted], calls[counted]),
            *((_GPU, *self._on_gpu(*on_gpu)) for on_gpu in on_gpus),
        ]
        self._add(parts, len(layers.numbers))
        self.recorded = self._in_detail(row, step, path, time) - stamped.unknown

    def _counts(self, number: _Numbers) -> list[_Mask]:
        """Which rows are calls, and the outermost ones of their label forward, in validations and
        again."""
        layers = self.layers
        masks: list[_Mask] = [_whole(layers.counted) > 0]
        for meant in (_whole(rows) > 0 for rows in (layers.first, layers.evaluated, layers.again)):
            of_layers = _whole([is_of_layers(label) for label in layers.labels]) > 0
            keys = np.where(meant & of_layers, number, -1)
            masks.append(np.zeros(len(number), bool))
            masks[-1][_whole(outermost(layers.parent, keys.tolist()))] = True
        return masks

    def _around(self, inner: _Numbers) -> tuple[_Numbers, _Numbers]:
        """For each label, those of the layers around it and itself; and its position."""
        layers = self.layers
        around: list[list[int]] = [[] for _ in layers.numbers]
        for outer, within in layers.within.items():
            for label in within if is_of_layers(outer) else ():
                around[layers.numbers[label]].append(layers.numbers[outer])
        return _spread(around, inner)

    def _on_gpu(self, layers: Layers, spans: Spans) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Step, label and time of work on a GPU: it counts for all layers around its launch, or, if
        there is none, for its phase."""
        numbers = self.layers.numbers
        around: list[list[int]] = [[] for _ in spans.callpaths]
        row_of = _row_of(layers)
        for path in {*spans.path}:
            row = row_of[spans.callpaths[path]]
            own, above = layers.labels[row], row
            mine = {own}
            while is_of_layers(own) and (above := layers.parent[above]) >= 0:
                mine.add(layers.labels[above])
            around[path] = [
                numbers[label]
                for label in mine
                if label in numbers and (label == own or is_of_layers(label))
            ]
        label, of = _spread(around, _whole(spans.path))
        return _whole(spans.step)[of], label, _whole(spans.time_ns)[of]

    def _rest(
        self, thread: ThreadRow, stamped: Stamped, step: _Numbers, time: _Numbers
    ) -> tuple[_Numbers, _Numbers]:
        """What is left of the thread's own steps."""
        own = _whole([row for row, mine in enumerate(self.steps) if mine.thread == thread])
        left = _whole([row.end_ns - row.begin_ns for row in self.steps])
        inside = step != NO_STEP
        np.subtract.at(left, step[inside], time[inside])
        return own, left[own]

    def _add(self, parts: Sequence[tuple[int, _Numbers, _Numbers, _Numbers]], labels: int) -> None:
        keys = np.concatenate([(step + 1) * labels + label for _, step, label, _ in parts])
        distinct, place = np.unique(keys, return_inverse=True)
        self.sums = np.zeros((7, len(distinct)), "i8")
        first = 0
        for column, step, _, amount in parts:
            np.add.at(self.sums[column], place[first : first + len(step)], amount)
            first += len(step)
        self.step, self.label = distinct // labels - 1, distinct % labels

    def _in_detail(
        self, row: _Numbers, step: _Numbers, path: _Numbers, time: _Numbers
    ) -> set[int]:  # fmt: skip
        """The steps on this thread that are not mostly outside of a window of steps."""
        timers = self.layers.table.row_labels("timer")
        brief = _whole([BRIEF in timers[place].groups.split("|") for place in row]) > 0
        chosen = brief[path] & (step != NO_STEP)
        spent = np.zeros(len(self.steps), "i8")
        np.add.at(spent, step[chosen], time[chosen])
        return {
            at
            for at in {*self.step.tolist()} - {NO_STEP}
            if 2 * spent[at] <= self.steps[at].end_ns - self.steps[at].begin_ns
        }


def _row_of(layers: Layers) -> dict[int, int]:
    """The row of each call path."""
    return {id: row for row, id in enumerate(layers.table.row_labels("callpath"))}


def _spread(lists: Sequence[Sequence[int]], which: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The members of these lists, one after the other; and the positions in `which`."""
    many = _whole([len(members) for members in lists])
    flat = _whole([member for members in lists for member in members])
    first = many.cumsum() - many
    of = np.repeat(np.arange(len(which)), many[which])
    begins = many[which].cumsum() - many[which]
    return flat[first[which][of] + np.arange(len(of)) - begins[of]], of


def _nearest(parent: Sequence[int], rows: _Numbers) -> _Numbers:
    """For each row of a tree, the nearest one of these rows above it; -1 for none."""
    chosen, above = {*rows.tolist()}, [-1] * len(parent)
    for row in callers_first(parent):
        if (around := parent[row]) >= 0:
            above[row] = around if around in chosen else above[around]
    return _whole(above)


def _view(
    thread: ThreadRow, divided: _Divided, shown: set[int], tree: bool, limit: int | None
) -> View:
    labels, types = [*divided.layers.numbers], divided.layers.types
    depth = divided.layers.nested() if tree else {}
    order = {label: at for at, label in enumerate(depth)}
    by_step: dict[int, list[int]] = {}
    seen = np.isin(divided.step, [*shown, NO_STEP]) & divided.sums.any(axis=0)
    for at in np.flatnonzero(seen).tolist():
        by_step.setdefault(int(divided.step[at]), []).append(at)
    steps = divided.steps
    in_time = sorted(
        by_step, key=lambda row: (row == NO_STEP, steps[row].begin_ns if row != NO_STEP else 0)
    )
    rows: list[tuple[Cell, ...]] = []
    own = divided.sums[_OWN]
    for step in in_time:
        of_step = by_step[step]
        of_step.sort(key=lambda at: order.get(labels[divided.label[at]], -own[at]))
        whole = sum(int(own[at]) for at in of_step)
        for at in of_step[:limit]:
            label = labels[divided.label[at]]
            rows.append(
                (
                    *(thread.node, thread.thread, *_place(steps, step)),
                    100 * int(own[at]) / whole if whole else None,
                    *_times(divided.sums[:, at].tolist(), label, types.get(label)),
                    "  " * depth.get(label, 0) + label,
                )
            )
    hidden = len(divided.recorded - shown)
    notes = _notes([steps[row] for row in in_time if row != NO_STEP], hidden, limit)
    has_gpus = divided.sums[_GPU].any()
    view = View(f"LAYERS BY STEP OF {thread_title(thread)}", _COLUMNS, rows, notes)
    return view.only(lambda column, _: bool(has_gpus) or column.name != "gpu_ns")


def _notes(steps: Sequence[Step], hidden: int, limit: int | None) -> list[str]:
    notes = [_FROM]
    if hidden:
        notes.append(f"{len(steps)} of {len(steps) + hidden} rows of steps shown")
    if limit is not None:
        notes.append(f"at most {several(limit, 'layer')} of each step; --all shows all")
    if (most := max((step.steps for step in steps), default=1)) > 1:
        notes.append(f"a row covers up to {most} steps, with what ran between them")
    return notes


def _place(steps: Sequence[Step], row: int) -> tuple[Cell, ...]:
    if row == NO_STEP:
        return None, None, None, _OUTSIDE
    step = steps[row]
    return step.kind, step.number, step.steps, step.name


def _times(sums: Sequence[int], label: str, kind: str | None) -> tuple[Cell, ...]:
    """The times of one step and label, its calls and its class."""
    own, forward, *others, gpu, calls = sums
    if not is_of_layers(label):
        return own, *[None] * 4, gpu or None, None, None
    return own, forward, *(other or None for other in others), gpu or None, calls, kind


def _whole(values: Any) -> _Numbers:
    return np.array(values, "i8")
