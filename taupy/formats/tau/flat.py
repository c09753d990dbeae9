"""A profile in TAU's terms: routines, call paths, events and metadata of each thread.

Used by `export.py`, including the list of what its files cannot hold.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass
from typing import Final

from taupy.escaping import visible
from taupy.formats import limits
from taupy.formats.capabilities import VALUES, Part
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.names import ARROW, CUT
from taupy.formats.tau.text import Event
from taupy.model.flat import flat_sums
from taupy.model.profile import CallTree, Metric, Profile, ThreadProfile, Timer


def size(text: str) -> int:
    """The number of bytes of a text, the larger of UTF-8 and Java's variant, which uses two bytes
    for NUL and six for characters beyond 16 bits."""
    if text.isascii():
        return len(text) + text.count("\0")
    plain = len(text.encode("utf-8", "surrogatepass"))
    return plain + text.count("\0") + 2 * sum(char > "\uffff" for char in text)


def metrics(profile: Profile) -> list[Metric]:
    """The metrics that some thread has."""
    return [
        metric
        for metric in profile.metrics
        if any(metric.name in thread.tree.inclusive for thread in profile.threads)
    ]


def added_up(profile: Profile) -> int:
    """How many threads of the profile have no rows of their own."""
    return sum(of.thread.count for of in profile.threads if of.thread.count > 1)


HOLDS: Final[frozenset[Part]] = VALUES | {"call paths", "user events", "metadata", "node metadata"}
"""The parts of a trial that TAU's files can hold."""


@dataclass(slots=True)
class Lost:
    """Counts of what is lost within the parts that TAU's files can hold."""

    names: int = 0
    paths: int = 0
    no_metric: int = 0
    added_up: int = 0

    def lines(self) -> list[str]:
        omissions = [
            (
                self.added_up,
                "threads that were added up; TAU has each sum of them as one thread",
            ),
            (
                self.names,
                "names with line breaks or control characters; they are written as escapes",
            ),
            (self.paths, "call paths too long for TAU's readers; their routines' sums are written"),
            (self.no_metric, "threads without any metric"),
        ]
        return [f"{count} {what}" for count, what in omissions if count]


class Flat:
    """A thread's rows in TAU's terms: which are routines, which are paths, and their names."""

    def __init__(
        self, tree: CallTree, timers: list[Timer], names: list[str], *, stream: bool
    ) -> None:
        self.tree = tree
        self.names = names
        self.groups = [visible(tau_names.tau_groups(timer.groups)) for timer in timers]
        self.stream = stream
        cuts = {
            n for n, timer in enumerate(timers) if timer.name == CUT.name and timer.file is None
        }
        self.cuts = {n for n in cuts if timers[n].groups == CUT.groups}
        self.below_cut = bytearray(len(tree))
        for row, above in enumerate(tree.parent):
            self.below_cut[row] = above >= 0 and (
                self.below_cut[above] or tree.timer[above] in self.cuts
            )
        # One routine may be several taupy timers, in different groups.
        self.routine = [names[timer] for timer in tree.timer]
        self.size = array("q")  # bytes of a row's path
        sizes = list(map(size, names))
        for row, above in enumerate(tree.parent):
            whole = above < 0 or tree.timer[above] in self.cuts
            self.size.append((0 if whole else self.size[above]) + sizes[tree.timer[row]] + 4)
        self.paths = [row for row in range(len(tree)) if self.is_path(row) and self.listed(row)]
        self.too_long = sum(self.size[row] > limits.TAU_PATH for row in self.paths)
        self.paths = [row for row in self.paths if self.size[row] <= limits.TAU_PATH]
        ids: dict[str, int] = {}
        numbers = [ids.setdefault(name, len(ids)) for name in self.routine]
        self._sums = flat_sums(tree, numbers)
        self._number_of = ids
        self._groups_of: dict[str, str] = {}  # of the routines that are listed
        for row, name in enumerate(self.routine):
            if self.listed(row):
                self._groups_of.setdefault(name, self.groups[tree.timer[row]])

    def routines(self, metric: str) -> dict[str, tuple[int, int, float, float, str]]:
        """Calls, subroutines, exclusive, inclusive and groups of routines that have the metric."""
        values: dict[str, tuple[int, int, float, float, str]] = {}
        for name, groups in self._groups_of.items():
            sums = self._sums[self._number_of[name]]
            own, whole = sums.exclusive.get(metric), sums.inclusive.get(metric)
            if own is not None or whole is not None:
                values[name] = sums.calls, sums.subroutines, own or 0, whole or 0, groups
        return values

    def is_empty(self, row: int) -> bool:
        tree = self.tree
        return not (tree.calls[row] or tree.subroutines[row]) and not any(
            column[row]
            for columns in (tree.inclusive, tree.exclusive)
            for column in columns.values()
        )

    def path(self, row: int) -> str | None:
        """The row's path as TAU writes it; None if it is too long.

        It begins below the last `(callers not recorded)`.
        """
        if self.size[row] > limits.TAU_PATH:
            return None
        tree = self.tree
        routines: list[str] = []
        while row >= 0 and tree.timer[row] not in self.cuts:
            routines.append(self.routine[row])
            row = tree.parent[row]
        return ARROW.join(reversed(routines))

    def listed(self, row: int) -> bool:
        """Whether the row has values of its own, and is not only a caller of others."""
        if self.tree.timer[row] in self.cuts:
            return False
        if self.stream:
            return self.tree.calls[row] > 0
        return not (self.below_cut[row] and self.is_empty(row))

    def is_path(self, row: int) -> bool:
        above = self.tree.parent[row]
        return above >= 0 and self.tree.timer[above] not in self.cuts


def events(measured: ThreadProfile, flat: Flat, lost: Lost) -> list[Event]:
    """Each event with all of its samples, then by call path, as TAU writes context events.

    If only some of an event's samples have a call path, the others are placed at the root.
    """
    totals: dict[str, Event] = {}
    contexts: dict[str, Event] = {}
    plain: dict[str, Event] = {}
    with_path: set[str] = set()
    for user_event in measured.user_events:
        name = one_line(tau_names.event_name(user_event.name, user_event.unit), lost)
        event = Event(
            name=name,
            count=user_event.count,
            maximum=user_event.maximum,
            minimum=user_event.minimum,
            mean=user_event.mean,
            sum_squares=user_event.sum_squares,
        )
        path = None if user_event.row is None else flat.path(user_event.row)
        _add(totals, event)
        if path is None:
            _add(plain, event)
        else:
            with_path.add(name)
            _add(contexts, event._replace(name=f"{name}{tau_thread.CONTEXT}{path}"))
    root = flat.path(0) if len(measured.tree) else None
    if root:
        for name in filter(with_path.__contains__, plain):
            _add(contexts, plain[name]._replace(name=f"{name}{tau_thread.CONTEXT}{root}"))
    return [*totals.values(), *contexts.values()]


def _add(events: dict[str, Event], event: Event) -> None:
    other = events.get(event.name)
    events[event.name] = event if other is None else _together(other, event)


def _together(first: Event, other: Event) -> Event:
    count = first.count + other.count
    return Event(
        name=first.name,
        count=count,
        maximum=max(first.maximum, other.maximum),
        minimum=min(first.minimum, other.minimum),
        mean=(first.mean * first.count + other.mean * other.count) / count if count else math.nan,
        sum_squares=first.sum_squares + other.sum_squares,
    )


def facts(profile: Profile, measured: ThreadProfile) -> dict[str, str]:
    """The metadata that TAU repeats in every file, by name."""
    node = measured.thread.node
    facts = {**profile.metadata, **profile.node_metadata.get(node, {})}
    for name in (tau_thread.CALLPATHS, "taupy.invariants"):
        facts.pop(name, None)  # about our tree, not about the measurement
    place = re.compile(r"(.*) \[(\d+\.\d+\.\d+)\]", re.DOTALL)
    thread = measured.thread
    here = f"{thread.node}.{thread.context}.{thread.thread}"
    for name in list(facts):
        if (match := place.fullmatch(name)) and match[1] in facts:
            value = facts.pop(name)
            if match[2] == here:
                facts[match[1]] = value
    facts.setdefault("Starting Timestamp", str(round(profile.started_at * 1e6)))
    facts |= {
        tau_thread.DURATION: str(profile.duration_ns),
        tau_thread.APPLICATION: profile.application,
        tau_thread.EXPERIMENT: profile.experiment,
    }
    for device in profile.devices:
        if device.node == node:
            facts.setdefault(f"GPU[{device.ordinal}] Name", device.name)
    if measured.thread.name:
        facts[tau_thread.THREAD_NAME] = measured.thread.name
    if measured.thread.native_id:
        facts[tau_thread.THREAD_ID] = str(measured.thread.native_id)
    if measured.thread.count > 1:
        numbers = (thread.count, thread.least_ns or 0, thread.most_ns or 0)
        facts[tau_thread.THREAD_COUNT] = " ".join(map(str, numbers))
    return dict(sorted(facts.items()))


def one_line(name: str, lost: Lost) -> str:
    """A name with escapes instead of line breaks and control characters; `lost` counts the names
    that change."""
    shown = "\t".join(map(visible, name.split("\t")))  # TAU's own names hold tabs
    lost.names += shown != name
    return shown
