"""What a trace has stamped, divided by step: spans of layers and phases on host threads.

A span belongs to the steps in which it lies, and is cut where a step ends. Steps are those of the
thread itself; a thread without steps, such as autograd's, has those of its process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import NO_STEP, Spans, Stamped, Step
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.steps import read_steps

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_CHUNK = 200_000
"""Activities in memory at a time."""

_SPANS = """
    SELECT activity.callpath_id, activity.start_ns, activity.end_ns
      FROM activity
     WHERE activity.trial_id = ? AND activity.thread_id = ? AND activity.kind = 'range'
       AND activity.start_ns > 0 AND activity.end_ns >= activity.start_ns
     ORDER BY activity.start_ns
"""

_STAMPED = """
    SELECT thread.id, max(activity.start_ns)
      FROM activity JOIN thread ON thread.id = activity.thread_id
     WHERE activity.trial_id = ? AND activity.kind = 'range' AND thread.kind = 'host'
     GROUP BY thread.id ORDER BY thread.id
"""

_CUT = """
    SELECT metadata.name, metadata.node, metadata.value FROM metadata
     WHERE metadata.trial_id = ? AND metadata.name LIKE 'taupy.health.trace%'
     ORDER BY metadata.name, metadata.node
"""


@dataclass(frozen=True, slots=True)
class StepRows:
    """Steps in order of time, of which no two overlap.

    Attributes:
        begin, end: ns since the epoch.
        row: positions among the trial's steps.
    """

    begin: Numbers
    end: Numbers
    row: Numbers

    def at(self, moments: Numbers) -> Numbers:
        """The step of each moment, or `NO_STEP`."""
        if not len(self.begin):
            return np.full(len(moments), NO_STEP)
        place = self.begin.searchsorted(moments, "right") - 1
        inside = (place >= 0) & (moments < self.end[place])
        return np.where(inside, self.row[place], NO_STEP)

    def pieces(self, start: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The spans cut into steps: each piece's span, step and length [ns]; the part of a span
        outside of steps is a piece, too."""
        first = self.end.searchsorted(start, "right")
        many = np.maximum(self.begin.searchsorted(end, "left") - first, 0)
        span = np.repeat(np.arange(len(start)), many)
        place = np.arange(len(span)) - np.repeat(many.cumsum() - many, many) + first[span]
        length = np.minimum(end[span], self.end[place]) - np.maximum(start[span], self.begin[place])
        left = end - start
        np.subtract.at(left, span, length)
        rest = np.flatnonzero(left)
        return (
            np.concatenate([span, rest]),
            np.concatenate([self.row[place], np.full(len(rest), NO_STEP)]),
            np.concatenate([length, left[rest]]),
        )


@dataclass(slots=True)
class TrialSteps:
    """The steps of a trial.

    Attributes:
        rows: of all threads.
        unclear: nodes on several of whose threads there were steps at the same time: what a
            thread without steps did there belongs to no known step.
    """

    rows: list[Step] = field(default_factory=list)
    series: list[tuple[ThreadRow, Steps]] = field(default_factory=list)
    unclear: set[int] = field(default_factory=set)
    _of_thread: dict[ThreadRow, StepRows] = field(default_factory=dict)
    _of_node: dict[int, StepRows] = field(default_factory=dict)

    @classmethod
    def of(cls, db: ProfileDB, trial: int) -> TrialSteps:
        threads = threads_by_id(db, trial)
        steps = cls(series=[(threads[id], series) for id, series in read_steps(db, trial)])
        for thread in dict.fromkeys(thread for thread, _ in steps.series):
            steps._add(thread)
        for node in {thread.node for thread in steps._of_thread}:
            mine = [rows for thread, rows in steps._of_thread.items() if thread.node == node]
            steps._of_node[node] = together = _joined(mine)
            if (together.end[:-1] > together.begin[1:]).any():
                steps.unclear.add(node)
        return steps

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, thread: ThreadRow) -> bool:
        """Whether the thread has steps of its own."""
        return thread in self._of_thread

    def on(self, thread: ThreadRow) -> StepRows:
        """The steps to which a thread's activities may belong."""
        if thread in self._of_thread:
            return self._of_thread[thread]
        none = _joined([])
        return none if thread.node in self.unclear else self._of_node.get(thread.node, none)

    def notes(self) -> list[str]:
        """On activities whose step cannot be told."""
        return [
            f"node {node} had several trainings at once: what its other threads did has no step"
            for node in sorted(self.unclear)
        ]

    def _add(self, thread: ThreadRow) -> None:
        first = len(self.rows)
        rows = sorted(
            (series.start_ns[at], place, at)
            for place, (of, series) in enumerate(self.series)
            if of == thread
            for at in range(len(series))
        )
        begins = [begin for begin, _, _ in rows]
        for (begin, place, at), after in zip(rows, [*begins[1:], None], strict=True):
            series = self.series[place][1]
            end = begin + series.time_ns[at]
            if after is not None:
                # Steps in one row may have pauses between them, of which only the sum is known.
                end = after if series.count[at] > 1 else min(end, after)
            self.rows.append(
                Step(
                    thread, series.kind, series.number[at], series.count[at], begin, end, place, at
                )
            )
        ends = [step.end_ns for step in self.rows[first:]]
        numbers = np.arange(first, len(self.rows))
        self._of_thread[thread] = StepRows(_whole(begins), _whole(ends), numbers)


@of_a_sound_file
def stamped(db: ProfileDB, trial: int) -> Stamped:
    """The spans of layers and phases, by step; `taupy run --trace=host` records them."""
    threads, steps = threads_by_id(db, trial), TrialSteps.of(db, trial)
    last = dict(db.rows(_STAMPED, (trial,)))
    spans = {
        threads[id]: _summed(db.stream(_SPANS, (trial, id)), steps.on(threads[id])) for id in last
    }
    seen: dict[int, int] = {}
    for id, start in last.items():
        node = threads[id].node
        seen[node] = max(seen.get(node, 0), start)
    unknown, notes = _cut_off(db, trial, steps, seen)
    return Stamped(steps.series, steps.rows, spans, unknown, notes + steps.notes())


def _cut_off(
    db: ProfileDB, trial: int, steps: TrialSteps, seen: dict[int, int]
) -> tuple[frozenset[int], list[str]]:
    """Steps that end after a full trace's last span began, and why: later spans may be missing."""
    unknown: set[int] = set()
    notes = []
    for name, _, why in db.rows(_CUT, (trial,)):
        _, _, of = name.rpartition(".node")
        nodes = {int(of)} & seen.keys() if of.isdigit() else seen.keys()
        lost = [
            row
            for row, step in enumerate(steps.rows)
            if step.thread.node in nodes and step.end_ns > seen[step.thread.node]
        ]
        unknown.update(lost)
        if lost:
            notes.append(f"steps from {steps.rows[lost[0]].name} on are not known: {why}")
    return frozenset(unknown), notes


def columns(rows: Iterator[Any], width: int) -> Iterator[Numbers]:
    """The columns of a query's rows of whole numbers, so many rows at a time."""
    while chunk := list(islice(rows, _CHUNK)):
        yield _whole(chunk).reshape(-1, width).T


def _summed(rows: Iterator[Any], steps: StepRows) -> Spans:
    numbers: dict[int, int] = {}
    sums: list[Numbers] = []
    for callpath, start, end in columns(rows, 3):
        ids, path = np.unique(callpath, return_inverse=True)
        path = _whole([numbers.setdefault(id, len(numbers)) for id in ids.tolist()])[path]
        span, step, length = steps.pieces(start, end)
        of_calls = steps.at((start + end) // 2)
        sums.append(
            _added(
                np.concatenate([step, of_calls]),
                np.concatenate([path[span], path]),
                np.concatenate([length, np.zeros(len(path), "i8")]),
                np.concatenate([np.zeros(len(span), "i8"), np.ones(len(path), "i8")]),
            )
        )
        if sum(part.shape[1] for part in sums) > 8 * _CHUNK:
            sums = [_added(*np.concatenate(sums, axis=1))]
    whole = _added(*np.concatenate(sums, axis=1)) if sums else _whole([[]] * 4)
    return Spans(list(numbers), *(array("q", column.tobytes()) for column in whole))


def _added(step: Numbers, path: Numbers, *amounts: Numbers) -> Numbers:
    """The amounts of each step and path, in their order, with both before them."""
    keys, place = np.unique((step << 32) + path, return_inverse=True)
    summed = np.zeros((len(amounts), len(keys)), "i8")
    for row, amount in zip(summed, amounts, strict=True):
        np.add.at(row, place, amount)
    return np.concatenate([[keys >> 32, keys & 0xFFFFFFFF], summed])


def _joined(parts: Sequence[StepRows]) -> StepRows:
    begin, end, row = (
        np.concatenate([_whole([]), *(getattr(part, name) for part in parts)])
        for name in ("begin", "end", "row")
    )
    order = begin.argsort(kind="stable")
    return StepRows(begin[order], end[order], row[order])


def _whole(values: Any) -> Numbers:
    return np.array(values, "i8")
