"""The activities of a traced trial at a few bytes each, for a page that draws them over time.

Each thread or stream is a lane. Activities nested in another of the same lane go one row lower, so
that no two in a row overlap (`static/timeline.js` reads this).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from taupy.escaping import visible
from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.profiledb.activities import ActivityRow
from taupy.report import planes
from taupy.report.forest import lane_names, shown_name

MOST = 300_000
"""Maximum number of activities on a page: about 2 MB."""

_COLORS = {
    "training": "c", "validation": "layer", "kernel": "gpu", "copy": "data", "memset": "data",
    "sync": "wait", "api": "lib", "call": "own", "range": "lib",
}  # fmt: skip

_STEP = {False: "step", True: "steps from"}

COLUMNS = ("gap", "length", "name")
"""`gap` is the time since the previous start in the same row of a lane, or since time 0 [ns];
`length` is the duration [ns]; `name` is a position among the names."""


@dataclass(slots=True)
class Timeline:
    """Activities over time.

    Attributes:
        columns: by the names of `COLUMNS`, one number per activity.
        names: name and kind of activities, each pair once.
        lanes: name, kind, and the number of activities in each row.
        end_ns: end of the last activity, from time 0.
        count: number of activities in the trial; the longest are shown.
        colors: name -> a color of `static/page.css`; of others, their kind tells it.
        is_capture: of another tool, or sampled: nothing more can be recorded.
    """

    columns: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in COLUMNS}
    )
    names: dict[tuple[str, str], int] = field(default_factory=dict)
    lanes: list[dict[str, Any]] = field(default_factory=list)
    end_ns: int = 0
    count: int = 0
    colors: dict[str, str] = field(default_factory=dict)
    is_capture: bool = False

    @property
    def has_host(self) -> bool:
        """Whether it tells what threads of the host did."""
        return any(kind in ("range", "call") for _, kind in self.names)

    def add_steps(self, thread: ThreadRow, steps: Steps, begun_ns: int) -> None:
        """Add a lane with the steps of a training, or of validation."""
        rows = range(len(steps))
        boxes = [
            ActivityRow(
                thread,
                f"{_STEP[steps.count[row] > 1]} {steps.number[row]}",
                steps.kind,
                steps.start_ns[row],
                steps.start_ns[row] + steps.time_ns[row],
            )
            for row in rows
            if steps.start_ns[row] >= begun_ns
        ]
        lane = {"name": visible(f"steps of {steps.kind}"), "kind": "steps"}
        self.lanes.append({**lane, "rows": [len(boxes)]})
        self._add_row(boxes, begun_ns)

    def add(self, activities: Iterable[ActivityRow], begun_ns: int) -> None:
        """Add activities, sorted by thread and start, outer ones first; `begun_ns` is time 0."""
        before, threads = len(self.lanes), []
        for thread, mine in groupby(activities, lambda activity: activity.thread):
            rows = list(_rows(mine))
            threads.append(thread)
            self.lanes.append({"kind": thread.kind, "rows": [len(row) for row in rows]})
            for row in rows:
                self._add_row(row, begun_ns)
        for lane, name in zip(self.lanes[before:], lane_names(threads), strict=True):
            lane["name"] = visible(name)

    def _add_row(self, row: list[ActivityRow], before: int) -> None:
        begun = before
        gap, length, name = (self.columns[column] for column in COLUMNS)
        for activity in row:
            gap.append(activity.start_ns - before)
            length.append(activity.end_ns - activity.start_ns)
            key = (visible(shown_name(activity.name)), activity.kind)
            name.append(self.names.setdefault(key, len(self.names)))
            before = activity.start_ns
            self.end_ns = max(self.end_ns, activity.end_ns - begun)

    def layout(self, widths: dict[str, int]) -> dict[str, Any]:
        """The description needed to read `packed`."""
        return {
            "count": len(self.columns["gap"]),
            "activities": sum(sum(lane["rows"]) for lane in self.lanes if lane["kind"] != "steps"),
            "of": self.count,
            "end": self.end_ns,
            "widths": widths,
            "names": [
                {"name": name, "kind": kind, "color": self.colors.get(name) or _COLORS.get(kind)}
                for name, kind in self.names
            ],
            "lanes": self.lanes,
            "isCapture": self.is_capture,
        }

    def packed(self) -> tuple[bytes, dict[str, int]]:
        """As `planes.packed`."""
        return planes.packed(self.columns)


def _rows(activities: Iterable[ActivityRow]) -> Iterator[list[ActivityRow]]:
    """The rows: each activity goes into the first row whose last activity has ended."""
    rows: list[list[ActivityRow]] = []
    for activity in activities:
        for row in rows:
            if row[-1].end_ns <= activity.start_ns:
                row.append(activity)
                break
        else:
            rows.append([activity])
    yield from rows
