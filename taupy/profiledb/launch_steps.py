"""Work on GPUs divided by step: each launch that a trace has stamped, in the step of its API call.

A kernel may run long after the step that launched it. Where the call was not recorded, the start on
the GPU decides.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from taupy.errors import UsageError
from taupy.model.gpu import UNCONFIGURED
from taupy.model.question import LAUNCHES, Question
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import NO_STEP, Spans, Stamped
from taupy.model.table import Amount, Column, Table, merged
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.measures import column
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.stamped import Numbers, TrialSteps, columns
from taupy.profiledb.values import values

_CALLS = """
    SELECT activity.correlation, activity.start_ns
      FROM activity
     WHERE activity.trial_id = ? AND activity.thread_id = ? AND activity.kind IN ('api', 'sync')
       AND activity.correlation IS NOT NULL AND activity.start_ns > 0
"""

_WORK = """
    SELECT activity.callpath_id, activity.start_ns, activity.end_ns,
           coalesce(activity.correlation, -1), coalesce(activity.bytes, -1)
      FROM activity
     WHERE activity.trial_id = ? AND activity.thread_id = ?
       AND activity.kind IN ('kernel', 'copy', 'memset')
     ORDER BY activity.start_ns
"""

NOT_STAMPED = "(not in the trace)"
"""In place of a step: launches of which only the sums over the run are known."""

_PLACE = ("device", "thread", "timer", "callpath", "parent")
_COLUMNS = [column(value) for value in LAUNCHES]


@dataclass(slots=True)
class _Rows:
    """Sums of launches by place, which is a row of the sums over the run, and step."""

    place: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    sums: dict[str, list[Amount]] = field(default_factory=lambda: {name: [] for name in LAUNCHES})
    by_start: int = 0

    def extend(self, place: list[int], step: list[int], sums: dict[str, Any]) -> None:
        self.place += place
        self.step += step
        for name in LAUNCHES:
            self.sums[name] += sums.get(name, [None] * len(place))


def launches(db: ProfileDB, trial: int) -> tuple[Table, list[str]]:
    """The launches by `_PLACE`, `configuration`, which is not known, and `step`, in order of time;
    and notes.

    Raises:
        UsageError: the trial has no steps, or no single launches.
    """
    steps = TrialSteps.of(db, trial)
    if not len(steps):
        raise UsageError(f"trial {trial} has no steps: see docs/steps.md")
    run = values(db, Question((trial,), (), _PLACE, values=LAUNCHES))
    rows = _rows(db, trial, steps, run)
    stamped = sum(int(count or 0) for count in rows.sums["launch.count"])
    if len(run) and not stamped:
        raise UsageError(
            f"trial {trial} has sums of its launches, not single ones: `taupy run --trace=gpu` "
            "records them, `taupy import FILE` keeps those of a file"
        )
    missing = _missing(run, rows)
    notes = _notes(stamped, missing, rows.by_start) + steps.notes()
    return _table(run, rows, steps), notes


@of_a_sound_file
def with_streams(db: ProfileDB, trial: int, stamped: Stamped) -> Stamped:
    """The same, with what ran on GPUs, if the trace has it."""
    steps = TrialSteps.of(db, trial)
    run = values(db, Question((trial,), (), _PLACE, values=LAUNCHES))
    rows = _rows(db, trial, steps, run)
    callpaths, streams = run.row_labels("callpath"), run.row_labels("thread")
    numbers: list[tuple[int, ...]] = [
        (step, place, int(time or 0), int(count or 0))
        for step, place, time, count in zip(
            rows.step, rows.place, rows.sums["launch.time"], rows.sums["launch.count"], strict=True
        )
    ]
    by_stream: dict[ThreadRow, list[tuple[int, ...]]] = {}
    for row in numbers:
        by_stream.setdefault(streams[row[1]], []).append(row)
    spans = {
        stream: Spans(callpaths, *(array("q", column) for column in zip(*mine, strict=True)))
        for stream, mine in by_stream.items()
    }
    if not spans:
        return stamped
    notes = _notes(sum(count for *_, count in numbers), _missing(run, rows), rows.by_start)
    return replace(stamped, streams=spans, notes=[*stamped.notes, *notes])


def _rows(db: ProfileDB, trial: int, steps: TrialSteps, run: Table) -> _Rows:
    """The launches in the trace; `run` has the sums over the run."""
    threads, rows = threads_by_id(db, trial), _Rows()
    places: dict[ThreadRow, dict[int, int]] = {}
    labels = zip(run.row_labels("thread"), run.row_labels("callpath"), strict=True)
    for place, (thread, callpath) in enumerate(labels):
        places.setdefault(thread, {})[callpath] = place
    calls = _calls(db, trial, steps, threads) if places else {}
    for id, thread in threads.items():
        if thread in places:
            mine = calls.get(thread.node, _NO_CALLS)
            stream = _Stream(places[thread], steps, thread, mine)
            for chunk in columns(db.stream(_WORK, (trial, id)), 5):
                stream.add(chunk, rows)
    return rows


class _Calls(NamedTuple):
    """API calls sorted by their correlation ids, and the steps in which they were made."""

    correlation: Numbers
    step: Numbers

    def of(self, correlation: Numbers) -> tuple[Numbers, Any]:
        """The steps of these calls, and which of them are known."""
        if not len(self.correlation):
            return np.full(len(correlation), NO_STEP), np.zeros(len(correlation), bool)
        at = np.minimum(self.correlation.searchsorted(correlation), len(self.correlation) - 1)
        return self.step[at], self.correlation[at] == correlation


_NO_CALLS = _Calls(np.zeros(0, "i8"), np.zeros(0, "i8"))


def _calls(
    db: ProfileDB, trial: int, steps: TrialSteps, threads: dict[int, ThreadRow]
) -> dict[int, _Calls]:  # fmt: skip
    """By node, because correlation ids are a process's."""
    parts_of: dict[int, list[Numbers]] = {}
    for id, thread in threads.items():
        if thread.kind == "host":
            mine = steps.on(thread)
            for correlation, start in columns(db.stream(_CALLS, (trial, id)), 2):
                calls = np.stack([correlation, mine.at(start)])
                parts_of.setdefault(thread.node, []).append(calls)
    by_node = {}
    for node, parts in parts_of.items():
        correlation, step = np.concatenate(parts, axis=1)
        order = correlation.argsort(kind="stable")
        by_node[node] = _Calls(correlation[order], step[order])
    return by_node


@dataclass(frozen=True, slots=True)
class _Stream:
    """One stream: the places of its call paths, and whose steps its work may belong to."""

    places: dict[int, int]
    steps: TrialSteps
    thread: ThreadRow
    calls: _Calls

    def add(self, work: Numbers, rows: _Rows) -> None:
        callpath, start, end, correlation, moved = work
        step, has_call = self.calls.of(correlation)
        step = np.where(has_call, step, self.steps.on(self.thread).at(start))
        rows.by_start += int((~has_call).sum())
        ids, path = np.unique(callpath, return_inverse=True)
        place = np.array([self.places[id] for id in ids.tolist()], "i8")[path]
        keys, group = np.unique(((step + 1) << 32) + place, return_inverse=True)
        timed = (start > 0) & (end >= start)
        time = np.where(timed, end - start, 0)
        sums = {
            "launch.count": np.bincount(group),
            "launch.untimed": np.bincount(group[~timed], minlength=len(keys)),
            "launch.time": _gathered(np.add, 0, group, time, len(keys)),
            "launch.squares": np.bincount(group, time.astype(float) ** 2),
        }
        listed: dict[str, list[Amount]] = {name: sum.tolist() for name, sum in sums.items()}
        for name, how, initial, amount, has_amount in (
            ("launch.shortest", np.minimum, _LARGEST, time, timed),
            ("launch.longest", np.maximum, -1, time, timed),
            ("launch.bytes", np.add, 0, moved, moved >= 0),
        ):
            gathered = _gathered(how, initial, group[has_amount], amount[has_amount], len(keys))
            measured = np.bincount(group[has_amount], minlength=len(keys)) > 0
            pairs = zip(gathered.tolist(), measured.tolist(), strict=True)
            listed[name] = [number if is_known else None for number, is_known in pairs]
        rows.extend((keys & 0xFFFFFFFF).tolist(), ((keys >> 32) - 1).tolist(), listed)


_LARGEST = (1 << 62) - 1


def _gathered(how: Any, initial: int, group: Numbers, amount: Numbers, count: int) -> Numbers:
    sums = np.full(count, initial)
    how.at(sums, group, amount)
    return sums


def _missing(run: Table, rows: _Rows) -> int:
    """Add what the trace lacks of the sums over the run, and return the number of launches."""
    added = ("launch.count", "launch.untimed", "launch.time", "launch.squares")
    left = {name: [amount or 0 for amount in run.column(name)] for name in added}
    for at, place in enumerate(rows.place):
        for name, amounts in left.items():
            amounts[place] -= rows.sums[name][at] or 0
    lost = [place for place, number in enumerate(left["launch.count"]) if number > 0]
    sums = {name: [max(0, left[name][place]) for place in lost] for name in added}
    rows.extend(lost, [NO_STEP - 1] * len(lost), sums)
    return int(sum(sums["launch.count"]))


def _table(run: Table, rows: _Rows, steps: TrialSteps) -> Table:
    in_time = sorted(range(len(steps)), key=lambda row: steps.rows[row].begin_ns)
    names = [*dict.fromkeys(steps.rows[row].name for row in in_time), None, NOT_STAMPED]
    code_of = {name: code for code, name in enumerate(names)}
    codes = [code_of[step.name] for step in steps.rows] + [len(names) - 1, len(names) - 2]
    numbers: dict[Column, list[Amount]] = {name: rows.sums[name.value] for name in _COLUMNS}
    return merged(
        Table(
            {
                **{name: [run.codes[name][place] for place in rows.place] for name in _PLACE},
                "configuration": [0] * len(rows.place),
                "step": [codes[step] for step in rows.step],  # -1 and -2: the last two
            },
            {**{name: run.labels[name] for name in _PLACE}, "configuration": [UNCONFIGURED],
             "step": names},
            numbers,
            len(rows.place),
        )
    )  # fmt: skip


def _notes(stamped: int, missing: int, by_start: int) -> list[str]:
    notes = ["launches count in the step in which the host called for them"]
    if by_start:
        notes.append(
            f"launches whose calls were not recorded: {by_start} of {stamped}, which count in the "
            "step in which they started on the GPU"
        )
    if missing:
        notes.append(f"launches that are not in the trace, of unknown steps: {missing}")
    return notes
