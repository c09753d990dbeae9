"""What a trace has stamped, divided by step."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow

NO_STEP = -1
"""In place of a step's position: outside of all steps."""


class Step(NamedTuple):
    """A row of steps, and how long what happens belongs to it [ns since the epoch].

    Attributes:
        steps: that the row stands for.
        series, at: positions of its series among the trial's, and of its row in that.
    """

    thread: ThreadRow
    kind: str
    number: int
    steps: int
    begin_ns: int
    end_ns: int
    series: int
    at: int

    @property
    def name(self) -> str:
        return step_name(self.kind, self.number, self.steps)


def step_name(kind: str, number: int, count: int) -> str:
    """`12`, `validation 3`; `9-12` for a row of four steps."""
    place = str(number) if count == 1 else f"{number}-{number + count - 1}"
    return place if kind == "training" else f"{kind} {place}"


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one thread, summed by step and call path.

    Attributes:
        callpaths: their ids.
        step: positions among the trial's steps, or `NO_STEP`.
        path: positions among `callpaths`.
        time_ns, calls: of each step and call path; a call counts in the step with its middle.
    """

    callpaths: Sequence[int]
    step: array[int]
    path: array[int]
    time_ns: array[int]
    calls: array[int]


@dataclass(frozen=True, slots=True)
class Stamped:
    """The spans of a trial.

    Attributes:
        series: the steps of each thread.
        steps: all of their rows.
        spans: by host thread; empty if none were recorded.
        streams: by stream of a GPU: its work, in the step that launched it.
        unknown: positions of steps during which the trace was already full, or became so.
        notes: on what is missing.
    """

    series: Sequence[tuple[ThreadRow, Steps]]
    steps: Sequence[Step]
    spans: dict[ThreadRow, Spans]
    unknown: frozenset[int] = frozenset()
    notes: Sequence[str] = field(default_factory=list)
    streams: dict[ThreadRow, Spans] = field(default_factory=dict)
