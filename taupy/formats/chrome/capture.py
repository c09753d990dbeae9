"""The operators of CUDA graphs, from the trace of their capture.

All work of a graph has the id of the call that launched it, so a trace of replays names no
operators. While the graph was captured, each launch made a node instead of GPU work, below the
operators that asked for it. Nodes of one stream run in the order in which they were made. A model
may be captured in pieces, with what no graph can hold between them: each is a graph of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from taupy.errors import FormatError
from taupy.formats.chrome import values
from taupy.formats.json_events import Events
from taupy.model.profile import Timer
from taupy.model.progress import Progress
from taupy.network import operators

_MAKES_NODE: Final = re.compile(
    r"(?:cuda|cu|hip)\w*(?:Launch\w*Kernel|Memcpy\w*Async|Memset\w*Async)"
)
_ENDS_GRAPH: Final = re.compile(r"(?:cuda|cu|hip)StreamEndCapture")


class Node(NamedTuple):
    """A node of the graph: the operators around its launch, the outer one first; the name of the
    kernel, None if the trace does not tell."""

    operators: tuple[Timer, ...]
    kernel: str | None


@dataclass(frozen=True)
class Capture:
    """The graphs of a trace, each with its nodes, in the order in which they were made."""

    file: Path
    graphs: Sequence[Sequence[Node]]

    def refusal(self, launched: set[int]) -> FormatError:
        """Why no graph of the trace is the one that was captured.

        Args:
            launched: how many kernels and copies its launches of graphs ran.
        """
        if not launched:
            return FormatError(f"the trace has no work of a CUDA graph for {self.file} to explain")
        captured = {len(nodes) for nodes in self.graphs}
        several = "graphs of " if len(self.graphs) > 1 else ""
        return FormatError(
            f"{self.file} is not the capture of a graph in the trace: it made {several}"
            f"{_listed(captured)} nodes, and the graphs ran {_listed(launched)} kernels and copies"
            + (", in another order or with other names" if captured & launched else "")
        )


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:8]))


class _Call(NamedTuple):
    start: int
    end: int
    thread: tuple[Hashable, Hashable]
    correlation: int | None
    kernel: str | None


def captured(path: Path, progress: Progress) -> Capture:
    """Read the trace of a capture.

    Raises:
        FormatError: it is no trace, or nothing was captured in it.
    """
    calls: list[_Call] = []
    slices: dict[tuple[Hashable, Hashable], list[tuple[int, int, Timer]]] = {}
    ran: set[int | None] = set()
    ends: list[int] = []
    for event in Events(path, progress):
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        start, took = (values.nanoseconds(event.get(what, 0)) for what in ("ts", "dur"))
        if event.get("ph") != "X" or start is None or took is None:
            continue
        given = event.get("args")
        args = given if isinstance(given, dict) else {}
        thread = str(event.get("pid")), str(event.get("tid"))
        if values.device_work(category, name) is not None:
            ran.add(values.integer(args.get("correlation")))
        elif category in values.API_CATEGORIES and _MAKES_NODE.match(name):
            kernel = args.get("kernel")
            number = values.integer(args.get("correlation"))
            kernel = kernel if isinstance(kernel, str) and kernel else None
            calls.append(_Call(start, start + took, thread, number, kernel))
        elif category in values.API_CATEGORIES and _ENDS_GRAPH.match(name):
            ends.append(start)
        elif operators.GROUP in (timer := values.host_timer(name, category)).groups:
            slices.setdefault(thread, []).append((start, start + took, timer))
    calls.sort(key=lambda call: call.start)
    nodes = [call for call in calls if call.correlation not in ran]
    if not nodes:
        raise FormatError(f"{path} has no launches without GPU work: no graph was captured in it")
    for of_thread in slices.values():
        of_thread.sort(key=lambda entry: (entry[0], -entry[1]))
    around = {thread: _Around(of_thread) for thread, of_thread in slices.items()}
    ends.sort()
    captured = [
        (
            bisect_left(ends, call.start),
            Node(around[call.thread].at(call.start) if call.thread in around else (), call.kernel),
        )
        for call in nodes
    ]
    graphs = groupby(captured, key=lambda entry: entry[0])
    return Capture(path, [[node for _, node in of_graph] for _, of_graph in graphs])


class _Around:
    """The active operators of a thread at moments in ascending order."""

    def __init__(self, slices: list[tuple[int, int, Timer]]) -> None:
        self._slices = slices
        self._next = 0
        self._open: list[tuple[int, Timer]] = []

    def at(self, moment: int) -> tuple[Timer, ...]:
        while self._next < len(self._slices) and self._slices[self._next][0] <= moment:
            start, end, timer = self._slices[self._next]
            self._close(start)
            self._open.append((end, timer))
            self._next += 1
        self._close(moment)
        return tuple(timer for _, timer in self._open)

    def _close(self, moment: int) -> None:
        while self._open and self._open[-1][0] <= moment:
            self._open.pop()
