"""Our profile as TAU's text files, for TAU's pprof, ParaProf and PerfExplorer.

Times are written in microseconds with all their nanoseconds. A stream of a GPU is a
thread of context 1 + ordinal, as with us. Call paths stand in addition to routines, as
TAU writes them with TAU_CALLPATH; readers of TAU take lines of at most 64 KiB.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from taupy.formats import tau_names, tau_thread
from taupy.formats.progress import Progress
from taupy.formats.tau_names import ARROW, CALLPATH_GROUP, CUT, MICROSECOND_NS
from taupy.formats.tau_text import Event
from taupy.model.forest import outermost
from taupy.model.profile import CallTree, Metric, Profile, ThreadProfile, Timer

_LONGEST_PATH = 60_000  # characters; pprof reads lines of 64 KiB
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Make the folder. Several metrics have a folder each."""
    lost = _Lost()
    names = [_one_line(timer.full_name, lost) for timer in profile.timers]
    progress.begin(target.name, sum(len(one.tree) for one in profile.threads))
    target.mkdir()
    metrics = [
        metric
        for metric in profile.metrics
        if any(metric.name in one.tree.inclusive for one in profile.threads)
    ]
    folders = {metric: target for metric in metrics}
    if len(metrics) > 1:
        folders = {metric: target / folder for metric, folder in _folders(metrics).items()}
    for folder in {*folders.values()} - {target}:
        folder.mkdir()
    for measured in profile.threads:
        thread = measured.thread
        flat = _Flat(measured.tree, profile.timers, names, stream=thread.kind == "stream")
        lost.paths += flat.too_long
        if measured.launches:
            lost.launches += len(measured.launches)
        facts = _facts(profile, measured)
        events = _events(measured, flat, lost)
        for metric in metrics:
            if metric.name not in measured.tree.inclusive:
                continue
            file = f"profile.{thread.node}.{thread.context}.{thread.thread}"
            with open(folders[metric] / file, "w", encoding="utf-8", newline="\n") as out:
                _write_thread(out, metric, measured.tree, flat, facts, events)
        progress.advance(len(measured.tree))
    lost.devices = len(profile.devices)
    lost.no_metric = sum(not one.tree.inclusive for one in profile.threads)
    return lost.lines()


@dataclass(slots=True)
class _Lost:
    """What TAU's files cannot carry."""

    names: int = 0
    paths: int = 0
    launches: int = 0
    devices: int = 0
    mixed_events: int = 0
    no_metric: int = 0

    def lines(self) -> list[str]:
        said = [
            (
                self.names,
                "names with line breaks or control characters; they are written as escapes",
            ),
            (self.paths, "call paths too long for TAU's readers; their routines' sums are there"),
            (self.launches, "launch configurations (grid, block, registers, occupancy)"),
            (self.devices, "descriptions of GPUs, but for their names in the metadata"),
            (self.mixed_events, "sums of user events that stand with and without call paths"),
            (self.no_metric, "threads without any metric"),
        ]
        return [f"not written: {count} {what}" for count, what in said if count]


class _Flat:
    """A thread's rows in TAU's terms: which are routines, which are paths, and their names."""

    def __init__(
        self, tree: CallTree, timers: list[Timer], names: list[str], *, stream: bool
    ) -> None:
        self.tree = tree
        self.names = names
        self.groups = [tau_names.tau_groups(timer.groups) for timer in timers]
        self.stream = stream
        cuts = {n for n, one in enumerate(timers) if one.name == CUT.name and one.file is None}
        self.cuts = {n for n in cuts if timers[n].groups == CUT.groups}
        self.below_cut = bytearray(len(tree))
        for row, above in enumerate(tree.parent):
            self.below_cut[row] = above >= 0 and (
                self.below_cut[above] or tree.timer[above] in self.cuts
            )
        # One routine may be several timers of ours, in different groups.
        self.routine = [names[timer] for timer in tree.timer]
        self.size = array("q")  # characters of a row's path
        for row, above in enumerate(tree.parent):
            whole = above < 0 or tree.timer[above] in self.cuts
            self.size.append((0 if whole else self.size[above]) + len(self.routine[row]) + 4)
        self.paths = [row for row in range(len(tree)) if self.is_path(row) and self.listed(row)]
        self.too_long = sum(self.size[row] > _LONGEST_PATH for row in self.paths)
        self.paths = [row for row in self.paths if self.size[row] <= _LONGEST_PATH]
        ids: dict[str, int] = {}
        self.outermost = outermost(
            tree.parent, [ids.setdefault(name, len(ids)) for name in self.routine]
        )

    def is_empty(self, row: int) -> bool:
        tree = self.tree
        return not (tree.calls[row] or tree.subroutines[row]) and not any(
            column[row]
            for columns in (tree.inclusive, tree.exclusive)
            for column in columns.values()
        )

    def path(self, row: int) -> str | None:
        """The row's path as TAU writes it; None where it is too long.

        It begins below the last `(callers not recorded)`.
        """
        if self.size[row] > _LONGEST_PATH:
            return None
        tree = self.tree
        routines: list[str] = []
        while row >= 0 and tree.timer[row] not in self.cuts:
            routines.append(self.routine[row])
            row = tree.parent[row]
        return ARROW.join(reversed(routines))

    def listed(self, row: int) -> bool:
        """Is the row more than a place under which others stand?"""
        if self.tree.timer[row] in self.cuts:
            return False
        if self.stream:
            return self.tree.calls[row] > 0
        return not (self.below_cut[row] and self.is_empty(row))

    def is_path(self, row: int) -> bool:
        above = self.tree.parent[row]
        return above >= 0 and self.tree.timer[above] not in self.cuts


def _write_thread(
    out: IO[str],
    metric: Metric,
    tree: CallTree,
    flat: _Flat,
    facts: dict[str, str],
    events: list[Event],
) -> None:
    inclusive, exclusive = tree.inclusive[metric.name], tree.exclusive[metric.name]
    routines = _routines(tree, flat, inclusive, exclusive)
    paths = [
        row
        for row in flat.paths
        if exclusive[row] == exclusive[row] and inclusive[row] == inclusive[row]  # no NaN
    ]
    name = _CONTROL.sub("_", tau_names.metric_name(metric)).replace("\n", "_")
    out.write(f"{len(routines) + len(paths)} templated_functions_MULTI_{name}\n")
    facts = {"Metric Name": name, tau_thread.METRIC: f"{metric.name} [{metric.unit}]", **facts}
    attributes = "".join(
        f"<attribute><name>{_xml(key)}</name><value>{_xml(value)}</value></attribute>"
        for key, value in facts.items()
    )
    out.write(f"# Name Calls Subrs Excl Incl ProfileCalls # <metadata>{attributes}</metadata>\n")
    shown = _shown_in_microseconds if metric.unit == "ns" else _real
    for routine, (calls, subroutines, own, whole, groups) in routines.items():
        values = f"{calls} {subroutines} {shown(own)} {shown(whole)}"
        out.write(f'"{routine}" {values} 0 GROUP="{groups}" \n')
    for row in paths:
        values = f"{tree.calls[row]} {tree.subroutines[row]} {shown(exclusive[row])} "
        values += shown(inclusive[row])
        groups = f"{CALLPATH_GROUP}|{flat.groups[tree.timer[row]]}"
        out.write(f'"{flat.path(row)}" {values} 0 GROUP="{groups}" \n')
    out.write("0 aggregates\n")
    if events:
        out.write(f"{len(events)} userevents\n# eventname numevents max min mean sumsqr\n")
        for event in events:
            values = " ".join(map(_real, event[2:]))
            out.write(f'"{event.name}" {event.count} {values}\n')


def _routines(
    tree: CallTree, flat: _Flat, inclusive: array[int], exclusive: array[int]
) -> dict[str, tuple[int, int, float, float, str]]:
    """Calls, subroutines, exclusive, inclusive, groups; not of what was not measured."""
    sums: dict[str, list[float]] = {}
    groups: dict[str, str] = {}
    measured: set[str] = set()
    for row in range(len(tree)):
        if not flat.listed(row):
            continue
        name = flat.routine[row]
        groups.setdefault(name, flat.groups[tree.timer[row]])
        total = sums.setdefault(name, [0, 0, 0, 0])
        total[0] += tree.calls[row]
        total[1] += tree.subroutines[row]
        if exclusive[row] == exclusive[row]:  # no NaN
            total[2] += exclusive[row]
            measured.add(name)
    for row in flat.outermost:
        if flat.listed(row) and inclusive[row] == inclusive[row]:
            sums[flat.routine[row]][3] += inclusive[row]
            measured.add(flat.routine[row])
    return {
        name: (int(calls), int(subroutines), own, whole, groups[name])
        for name, (calls, subroutines, own, whole) in sums.items()
        if name in measured
    }


def _events(measured: ThreadProfile, flat: _Flat, lost: _Lost) -> list[Event]:
    """Each event over all its call paths, then with each, as TAU writes context events."""
    totals: dict[str, Event] = {}
    contexts: list[Event] = []
    plain: dict[str, Event] = {}
    for one in measured.user_events:
        name = _one_line(tau_names.event_name(one.name, one.unit), lost)
        event = Event(name, one.count, one.maximum, one.minimum, one.mean, one.sum_squares)
        path = None if one.row is None else flat.path(one.row)
        if path is None:
            plain[name] = event
        else:
            contexts.append(event._replace(name=f"{name}{tau_thread.CONTEXT}{path}"))
            totals[name] = _together(totals[name], event) if name in totals else event
    lost.mixed_events += len(plain.keys() & totals.keys())
    return [*{**totals, **plain}.values(), *contexts]


def _together(one: Event, other: Event) -> Event:
    count = one.count + other.count
    return Event(
        one.name,
        count,
        max(one.maximum, other.maximum),
        min(one.minimum, other.minimum),
        (one.mean * one.count + other.mean * other.count) / count if count else math.nan,
        one.sum_squares + other.sum_squares,
    )


def _facts(profile: Profile, measured: ThreadProfile) -> dict[str, str]:
    """The metadata that TAU repeats in every file, by name."""
    node = measured.thread.node
    facts = {**profile.metadata, **profile.node_metadata.get(node, {})}
    for name in (tau_thread.CALLPATHS, "taupy.invariants"):
        facts.pop(name, None)  # remarks on our tree, not on the measurement
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
    return dict(sorted(facts.items()))


def _folders(metrics: list[Metric]) -> dict[Metric, str]:
    """A folder for each metric; names that TAU's rule makes equal get numbers."""
    found: dict[Metric, str] = {}
    for metric in metrics:
        name = _CONTROL.sub("_", tau_names.folder_name(tau_names.metric_name(metric)))
        number = 2
        while name in found.values():
            name = f"{name.rstrip('0123456789')}{number}"
            number += 1
        found[metric] = name
    return found


def _one_line(name: str, lost: _Lost) -> str:
    if not _CONTROL.search(name) and "\n" not in name:
        return name
    lost.names += 1
    return _CONTROL.sub(_escape, name.replace("\n", "\\n"))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _xml(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\n", "&#xa;")):
        text = text.replace(char, entity)
    return _CONTROL.sub(lambda match: f"&#x{ord(match[0]):x};", text)


def _shown_in_microseconds(nanoseconds: float) -> str:
    if isinstance(nanoseconds, float):
        if not nanoseconds.is_integer():
            return repr(nanoseconds / MICROSECOND_NS)
        nanoseconds = int(nanoseconds)
    whole, rest = divmod(abs(nanoseconds), MICROSECOND_NS)
    text = f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if nanoseconds < 0 else text


def _real(value: float) -> str:
    """A number that C, Java and we read; whole ones without a point, as TAU's %G."""
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "NaN"
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value)
