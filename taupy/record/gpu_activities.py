"""Single activities, with their start and end, read from a trace on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from taupy.model.gpu import Activity
from taupy.model.kinds import ActivityKind
from taupy.record.gpu_part import Trace


@dataclass(slots=True)
class Activities:
    """The activities of one thread, read from the trace file on demand."""

    trace: Trace
    slots: set[int]
    rows: dict[int, tuple[int, ActivityKind]]

    def __iter__(self) -> Iterator[Activity]:
        rows = self.rows
        for span in self.trace.spans(self.slots):
            place = rows.get(span.work)
            if place is not None:
                row, kind = place
                yield Activity(
                    row,
                    kind,
                    span.start,
                    span.end,
                    correlation=span.correlation,
                    bytes=span.bytes if kind in ("copy", "memset") else None,
                    graph_node=span.graph_node or None,
                )


@dataclass(frozen=True, slots=True)
class Together:
    """The activities of one thread from several sources, one after the other."""

    parts: tuple[Iterable[Activity], ...]

    def __iter__(self) -> Iterator[Activity]:
        return chain.from_iterable(self.parts)
