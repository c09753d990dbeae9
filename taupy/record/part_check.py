"""Check that a process can have measured the content of a part."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from taupy.errors import FormatError
from taupy.record.part_data import Part, PartThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.record.part_data import Column

LARGEST = (1 << 62) - 1


def check(part: Part) -> None:
    """Reject numbers that no process can have measured, which would break later computations.

    Raises:
        FormatError: there is such a number.
    """
    for thread in part.threads:
        rows = len(thread.routine)
        columns = [thread.calls, thread.resumes, thread.inclusive, *thread.counters]
        columns += thread.metrics.values()
        if not rows or any(len(column) != rows for column in (thread.parent, *columns)):
            raise FormatError(f"{part.name} is damaged: its columns differ in length")
        if isinstance(thread.routine, array):
            _check_rows(part, thread)
        elif columns[3:]:
            _check_counters(part, columns[3:])
        if not 0 <= thread.cpu_ns <= LARGEST:
            raise FormatError(f"{part.name} is damaged: an impossible CPU time")
        if any(not 0 < row < rows or not 0 <= at <= LARGEST for row, at in thread.open):
            raise FormatError(f"{part.name} is damaged: an impossible open call path")
        for sampled in thread.samples:
            values = (sampled.minimum, sampled.maximum, sampled.mean, sampled.sum_squares)
            if not 0 < sampled.count <= LARGEST or any(value != value for value in values):
                raise FormatError(f"{part.name} is damaged: an impossible user event")
            if sampled.row is not None and not 0 <= sampled.row < rows:
                raise FormatError(f"{part.name} is damaged: a user event without a call path")
    if part.threads and not isinstance(part.threads[0].routine, array):
        _check_trees(part)
    moments = (part.start_ns, part.end_ns, part.started_at * 1e9)
    if any(not 0 <= moment <= LARGEST for moment in moments):
        raise FormatError(f"{part.name} is damaged: an impossible time")
    if any(abs(routine.line) > LARGEST for routine in part.routines):
        raise FormatError(f"{part.name} is damaged: an impossible line")


_COUNTS = "impossible counts or times"
_ROUTINE = "a call path without a routine"
_PARENT = "a call path precedes its parent"


def _check_rows(part: Part, thread: PartThread) -> None:
    """Check a thread of a small part, which has no counters, as `_check_trees` does."""
    columns = (thread.calls, thread.resumes, thread.inclusive)
    if min(*thread.calls, *thread.resumes) < 0 or any(
        min(column) < -LARGEST or abs(float(sum(column))) > float(LARGEST) for column in columns
    ):
        raise FormatError(f"{part.name} is damaged: {_COUNTS}")
    if not -1 <= min(thread.routine) <= max(thread.routine) < len(part.routines):
        raise FormatError(f"{part.name} is damaged: {_ROUTINE}")
    parent = thread.parent
    if parent[0] != -1 or any(not 0 <= above < row for row, above in enumerate(parent) if row):
        raise FormatError(f"{part.name} is damaged: {_PARENT}")


def _check_counters(part: Part, columns: list[Column]) -> None:
    if any(_are_impossible(column, [0]) for column in columns):
        raise FormatError(f"{part.name} is damaged: {_COUNTS}")


def _check_trees(part: Part) -> None:
    """Check the call paths of all threads in one go: there may be thousands of small ones."""
    import numpy as np

    threads = part.threads
    sizes = np.array([len(thread.routine) for thread in threads])
    first = np.cumsum(sizes) - sizes
    calls, resumes, inclusive, routine, parent = (
        np.concatenate([getattr(thread, name) for thread in threads])
        for name in ("calls", "resumes", "inclusive", "routine", "parent")
    )
    if min(calls.min(), resumes.min()) < 0 or any(
        _are_impossible(column, first) for column in (calls, resumes, inclusive)
    ):
        raise FormatError(f"{part.name} is damaged: {_COUNTS}")
    if not -1 <= routine.min() <= routine.max() < len(part.routines):
        raise FormatError(f"{part.name} is damaged: {_ROUTINE}")
    row = np.arange(len(parent)) - np.repeat(first, sizes)
    if (parent[first] != -1).any() or ((parent < 0) != (row == 0)).any() or (parent >= row).any():
        raise FormatError(f"{part.name} is damaged: {_PARENT}")


def _are_impossible(column: Column, first: Sequence[int]) -> bool:
    """Whether numbers, or their sum over a thread, which is stored as well, do not fit.

    Times slightly below 0 are no reason to reject a whole profile: the plain engine produced them
    when a signal handler, a fork or a greenlet's switch came between two readings.

    Args:
        first: the first row of each thread.
    """
    import numpy as np

    sums = np.add.reduceat(column, first, dtype=float)
    return bool(column.min() < -LARGEST or (np.abs(sums) > LARGEST).any())
