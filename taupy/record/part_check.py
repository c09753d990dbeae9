"""Check that a process can have measured the content of a part."""

from __future__ import annotations

import numpy as np

from taupy.errors import FormatError
from taupy.record.part_data import (
    Part,
)

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
        # Sums over rows are stored, and must fit as well.
        # Times slightly below 0 are no reason to reject a whole profile: the plain engine produced
        # them when a signal handler, a fork or a greenlet's switch came between two readings.
        if min(thread.calls.min(), thread.resumes.min()) < 0 or any(
            column.min() < -LARGEST or abs(column.sum(dtype=float)) > LARGEST for column in columns
        ):
            raise FormatError(f"{part.name} is damaged: impossible counts or times")
        if not -1 <= thread.routine.min() <= thread.routine.max() < len(part.routines):
            raise FormatError(f"{part.name} is damaged: a call path without a routine")
        parent = thread.parent
        if parent[0] != -1 or (parent[1:] < 0).any() or (parent >= np.arange(rows)).any():
            raise FormatError(f"{part.name} is damaged: a call path precedes its parent")
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
    moments = (part.start_ns, part.end_ns, part.started_at * 1e9)
    if any(not 0 <= moment <= LARGEST for moment in moments):
        raise FormatError(f"{part.name} is damaged: an impossible time")
    if any(abs(routine.line) > LARGEST for routine in part.routines):
        raise FormatError(f"{part.name} is damaged: an impossible line")
