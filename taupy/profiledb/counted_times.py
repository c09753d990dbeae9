"""Times of a program that counted its operations (`taupy.count`), less what counting took.

The helpers of `taupy.count` stand between a routine and its operations: `a @ b` runs inside
`binary`. The time of those that only pass on belongs to the routine; the time of those that
note something, with all beneath them, belongs to nobody. What is left is about that of a
plain run; a call of a helper itself costs some 0.1 us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from taupy.profiledb.database import ProfileDB

_PATHS = """
    SELECT value.thread_id, value.callpath_id, callpath.parent_id, callpath.timer_id,
           value.exclusive
      FROM interval_value AS value
      CROSS JOIN callpath ON callpath.id = value.callpath_id
      CROSS JOIN thread ON thread.id = value.thread_id AND thread.kind = 'host'
     WHERE value.trial_id = ? AND value.metric_id = ?
     ORDER BY value.thread_id, callpath.depth
"""

HELPERS = re.compile(r"[{/\\]taupy[/\\]count(_torch)?\.py}")
"""In the name of a routine of `taupy.count`: its file."""

_PASSES_ON = re.compile(
    r"(binary|in_place|in_place_item|in_place_attribute|call|main|<module>"
    r"|_Loader\.exec_module|_watch_torch\.<locals>\.exec_module"
    r"|watch\.<locals>\.Counting\.__torch_dispatch__) \["
)
# PyTorch puts these around a dispatch mode; without counting they would not run.
WRAPPERS = re.compile(
    r"[{/\\](_compile\.py|_dynamo[/\\]eval_frame\.py|utils[/\\]_python_dispatch\.py)}"
)
_DISPATCH = "Counting.__torch_dispatch__ ["
# What runs the operator that was dispatched; its time is the operator's, however deep.
_OPERATORS = re.compile(r"[{/\\]torch[/\\]_ops\.py}")


class _Kind:
    PROGRAM, PASSES_ON, DISPATCH, NOTES, WRAPS, RUNS = range(6)


def _kind(name: str) -> int:
    if not HELPERS.search(name):
        if "torch" in name and WRAPPERS.search(name):
            return _Kind.WRAPS
        return _Kind.RUNS if _OPERATORS.search(name) else _Kind.PROGRAM
    if _DISPATCH in name:
        return _Kind.DISPATCH
    return _Kind.PASSES_ON if _PASSES_ON.match(name) else _Kind.NOTES


def counted_times(
    db: ProfileDB, trial_id: int, time_metric: int, names: Mapping[int, str]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Thread id and timer id -> inclusive and exclusive nanoseconds of the program's own.

    Args:
        time_metric: id of the metric `time`.
        names: full name of each timer, by its id.
    """
    kinds = {timer: _kind(name) for timer, name in names.items()}
    found: dict[tuple[int, int], tuple[float, float]] = {}
    thread_rows: list[tuple[int, int | None, int, float]] = []
    thread = None
    for here, callpath, parent, timer, value in db.stream(_PATHS, (trial_id, time_metric)):
        if here != thread:
            if thread is not None:
                _add_thread(found, thread, thread_rows, kinds)
            thread, thread_rows = here, []
        thread_rows.append((callpath, parent, timer, float(value or 0)))
    if thread is not None:
        _add_thread(found, thread, thread_rows, kinds)
    return found


def _add_thread(
    found: dict[tuple[int, int], tuple[float, float]],
    thread: int,
    rows: list[tuple[int, int | None, int, float]],
    kinds: Mapping[int, int],
) -> None:
    """One thread's call paths, parents before their children."""
    place = {row[0]: number for number, row in enumerate(rows)}
    owner = [-1] * len(rows)  # the row that a row's time belongs to; -1: nobody's
    above = [-1] * len(rows)  # the next row above that is the program's own
    own = [0.0] * len(rows)
    for number, (_, parent_id, timer, value) in enumerate(rows):
        parent = -1 if parent_id is None else place.get(parent_id, -1)
        kind = kinds.get(timer, _Kind.PROGRAM)
        if parent >= 0:
            noting = kinds.get(rows[parent][2]) == _Kind.DISPATCH
            if owner[parent] < 0 or (noting and kind != _Kind.RUNS):
                continue  # beneath what notes
            if kind == _Kind.RUNS and not noting:
                kind = _Kind.PROGRAM
            if kind == _Kind.NOTES:
                continue
            above[number] = owner[parent]
        if kind == _Kind.PROGRAM or parent < 0:
            owner[number] = number
        else:
            owner[number] = owner[parent]
        if kind != _Kind.WRAPS:
            own[owner[number]] += value
    whole = own[:]
    for number in range(len(rows) - 1, -1, -1):
        if owner[number] == number and above[number] >= 0:
            whole[above[number]] += whole[number]
    for number, (_, _, timer, _) in enumerate(rows):
        if owner[number] != number:
            continue
        inclusive, exclusive = found.get((thread, timer), (0.0, 0.0))
        outer = above[number]
        while outer >= 0 and rows[outer][2] != timer:
            outer = above[outer]
        if outer < 0:  # of recursion, the outermost activation's
            inclusive += whole[number]
        found[thread, timer] = (inclusive, exclusive + own[number])
